"""What caches hold: manifests that are a function of what they are for."""

from __future__ import annotations

import json

import pytest

from lockbuild.errors import IntegrityError
from lockbuild.model.digest import Digest
from lockbuild.model.lock import Source
from lockbuild.model.outcome import BuiltFile
from lockbuild.oci.artefacts import only_layer, outputs_artefact, source_artefact, tree_artefact
from lockbuild.oci.cache import file_name
from lockbuild.oci.layers import EncodedLayer

TREE, LAYER = Digest.of(b"tree"), Digest.of(b"layer")
ZSTD = "application/vnd.oci.image.layer.v1.tar+zstd"


def test_a_tree_is_one_layer_under_its_digest() -> None:
    artefact = tree_artefact(EncodedLayer(TREE, LAYER, 10, ZSTD))
    assert artefact.tag == f"tree-{TREE.hex}"
    assert json.loads(artefact.manifest) == {
        "artifactType": "application/vnd.lockbuild.tree.v1",
        "config": {
            "digest": "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a",
            "mediaType": "application/vnd.oci.empty.v1+json",
            "size": 2,
        },
        "layers": [{"digest": str(LAYER), "mediaType": ZSTD, "size": 10}],
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "schemaVersion": 2,
    }
    layer = only_layer(artefact.manifest, on="x")
    assert (layer.digest, layer.size) == (LAYER, 10)


def test_the_manifests_are_these_bytes_for_ever() -> None:
    """A change here makes every cache in the world useless, and needs a new artifactType."""
    outputs = outputs_artefact(
        Digest.of(b"input"),
        "hello",
        "linux/amd64",
        [BuiltFile("b/ü.js", 2, Digest.of(b"b")), BuiltFile("a.wasm", 1, Digest.of(b"a"))],
    )
    source = source_artefact(Digest.of(b"s"), Digest.of(b"s"), 1, "x_1.0.deb")
    tree = tree_artefact(EncodedLayer(TREE, LAYER, 10, ZSTD))
    assert [Digest.of(one.manifest).short for one in (tree, source, outputs)] == GOLDEN
    assert [layer.digest for layer in outputs.layers] == [Digest.of(b"a"), Digest.of(b"b")]


GOLDEN = ["220863ab17e8", "d3028129c5f2", "3186c59c742f"]


@pytest.mark.parametrize("layers", [[], [1, 2]])
def test_an_artefact_has_one_layer(layers: list[int]) -> None:
    value = json.loads(tree_artefact(EncodedLayer(TREE, LAYER, 10, ZSTD)).manifest)
    value["layers"] = value["layers"] * len(layers)
    with pytest.raises(IntegrityError, match="where one is expected"):
        only_layer(json.dumps(value).encode(), on="x")


@pytest.mark.parametrize(
    ("purl", "fields", "name"),
    [
        ("pkg:deb/debian/a@1", {"path": "pool/main/a/a_1_all.deb"}, "a_1_all.deb"),
        ("pkg:generic/a@1", {"url": "https://a.example/x/a.tar.gz?token=1"}, "a.tar.gz"),
        ("pkg:generic/a@1", {"url": "https://a.example/x/", "commit": "0" * 40}, f"{'0' * 40}.tar"),
    ],
)
def test_what_the_file_of_a_source_is_called(purl: str, fields: dict[str, str], name: str) -> None:
    assert file_name(Source(purl=purl, sha256=Digest.of(b""), trees=[], **fields)) == name
