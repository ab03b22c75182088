"""Several processes at one store, killed ones among them."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lockbuild.model.digest import Digest
from lockbuild.store import Store
from tests.support import store_writer


def start(store: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.support.store_writer", str(store)],
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        text=True,
    )


def run(store: Path) -> None:
    with start(store) as writer:
        assert writer.wait(60) == 0


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def check_complete(root: Path) -> None:
    """What a store holds that was filled once, however often and by whomever."""
    store = Store(root)
    wanted = sorted(Digest.of(data).hex for data in store_writer.BLOBS + store_writer.DOWNLOADS)
    assert names(root / "blobs/sha256") == wanted
    assert len(names(root / "trees/sha256")) == len(names(root / "derivations")) == store_writer.TREES
    assert names(root / "partial") == []
    assert names(root / "tmp") == []
    assert store.verify() == []


@pytest.mark.slow
def test_killed_at_twenty_random_moments(tmp_path: Path) -> None:
    chance = random.Random()
    undisturbed = tmp_path / "undisturbed"
    begun = time.monotonic()
    run(undisturbed)
    usual = time.monotonic() - begun
    check_complete(undisturbed)

    root = tmp_path / "store"
    killed = 0
    for attempt in range(20):
        writer = start(root)
        assert writer.stdout is not None
        assert writer.stdout.readline() == "begun\n"
        # Mostly early: each attempt goes on from the one before, so all are done ever sooner.
        delay = chance.random() ** 2 * usual / 3
        time.sleep(delay)
        writer.send_signal(signal.SIGKILL)
        killed += writer.wait(60) == -signal.SIGKILL
        writer.stdout.close()
        assert Store(root).verify(workers=1) == [], f"attempt {attempt}, killed after {delay:.3f} s"
        if attempt % 5 == 4:  # not always from where the last one ended
            Store(root).collect(lambda: (set(), set()))
    assert killed >= 10

    run(root)
    check_complete(root)
    for part in ("blobs/sha256", "trees/sha256", "derivations"):
        assert names(root / part) == names(undisturbed / part)


@pytest.mark.slow
def test_four_processes_at_once(tmp_path: Path) -> None:
    root = tmp_path / "store"
    writers = [start(root) for _ in range(4)]
    assert [writer.wait(120) for writer in writers] == [0, 0, 0, 0]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.read() == "begun\ndone\n"
        writer.stdout.close()
    check_complete(root)


def test_what_a_dead_process_left_goes_and_what_a_living_one_has_stays(tmp_path: Path) -> None:
    root = tmp_path / "store"
    program = (
        "import sys; from pathlib import Path; from lockbuild.store import Store\n"
        "with Store(Path(sys.argv[1])).new_tree() as tree:\n"
        "    (tree.path / 'd').mkdir(); (tree.path / 'd/f').write_bytes(b'half')\n"
        "    (tree.path / 'd').chmod(0o500)\n"
        "    print(tree.path.parent.name, flush=True); sys.stdin.read()\n"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", program, str(root)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdin is not None
    name = holder.stdout.readline().strip()
    old = 10**9
    os.utime(root / "tmp" / name, ns=(old, old))  # however old it looks
    Store(root).add_blob(b"x")
    Store(root).collect(lambda: (set(), set()))
    assert names(root / "tmp") == [name]
    holder.kill()
    holder.wait(10)
    holder.stdin.close()
    holder.stdout.close()
    assert names(root / "tmp") == [name]
    Store(root).add_blob(b"y")
    assert names(root / "tmp") == []


def test_a_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from lockbuild.store import Store\n"
        "with Store(Path(sys.argv[1])).lock('image'): print('held', flush=True); sys.stdin.read()\n"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    assert holder.stdin is not None
    assert holder.stdout.readline() == "held\n"
    waited: list[bool] = []

    def end() -> None:
        waited.append(True)
        holder.kill()

    with Store(tmp_path).lock("image", waiting=end):
        assert waited == [True]
    holder.wait(10)
    holder.stdin.close()
    holder.stdout.close()
