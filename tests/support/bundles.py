"""A small bundle that is made without a project: a lock of a few trees and sources in a store, and hostile variants."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lockbuild.archive import ustar
from lockbuild.model.digest import Digest
from lockbuild.model.lock import Lock, LockedTree, ManifestRecord, Source
from lockbuild.model.lockfile import canonical, dumps
from lockbuild.model.platform import Platform
from lockbuild.model.soundness import inputs_digest
from lockbuild.oci.bundle.contents import Blob, BundledSource, BundledTree, Contents
from lockbuild.oci.bundle.write import bundle_files
from lockbuild.oci.encoders import encoder
from lockbuild.oci.layers import encode
from lockbuild.oci.sizes import layer_size
from lockbuild.store import Store

PLATFORM = Platform("linux", "amd64")
DEB = b"the bytes of a package\n" * 100
PORT = b"the bytes of a port\n" * 200
COMMIT = "1" * 40


@dataclass(frozen=True)
class SmallBundle:
    """A store with everything, the lock, the contents, and the bundle of them as bytes."""

    store: Store
    lock: Lock
    contents: Contents

    @property
    def lock_text(self) -> bytes:
        return dumps(self.lock).encode()

    @property
    def data(self) -> bytes:
        return self.written(self.contents)

    def written(self, contents: Contents, lock: Lock | None = None) -> bytes:
        """The bundle with other contents, or with another lock, whoever it belongs to. A blob that the store does
        not have is one byte."""
        lock = lock or self.lock
        text = dumps(lock).encode()
        contents = contents.model_copy(update={"lock": Blob(digest=Digest.of(text), size=len(text))})
        out = io.BytesIO()

        def blob(digest: Digest) -> Iterable[bytes]:
            yield self.store.blob_path(digest).read_bytes() if self.store.has_blob(digest) else b"?"

        bundle_files(contents, lock, text, {}, blob).write(out.write)
        return out.getvalue()


def small_bundle(directory: Path) -> SmallBundle:
    """Make it, with a store below ``directory``."""
    store = Store(directory / "maker")
    base = _tree(store, {"bin/sh": b"#!\n", "etc/passwd": b"root\n", "usr/share/data": b"data " * 20_000})
    tool = _tree(store, {"opt/tool/bin/tool": b"#!/bin/sh\n"})
    for data in (DEB, PORT):
        store.add_blob(data)
    git = store.add_blob(_canonical_tar())
    inputs = {"name": "small", "platforms": [str(PLATFORM)]}
    lock = canonical(
        Lock(
            manifest=ManifestRecord(digest=inputs_digest(inputs), inputs=inputs),  # type: ignore[arg-type]
            trees=[
                LockedTree(name="base", platform=PLATFORM, unpack="debian-root", mount="/", digest=base),
                LockedTree(
                    name="tools.tool", platform=PLATFORM, unpack="archive", mount="/opt/tool", digest=tool
                ),
                LockedTree(
                    name="tools.port", platform="any", unpack="port", mount="/opt/emscripten-ports/port"
                ),
                LockedTree(name="sources.code", platform="any", unpack="git", mount="/build/sources/code"),
            ],
            sources=[
                Source(
                    purl="pkg:deb/debian/data@1?arch=all&distro=forky",
                    path="pool/data.deb",
                    size=len(DEB),
                    sha256=Digest.of(DEB),
                    trees=[f"{PLATFORM}:base", f"{PLATFORM}:tools.tool"],
                ),
                Source(
                    purl="pkg:generic/port@1",
                    url="https://example.test/port.zip",
                    sha512=hashlib.sha512(PORT).hexdigest(),
                    trees=["any:tools.port"],
                ),
                Source(
                    purl=f"pkg:github/someone/code@{COMMIT}",
                    url="https://example.test/code.git",
                    commit=COMMIT,
                    sha256=git,
                    trees=["any:sources.code"],
                ),
            ],
        )
    )
    trees = []
    for digest, name in sorted([(base, "base"), (tool, "tools.tool")]):
        layer = encode(store, digest, store.tree_path(digest), "zstd")
        trees.append(
            BundledTree(
                names=[f"{PLATFORM}:{name}"],
                digest=digest,
                size=layer_size(digest, store.tree_path(digest)),
                layer=Blob(digest=layer.digest, size=layer.size),
            )
        )
    files = {Digest.of(DEB): 0, Digest.of(PORT): 1, git: 2}
    sources = [
        BundledSource(
            purls=[lock.sources[files[digest]].purl],
            digest=digest,
            size=store.blob_path(digest).stat().st_size,
        )
        for digest in sorted(files)
    ]
    text = dumps(lock).encode()
    contents = Contents(
        for_="offline-sync",
        platforms=[PLATFORM],
        compression="zstd",
        encoder=encoder("zstd"),
        lock=Blob(digest=Digest.of(text), size=len(text)),
        trees=trees,
        sources=sources,
    )
    return SmallBundle(store, lock, contents)


def changed_tree(contents: Contents, number: int, **update: Any) -> Contents:
    """The contents with something else in one of its trees."""
    trees = list(contents.trees)
    trees[number] = trees[number].model_copy(update=update)
    return contents.model_copy(update={"trees": trees})


def _tree(store: Store, files: dict[str, bytes]) -> Digest:
    with store.new_tree() as staged:
        for name, data in files.items():
            path = staged.path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        return staged.commit()


def _canonical_tar() -> bytes:
    from lockbuild.archive.tarstream import CanonicalTar

    out = io.BytesIO()
    tar = CanonicalTar(out)
    tar.file(b"main.c", 4, [b"int;"])
    tar.finish()
    return out.getvalue()


# Taking a bundle's tar apart, and together again otherwise


def entries(data: bytes) -> list[tuple[str, bytes]]:
    """The entries of a canonical tar without long names: the name of each, and its header with its data."""
    found = []
    at = 0
    while any(data[at : at + ustar.BLOCK]):
        head = data[at : at + ustar.BLOCK]
        size = int(head[124:135], 8)
        end = at + ustar.BLOCK + size + ustar.padding(size)
        found.append((head[:100].rstrip(b"\0").decode(), data[at:end]))
        at = end
    return found


def joined(parts: Iterable[tuple[str, bytes]]) -> bytes:
    """And the tar of such entries."""
    return b"".join(raw for _, raw in parts) + ustar.END


def file_entry(name: str, data: bytes, *, kind: bytes = b"0", link: bytes = b"") -> tuple[str, bytes]:
    """An entry as canonical as its name and kind allow."""
    head = bytearray(ustar.file_header(name.encode(), len(data), executable=False))
    head[156:157] = kind
    head[157 : 157 + len(link)] = link
    head[148:156] = b" " * 8
    head[148:156] = b"%06o\0 " % sum(head)
    return name, bytes(head) + data + bytes(ustar.padding(len(data)))


def snapshot(root: Path) -> Iterator[tuple[str, bytes]]:
    """Everything that stands in a store as blob, tree or memo."""
    for part in ("blobs", "trees", "derivations", "roots", "partial", "tmp"):
        for path in sorted((root / part).rglob("*")):
            yield str(path.relative_to(root)), path.read_bytes() if path.is_file() else b""
