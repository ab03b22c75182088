"""Images as a pure function of an environment."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockbuild.archive.canonical import tree_digest, write_canonical_tar
from lockbuild.model.digest import Digest
from lockbuild.model.environment import Environment, MountedTree
from lockbuild.model.platform import Platform
from lockbuild.oci.image import compute
from lockbuild.oci.sizes import layer_size


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    trees = []
    for name, mount in (("base", "/"), ("tools.cmake", "/opt/cmake")):
        root = tmp_path / name
        (root / "opt/cmake").mkdir(parents=True)
        (root / "opt/cmake/file").write_text(name)
        trees.append(MountedTree(name, tree_digest(root), mount, root))
    return Environment(Platform("linux", "amd64"), tuple(trees), {"TZ": "UTC", "A": "ä=b"})


def test_the_golden_bytes(environment: Environment) -> None:
    image = compute(environment, labels={"org.opencontainers.image.title": "hello"})
    base, cmake = (tree.digest for tree in environment.trees)
    assert image.config.decode() == (
        '{"architecture":"amd64","config":{"Cmd":["/bin/sh"],"Env":["A=ä=b","TZ=UTC"],'
        '"Labels":{"org.opencontainers.image.title":"hello"},"User":"1000:1000","WorkingDir":"/build"},'
        '"created":"1970-01-01T00:00:00Z","history":['
        '{"created":"1970-01-01T00:00:00Z","created_by":"lockbuild: base at /"},'
        '{"created":"1970-01-01T00:00:00Z","created_by":"lockbuild: tools.cmake at /opt/cmake"}],'
        f'"os":"linux","rootfs":{{"diff_ids":["{base}","{cmake}"],"type":"layers"}}}}'
    )
    # 'base' and 'tools.cmake' have the same files; two directories, one file, the end: six blocks.
    assert image.sizes == (3072, 3072)
    assert image.manifest.decode() == (
        '{"config":{"digest":"' + str(image.config_digest) + '",'
        f'"mediaType":"application/vnd.oci.image.config.v1+json","size":{len(image.config)}}},"layers":['
        f'{{"digest":"{base}","mediaType":"application/vnd.oci.image.layer.v1.tar","size":3072}},'
        f'{{"digest":"{cmake}","mediaType":"application/vnd.oci.image.layer.v1.tar","size":3072}}],'
        '"mediaType":"application/vnd.oci.image.manifest.v1+json","schemaVersion":2}'
    )
    assert image.config_digest == Digest.of(image.config)
    assert image.manifest_digest == Digest.of(image.manifest)


def test_what_an_image_depends_on(environment: Environment) -> None:
    image = compute(environment, labels={})
    assert compute(replace(environment, variables={"A": "ä=b", "TZ": "UTC"}), labels={}) == image
    moved = tuple(reversed(environment.trees))
    for changed in (
        compute(replace(environment, trees=moved), labels={}),
        compute(replace(environment, variables={"A": "b"}), labels={}),
        compute(replace(environment, platform=Platform("linux", "arm64")), labels={}),
        compute(environment, labels={"a": "b"}),
    ):
        assert changed.config_digest != image.config_digest
        assert changed.manifest_digest != image.manifest_digest


names = st.text(
    st.characters(blacklist_characters="/\0", blacklist_categories=["Cs"]), min_size=1, max_size=60
)


@given(
    files=st.dictionaries(
        names.filter(lambda name: name not in (".", "..") and not name.startswith(".wh.")),
        st.one_of(st.binary(max_size=1500), st.text("abc/.", min_size=1, max_size=300), st.none()),
        max_size=6,
    )
)
def test_a_layers_size_is_that_of_its_tar(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, object]
) -> None:
    root = tmp_path_factory.mktemp("tree")
    for name, content in files.items():
        path = root / ("d" * 90) / name
        path.parent.mkdir(exist_ok=True)
        if content is None:
            path.mkdir()
        elif isinstance(content, bytes):
            path.write_bytes(content)
        else:
            assert isinstance(content, str)
            path.symlink_to(content)
    out = io.BytesIO()
    write_canonical_tar(root, out)
    assert layer_size(Digest.of(out.getvalue()), root) == len(out.getvalue())
