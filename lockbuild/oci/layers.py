"""A tree as the layer that an image, a registry or a bundle holds, and a layer as the tree that it is.

A layer's *diff ID* is the digest of its tar, which is the tree's digest. The blob that travels is that tar in one of
the `Compression`s, and its own digest depends on the encoder (`encoder`). Encoding is done once: the compressed
layer stays in the store as a blob, found again by tree and encoder, until a collection takes it.

OCI image specification 1.1, layer.md and config.md.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lockbuild.archive.canonical import canonical_chunks
from lockbuild.archive.hashing import HashBehind
from lockbuild.archive.treewriter import LIMIT
from lockbuild.errors import IntegrityError
from lockbuild.events import Advanced, Finished, Reporter, Started, silent
from lockbuild.model.digest import Digest
from lockbuild.oci.encoders import COMPRESSIONS, MEDIA_TYPES, Compression, begin, encoder
from lockbuild.oci.sizes import entries, layer_size
from lockbuild.store import Store

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = [
    "COMPRESSIONS",
    "MEDIA_TYPES",
    "Compression",
    "EncodedLayer",
    "decode",
    "encode",
    "encoded",
    "encoder",
    "layer_chunks",
]

_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class EncodedLayer:
    """The layer of a tree: ``digest`` and ``size`` (bytes) of the blob, as a descriptor has them."""

    diff_id: Digest
    digest: Digest
    size: int
    media_type: str


def encode(
    store: Store,
    diff_id: Digest,
    root: Path,
    compression: Compression,
    *,
    name: str = "",
    report: Reporter = silent,
    threads: int | None = None,
) -> EncodedLayer:
    """The layer of the tree ``diff_id``, which is unpacked at ``root``.

    Compressed, it is a blob of ``store`` afterwards, made if it is not there yet; with ``none`` nothing is stored,
    since the tree is the layer. `layer_chunks` gives the bytes of either. Streams; the bytes do not depend on
    ``threads``. ``name`` is what the progress calls it. IntegrityError where the tree is not what its digest says,
    FetchError where the store cannot be written.
    """
    if compression == "none":
        return EncodedLayer(diff_id, diff_id, layer_size(diff_id, root), MEDIA_TYPES["none"])
    known = encoded(store, diff_id, compression)
    if known is not None:
        return known
    total = layer_size(diff_id, root)
    task = f"layer:{compression}:{diff_id}"
    report(Started(task, f"compress {name or diff_id.short} with {compression}", total))
    encoding = begin(compression, total, threads=threads)
    left = total
    try:
        with store.new_blob() as blob, HashBehind() as tree_hash:
            for chunk in canonical_chunks(root, entries=entries(diff_id, root)):
                left -= len(chunk)
                if left < 0:
                    break
                tree_hash.update(chunk)
                for piece in encoding.feed(chunk):
                    blob.write(piece)
                tree_hash.settle()
                report(Advanced(task, len(chunk)))
            found = tree_hash.digest()
            if left or found != diff_id:
                raise _damaged_tree(name, diff_id, found)
            for piece in encoding.finish():
                blob.write(piece)
            digest, size = blob.commit(), blob.size
    finally:
        encoding.close()
        report(Finished(task))
    store.remember(_key(diff_id, compression), digest)
    return EncodedLayer(diff_id, digest, size, MEDIA_TYPES[compression])


def encoded(store: Store, diff_id: Digest, compression: Compression) -> EncodedLayer | None:
    """The compressed layer of that tree, where the store has it as this encoder makes it. Needs no tree."""
    digest = store.recall(_key(diff_id, compression))
    if digest is None or not store.has_blob(digest):
        return None
    size = store.blob_path(digest).stat().st_size
    return EncodedLayer(diff_id, digest, size, MEDIA_TYPES[compression])


def layer_chunks(
    store: Store | None, layer: EncodedLayer, root: Path | None, *, name: str = ""
) -> Iterator[Buffer]:
    """The bytes of ``layer`` in pieces, each good until the next is asked for: from its blob in the store, or from the
    tree at ``root`` where it is not compressed (then there need be no store).

    IntegrityError at the end (before the last piece) where they are not those of its digest: whoever writes them
    somewhere must drop what was written. A damaged blob is removed from the store then, so that it is made again.
    """
    if layer.digest == layer.diff_id and root is not None:
        yield from _verified(
            canonical_chunks(root),
            layer.digest,
            layer.size,
            lambda: _damaged_tree(name, layer.diff_id, None),
        )
        return
    assert store is not None
    yield from blob_chunks(store, layer.digest)


def blob_chunks(store: Store, digest: Digest) -> Iterator[Buffer]:
    """The bytes of a blob of the store; IntegrityError as `layer_chunks`."""
    path = store.blob_path(digest)

    def damaged() -> IntegrityError:
        store.verified_blob(digest)  # removes it, and says so
        return IntegrityError("its file changed while it was read", on=str(path))

    yield from _verified(_file_chunks(path), digest, path.stat().st_size, damaged)


def decode(
    store: Store,
    source: Path | Iterator[bytes],
    diff_id: Digest,
    *,
    name: str | None = None,
    report: Reporter = silent,
    limit: int = LIMIT,
    size: int | None = None,
) -> None:
    """Make the tree ``diff_id`` in ``store`` out of a layer: a file, or its bytes in pieces; plain, gzip or zstd, by
    whatever encoder.

    Does nothing where the store has the tree. IntegrityError, and nothing is kept, unless it is exactly the canonical
    tar of that tree, with nothing after it, and does not grow beyond ``limit`` bytes or all measure (`decompress`).
    ``name`` is what messages call it; ``size`` is that of the layer, where it is no file and that is known.
    """
    if store.has_tree(diff_id):
        return
    from lockbuild.archive.canonical_reader import read_canonical_tar
    from lockbuild.oci.decompress import decompress

    shown = name or f"layer {diff_id.short}"
    task = f"unpack:{diff_id}"
    total = source.stat().st_size if isinstance(source, Path) else size
    report(Started(task, f"unpack {shown}", total))

    def counted() -> Iterator[bytes]:
        for chunk in _file_chunks(source) if isinstance(source, Path) else source:
            report(Advanced(task, len(chunk)))
            yield chunk

    try:
        hasher = hashlib.sha256()
        with store.new_tree() as tree:
            with (
                decompress(counted(), name=shown, limit=limit, seen=hasher.update) as chunks,
                tree.syncing() as wrote,
            ):
                read_canonical_tar(_told(chunks, wrote), tree.path, name=shown)
            if hasher.hexdigest() != diff_id.hex:
                raise IntegrityError(
                    f"it unpacks to another tree than it should: "
                    f"the tree came out as sha256:{hasher.hexdigest()}, but {diff_id} is recorded",
                    on=shown,
                    hint="it was damaged, or is another layer under a false name; get it again",
                )
            tree.commit_read(diff_id)
    finally:
        report(Finished(task))


def _told(chunks: Iterator[bytes], wrote: Callable[[int], None]) -> Iterator[bytes]:
    """The pieces, each counted when the one before was written."""
    for chunk in chunks:
        wrote(len(chunk))
        yield chunk


def _key(diff_id: Digest, compression: Compression) -> Digest:
    return Digest.of(f"layer\0{diff_id}\0{encoder(compression)}".encode())


def _file_chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb", buffering=0) as file:
        while chunk := file.read(_CHUNK):
            yield chunk


def _verified(
    chunks: Iterator[bytes] | Iterator[memoryview],
    digest: Digest,
    size: int,
    damaged: Callable[[], IntegrityError],
) -> Iterator[Buffer]:
    left = size
    with HashBehind() as hasher:
        for chunk in chunks:
            left -= len(chunk)
            hasher.update(chunk)
            if left <= 0 and (left < 0 or hasher.digest() != digest):
                raise damaged()
            yield chunk
            if not isinstance(chunk, bytes):
                hasher.settle()
        if left or (not size and hasher.digest() != digest):
            raise damaged()


def _damaged_tree(name: str, diff_id: Digest, found: Digest | None) -> IntegrityError:
    became = f"; it has become {found}" if found is not None and found != diff_id else ""
    return IntegrityError(
        f"the tree {diff_id} in the store is damaged{became}",
        on=name or None,
        hint="run `lockbuild store verify --repair`, then `lockbuild sync`",
    )
