"""An image as one tar stream that engines load: a docker-archive and an OCI image layout at once.

A classic Docker store reads ``manifest.json`` (``docker save``'s format); a containerd store, and tools such
as skopeo, see ``oci-layout`` and read ``index.json`` (OCI image specification, image-layout.md), and so keep
our manifest and its digest. The blobs are the same files for both.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from io import RawIOBase
from typing import TYPE_CHECKING

from lockbuild.archive import canonical, ustar
from lockbuild.errors import IntegrityError
from lockbuild.model.digest import Digest
from lockbuild.model.environment import Environment
from lockbuild.oci.image import MANIFEST_TYPE, Image, canonical_json, descriptor

if TYPE_CHECKING:
    from typing_extensions import Buffer


def write_image_archive(
    image: Image, environment: Environment, reference: str, write: Callable[[Buffer], None], *, skip: int = 0
) -> None:
    """Give the archive to ``write``, piece by piece.

    ``reference`` is ``name:tag``. The first ``skip`` layers are left out, for an engine that has them.
    IntegrityError where a tree is not as large as when the image was computed.
    """

    def blob(digest: Digest) -> str:
        return f"blobs/sha256/{digest.hex}"

    name, _, tag = reference.rpartition(":")
    index = {
        "manifests": [
            {
                **descriptor(MANIFEST_TYPE, image.manifest_digest, len(image.manifest)),
                "annotations": {
                    "io.containerd.image.name": f"docker.io/{name}:{tag}",
                    "org.opencontainers.image.ref.name": tag,
                },
                "platform": {
                    "architecture": environment.platform.architecture,
                    "os": environment.platform.os,
                },
            }
        ],
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "schemaVersion": 2,
    }
    docker = [
        {
            "Config": blob(image.config_digest),
            "Layers": [blob(diff_id) for diff_id in image.diff_ids],
            "RepoTags": [reference],
        }
    ]
    write(ustar.directory_header(b"blobs") + ustar.directory_header(b"blobs/sha256"))
    for path, data in (
        ("oci-layout", json.dumps({"imageLayoutVersion": "1.0.0"}).encode()),
        ("index.json", canonical_json(index)),
        ("manifest.json", canonical_json(docker)),
        (blob(image.config_digest), image.config),
        (blob(image.manifest_digest), image.manifest),
    ):
        write(ustar.file_header(path.encode(), len(data), executable=False))
        write(data + bytes(ustar.padding(len(data))))
    for tree, size in list(zip(environment.trees, image.sizes, strict=True))[skip:]:
        write(ustar.file_header(blob(tree.digest).encode(), size, executable=False))
        out = _Counting(write)
        canonical.write_canonical_tar(tree.root, out)  # type: ignore[arg-type]
        if out.count != size:
            raise IntegrityError(
                f"the tree {tree.digest} has become {out.count} bytes large; it was {size}",
                on=tree.name,
                hint="run `lockbuild store verify --repair`, then `lockbuild sync`",
            )
        write(bytes(ustar.padding(size)))
    write(ustar.END)


class _Counting(RawIOBase):
    def __init__(self, write: Callable[[Buffer], None]) -> None:
        self._write = write
        self.count = 0

    def write(self, data: Buffer) -> int:
        size = memoryview(data).nbytes
        self.count += size
        self._write(data)
        return size
