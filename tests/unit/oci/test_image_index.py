"""Several images under one digest."""

from __future__ import annotations

from lockbuild.model.digest import Digest
from lockbuild.model.platform import Platform
from lockbuild.oci.index import ImageEntry, compute_index

AMD = ImageEntry(Platform("linux", "amd64"), Digest("a" * 64), 863)
ARM = ImageEntry(Platform("linux", "arm64"), Digest("b" * 64), 864)


def test_the_golden_bytes() -> None:
    index = compute_index([ARM, AMD], {"org.opencontainers.image.revision": "ä"})
    assert index.data.decode() == (
        '{"annotations":{"org.opencontainers.image.revision":"ä"},"manifests":['
        f'{{"digest":"sha256:{"a" * 64}","mediaType":"application/vnd.oci.image.manifest.v1+json",'
        '"platform":{"architecture":"amd64","os":"linux"},"size":863},'
        f'{{"digest":"sha256:{"b" * 64}","mediaType":"application/vnd.oci.image.manifest.v1+json",'
        '"platform":{"architecture":"arm64","os":"linux"},"size":864}],'
        '"mediaType":"application/vnd.oci.image.index.v1+json","schemaVersion":2}'
    )
    assert index.digest == Digest.of(index.data)


def test_what_it_depends_on() -> None:
    index = compute_index([AMD, ARM])
    assert compute_index([ARM, AMD]) == index
    assert compute_index([AMD]) != index
    assert compute_index([AMD, ARM], {"a": "b"}) != index
