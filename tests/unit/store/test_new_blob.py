"""Blobs whose digest nobody knows before they are written."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from lockbuild.errors import FetchError, IntegrityError
from lockbuild.model.digest import Digest
from lockbuild.store import Store

DATA = b"hello" * 1000


def left(store: Store) -> list[Path]:
    return [*(store.root / "tmp").iterdir(), *(store.root / "blobs/sha256").iterdir()]


def test_it_gets_its_name_when_it_is_whole(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with store.new_blob() as blob:
        blob.write(DATA[:7])
        blob.write(memoryview(DATA)[7:])
        assert blob.size == len(DATA)
        assert not store.has_blob(Digest.of(DATA))
        assert blob.commit(Digest.of(DATA)) == Digest.of(DATA)
    path = store.blob_path(Digest.of(DATA))
    assert path.read_bytes() == DATA
    assert path.stat().st_mode & 0o777 == 0o444
    with store.new_blob() as again:  # somebody else made it meanwhile
        again.write(DATA)
        assert again.commit() == Digest.of(DATA)
    assert left(store) == [path]


def test_what_is_not_committed_or_is_something_else_is_not_kept(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with store.new_blob() as blob:
        blob.write(DATA)
    with store.new_blob() as blob:
        blob.write(DATA)
        with pytest.raises(
            IntegrityError, match=f"^sha256:0+: the 5,000 bytes have the digest {Digest.of(DATA)}"
        ):
            blob.commit(Digest("0" * 64))
    assert left(store) == []


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path)

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def write() -> None:
        with store.new_blob() as blob:
            monkeypatch.setattr(os, "write", full)
            blob.write(DATA)

    with pytest.raises(FetchError, match="cannot write a blob: No space left on device"):
        write()
    monkeypatch.undo()
    assert left(store) == []
