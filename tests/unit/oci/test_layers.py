"""Layers: the same bytes for everybody, and no tree but the one that was asked for."""

from __future__ import annotations

import gzip
import io
import os
import random
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import zstandard

from lockbuild.archive.canonical import tree_digest, write_canonical_tar
from lockbuild.errors import IntegrityError
from lockbuild.events import Advanced, Event, Finished, Started
from lockbuild.model.digest import Digest
from lockbuild.oci import decompress as decompress_module
from lockbuild.oci.encoders import Compression, encoder
from lockbuild.oci.layers import EncodedLayer, blob_chunks, decode, encode, encoded, layer_chunks
from lockbuild.store import Store

COMPRESSED: list[Compression] = ["gzip", "zstd"]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def tiny_tree(root: Path) -> Path:
    (root / "usr/bin").mkdir(parents=True)
    (root / "usr/bin/tool").write_bytes(b"#!/bin/sh\n" + b"echo tool\n" * 400)
    (root / "usr/bin/tool").chmod(0o755)
    (root / "bin").symlink_to("usr/bin")
    (root / "empty").touch()
    (root / ("long" * 30)).write_text("ä\n")
    return root


def large_tree(root: Path, size: int) -> Path:
    """Bytes that can be compressed, but not to nothing."""
    words = random.Random(7)
    root.mkdir()
    vocabulary = [words.randbytes(12) for _ in range(3000)]
    for number in range(4):
        (root / f"file{number}").write_bytes(b"".join(words.choices(vocabulary, k=size // 48)))
    return root


def stored(store: Store, root: Path) -> tuple[Digest, Path]:
    """Put the tree into the store."""
    with store.new_tree() as tree:
        subprocess.run(["cp", "-a", f"{root}/.", str(tree.path)], check=True)
        digest = tree.commit()
    return digest, store.tree_path(digest)


def content(store: Store, layer: EncodedLayer, root: Path) -> bytes:
    return b"".join(bytes(chunk) for chunk in layer_chunks(store, layer, root))


def tar_of(root: Path) -> bytes:
    out = io.BytesIO()
    write_canonical_tar(root, out)
    return out.getvalue()


# What the pinned encoders make of `tiny_tree`. They change with the encoder's name, and never otherwise.
GOLDEN: dict[str, tuple[str, str]] = {
    "none": (
        "none",
        "sha256:c61d53e3dde04daf6f7282838476f7777f523a010bd021becfc757edcc32ad5e",
    ),
    "gzip": (
        "deflate 0.9.0 level 6 members 4 MiB",
        "sha256:50d9a2205bacdc217e81795d118f06cf70db4cd1e47bf51fc93285f7525a95b0",
    ),
    "zstd": (
        "libzstd 1.5.7 level 3 jobs 8 MiB",
        "sha256:83c475805d61e1e6d4c417e067cf654722e7dbfd6a292cffa396cb8a86b808a2",
    ),
}


@pytest.mark.parametrize("compression", COMPRESSED)
def test_the_bytes_do_not_depend_on_the_number_of_threads(
    store: Store, tmp_path: Path, compression: Compression
) -> None:
    root = large_tree(tmp_path / "tree", 20 << 20)
    diff_id = tree_digest(root)
    digests = set()
    for threads in (1, 2, 5):
        other = Store(tmp_path / f"store{threads}")
        layer = encode(other, diff_id, root, compression, threads=threads)
        assert layer.diff_id == diff_id
        assert layer.size < 15 << 20
        digests.add(layer.digest)
    assert len(digests) == 1


@pytest.mark.parametrize("compression", ["none", *COMPRESSED])
def test_the_golden_digests(store: Store, tmp_path: Path, compression: Compression) -> None:
    root = tiny_tree(tmp_path / "tree")
    layer = encode(store, tree_digest(root), root, compression)
    assert (encoder(compression), str(layer.digest)) == GOLDEN[compression]
    assert layer.media_type.startswith("application/vnd.oci.image.layer.v1.tar")
    assert len(content(store, layer, root)) == layer.size


def test_another_process_makes_the_same_bytes(tmp_path: Path) -> None:
    root = tiny_tree(tmp_path / "tree")
    program = (
        "import sys; from pathlib import Path; from lockbuild.store import Store\n"
        "from lockbuild.archive.canonical import tree_digest; from lockbuild.oci.layers import encode\n"
        "root = Path(sys.argv[1])\n"
        "for c in ('none', 'gzip', 'zstd'): print(encode(Store(Path(sys.argv[2])), tree_digest(root), root, c).digest)"
    )
    seen = set()
    for number in ("1", "2"):
        seen.add(
            subprocess.run(
                [sys.executable, "-c", program, str(root), str(tmp_path / number)],
                env={**os.environ, "PYTHONHASHSEED": number, "ZSTD_NBTHREADS": number, "TZ": "Asia/Tokyo"},
                check=True,
                capture_output=True,
                text=True,
            ).stdout
        )
    assert seen == {"".join(f"{digest}\n" for _, digest in GOLDEN.values())}


@pytest.mark.parametrize("compression", COMPRESSED)
def test_other_programs_read_it(store: Store, tmp_path: Path, compression: Compression) -> None:
    root = tiny_tree(tmp_path / "tree")
    layer = encode(store, tree_digest(root), root, compression)
    path = store.blob_path(layer.digest)
    program = {"gzip": ["gzip", "-dc"], "zstd": ["zstd", "-dc"]}[compression]
    assert subprocess.run([*program, path], check=True, capture_output=True).stdout == tar_of(root)


@pytest.mark.parametrize("compression", COMPRESSED)
def test_it_is_encoded_once(store: Store, tmp_path: Path, compression: Compression) -> None:
    root = tiny_tree(tmp_path / "tree")
    diff_id = tree_digest(root)
    events: list[Event] = []
    assert encoded(store, diff_id, compression) is None
    layer = encode(store, diff_id, root, compression, name="tools.tiny", report=events.append)
    assert isinstance(events[0], Started)
    assert events[0].label == f"compress tools.tiny with {compression}"
    total = events[0].total
    assert isinstance(events[-1], Finished)
    assert sum(event.amount for event in events if isinstance(event, Advanced)) == total
    assert encoded(store, diff_id, compression) == layer
    events.clear()
    assert encode(store, diff_id, tmp_path / "nowhere", compression, report=events.append) == layer
    assert events == []


def test_an_uncompressed_layer_takes_no_room(store: Store, tmp_path: Path) -> None:
    root = tiny_tree(tmp_path / "tree")
    layer = encode(store, tree_digest(root), root, "none")
    assert not store.has_blob(layer.digest)
    assert content(store, layer, root) == tar_of(root)


@pytest.mark.parametrize("compression", COMPRESSED)
def test_a_tree_that_is_not_what_its_digest_says(
    store: Store, tmp_path: Path, compression: Compression
) -> None:
    root = tiny_tree(tmp_path / "tree")
    diff_id = tree_digest(root)
    (root / "empty").write_text("full")
    with pytest.raises(
        IntegrityError, match=f"tools.x: the tree {diff_id} in the store is damaged"
    ) as failure:
        encode(store, diff_id, root, compression, name="tools.x")
    assert failure.value.hint is not None
    assert encoded(store, diff_id, compression) is None
    plain = encode(store, diff_id, root, "none")
    with pytest.raises(IntegrityError, match="in the store is damaged"):
        content(store, plain, root)


def test_a_damaged_blob_is_noticed_removed_and_made_again(store: Store, tmp_path: Path) -> None:
    root = tiny_tree(tmp_path / "tree")
    diff_id = tree_digest(root)
    layer = encode(store, diff_id, root, "zstd")
    path = store.blob_path(layer.digest)
    data = bytearray(path.read_bytes())
    data[50] ^= 1
    path.chmod(0o644)
    path.write_bytes(data)
    with pytest.raises(IntegrityError, match="was damaged .* and is now removed"):
        content(store, layer, root)
    assert encode(store, diff_id, root, "zstd") == layer
    assert len(content(store, layer, root)) == layer.size


# Decoding


@pytest.mark.parametrize("compression", ["none", *COMPRESSED])
def test_a_layer_becomes_its_tree(store: Store, tmp_path: Path, compression: Compression) -> None:
    root = large_tree(tmp_path / "tree", 3 << 20)
    tiny_tree(root / "below")
    diff_id = tree_digest(root)
    layer = encode(store, diff_id, root, compression)
    file = tmp_path / "layer"
    file.write_bytes(content(store, layer, root))
    decode(store, file, diff_id)
    assert tree_digest(store.tree_path(diff_id)) == diff_id
    other = Store(tmp_path / "other")
    decode(other, pieces(file.read_bytes(), 1000), diff_id)
    assert tree_digest(other.tree_path(diff_id)) == diff_id
    assert (other.tree_path(diff_id) / "below/usr/bin/tool").stat().st_mode & 0o777 == 0o755


def pieces(data: bytes, size: int) -> Iterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


def test_a_strange_umask_changes_nothing(store: Store, tmp_path: Path) -> None:
    root = tiny_tree(tmp_path / "tree")
    tar, diff_id = tar_of(root), tree_digest(root)
    decode(store, iter([tar]), diff_id, name="to make the store")
    store.tree_path(diff_id).rename(tmp_path / "away")
    old = os.umask(0o137)
    try:
        decode(store, iter([tar]), diff_id)
    finally:
        os.umask(old)
    assert (store.tree_path(diff_id) / "usr/bin/tool").stat().st_mode & 0o777 == 0o755


def test_layers_of_other_encoders_are_read(store: Store, tmp_path: Path) -> None:
    root = tiny_tree(tmp_path / "tree")
    tar, diff_id = tar_of(root), tree_digest(root)
    for number, data in enumerate(
        (
            gzip.compress(tar, 1),
            gzip.compress(tar[:700]) + gzip.compress(tar[700:]),
            zstandard.compress(tar, 19),
        )
    ):
        decode(Store(tmp_path / str(number)), iter([data]), diff_id)


def refused(store: Store, data: bytes, diff_id: Digest, match: str) -> None:
    with pytest.raises(IntegrityError, match=match) as failure:
        decode(store, pieces(data, 7000), diff_id, name="layer 3")
    assert str(failure.value).startswith("layer 3")
    assert failure.value.hint
    assert not store.has_tree(diff_id)
    assert list((store.root / "tmp").iterdir()) == []


@pytest.mark.parametrize("compression", ["none", *COMPRESSED])
def test_what_is_not_the_layer_is_refused(store: Store, tmp_path: Path, compression: Compression) -> None:
    root = tiny_tree(tmp_path / "tree")
    diff_id = tree_digest(root)
    data = content(store, encode(store, diff_id, root, compression), root)
    refused(store, data, Digest("0" * 64), f"unpacks to another tree than it should: .*{diff_id}")
    refused(store, data[: len(data) // 2], diff_id, "cut short|damaged|cannot be unpacked")
    refused(store, data + b"garbage!", diff_id, "something follows its end|incorrect header|[Uu]nknown frame")
    refused(store, data + data, diff_id, "something follows its end")
    refused(store, b"", diff_id, "cut short")
    refused(store, b"hello" * 300, diff_id, "not the canonical tar")


def test_every_flipped_bit_is_noticed(store: Store, tmp_path: Path) -> None:
    root = tiny_tree(tmp_path / "tree")
    diff_id = tree_digest(root)
    data = content(store, encode(store, diff_id, root, "none"), root)
    chance = random.Random(3)
    for _ in range(300):
        flipped = bytearray(data)
        at = chance.randrange(len(data))
        flipped[at] ^= 1 << chance.randrange(8)
        refused(store, bytes(flipped), diff_id, "layer 3")


def tar_with(*members: tuple[str, bytes, str]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, kind, target in members:
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, target
            info.mode = {b"5": 0o755, b"2": 0o777}.get(kind, 0o644)
            tar.addfile(info)
    return out.getvalue()


def canonical_with(*headers: bytes) -> bytes:
    return b"".join(headers) + bytes(1024)


def test_entries_that_lead_out(store: Store) -> None:
    from lockbuild.archive.ustar import directory_header, file_header, symlink_header

    out = symlink_header(b"out", b"/tmp")
    cases = {
        "impossible name": canonical_with(file_header(b"..", 0, executable=False)),
        "not a directory of it": canonical_with(out, file_header(b"out/x", 0, executable=False)),
        "below what is not a directory": canonical_with(file_header(b"/etc/x", 0, executable=False)),
        "not in order": canonical_with(directory_header(b"b"), directory_header(b"a")),
        "not in order ": canonical_with(out, file_header(b"out", 0, executable=False)),
        "whiteout": canonical_with(file_header(b".wh.x", 0, executable=False)),
        "neither a file": tar_with(("null", b"3", "")),
        "neither a file ": tar_with(("a", b"1", "b")),
        "not the canonical one": tar_with(("a", b"0", "")).replace(b"ustar\x0000", b"ustar  \0"),
        "empty or has a NUL": canonical_with(symlink_header(b"a", b"")),
        "cannot be made": canonical_with(file_header(b"n" * 300, 0, executable=False)),
        "single zero block": bytes(512) + file_header(b"a", 0, executable=False),
    }
    for match, data in cases.items():
        refused(store, data, Digest("1" * 64), match.strip())


def test_bombs(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decompress_module, "_GENEROUS", 8 << 20)
    from lockbuild.archive.ustar import file_header

    plain = file_header(b"zeros", 1 << 30, executable=False) + bytes(64 << 20)
    # At most a thousandfold is what gzip can do, and no more.
    refused(store, zstandard.compress(plain), Digest("2" * 64), "grow to more than 1000 times")
    greedy = zstandard.ZstdCompressor(
        compression_params=zstandard.ZstdCompressionParameters.from_level(1, window_log=30)
    )
    frame = greedy.compressobj()
    data = frame.compress(os.urandom(1 << 20)) + frame.flush()
    refused(store, data, Digest("2" * 64), "cannot be unpacked")


@pytest.mark.parametrize("kind", ["frames", "members"])
def test_what_never_becomes_anything(kind: str) -> None:
    """Frames to be skipped (RFC 8878, 3.1.2) and empty members can follow one another for ever."""
    taken = 0

    def endless() -> Iterator[bytes]:
        nonlocal taken
        if kind == "frames":
            yield zstandard.compress(b"x")
            piece = b"\x50\x2a\x4d\x18" + (1 << 20).to_bytes(4, "little") + bytes(1 << 20)
        else:
            yield gzip.compress(b"x")
            # One large member of nothing: a name in its header (RFC 1952, 2.3.1).
            piece = b"\x1f\x8b\x08\x08" + bytes(6) + b"n" * (1 << 20) + b"\0\x03\0" + bytes(8)
        while taken < 1 << 28:
            taken += len(piece)
            yield piece

    def read() -> None:
        with decompress_module.decompress(endless(), name="hostile") as found:
            for _ in found:
                pass

    with pytest.raises(IntegrityError, match="stand for"):
        read()
    assert taken < 1 << 28


def test_the_limit_of_what_it_may_become() -> None:
    with (
        decompress_module.decompress(iter([gzip.compress(bytes(5000))]), name="x", limit=4999) as chunks,
        pytest.raises(IntegrityError, match="x: .* more than the limit of 4,999 bytes"),
    ):
        list(chunks)


def test_giving_up_early_leaves_no_thread() -> None:
    import threading

    before = threading.active_count()
    data = gzip.compress(os.urandom(8 << 20), 1)
    with decompress_module.decompress(iter([data]), name="x") as chunks:
        next(chunks)
    assert threading.active_count() == before


@pytest.mark.parametrize("left", [0, 3])
def test_a_blob_that_was_cut_short_on_the_disk_is_found_when_it_is_read(tmp_path: Path, left: int) -> None:
    store = Store(tmp_path / "store")
    digest = store.add_blob(b"whole")
    store.blob_path(digest).chmod(0o644)
    store.blob_path(digest).write_bytes(b"whole"[:left])
    with pytest.raises(IntegrityError):
        list(blob_chunks(store, digest))
    assert not store.has_blob(digest)
