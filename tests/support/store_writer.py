"""A process that fills a store, to be run beside others and to be killed.

Started as ``python -m tests.support.store_writer STORE``: adds blobs, downloads in pieces, trees and
memos, the same ones whenever it runs, and prints a line when it begins and one when it is done.
"""

from __future__ import annotations

import sys
from pathlib import Path

from lockbuild.model.digest import Digest
from lockbuild.store import Store

BLOBS = [bytes([number]) * 300_000 for number in range(6)]
DOWNLOADS = [bytes([64 + number]) * 2_000_000 for number in range(4)]
TREES = 4
FILES = 150


def fill_tree(directory: Path, number: int) -> None:
    for index in range(FILES):
        path = directory / f"d{index % 7}" / f"f{index}"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"%d %d " % (number, index) * index * 5)


def fill(store: Store) -> list[Digest]:
    """Everything, where it is missing; the digests of the trees."""
    trees = []
    for blob in BLOBS:
        store.add_blob(blob)
    for data in DOWNLOADS:
        with store.partial(Digest.of(data)) as download:
            if not download.complete:
                if not data.startswith(data[: download.size]):
                    download.restart()
                for start in range(download.size, len(data), 50_000):
                    download.write(data[start : start + 50_000])
            download.commit()
    for number in range(TREES):
        key = Digest.of(b"recipe %d" % number)
        known = store.recall(key)
        if known is None or not store.has_tree(known):
            with store.new_tree() as tree:
                fill_tree(tree.path, number)
                known = tree.commit(known)
            store.remember(key, known)
        trees.append(known)
    return trees


def main() -> None:
    store = Store(Path(sys.argv[1]))
    print("begun", flush=True)
    fill(store)
    print("done", flush=True)


if __name__ == "__main__":
    main()
