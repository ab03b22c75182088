"""Fixtures: a recorded tiny world that is made once, and copies of it that a test may spoil."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.tiny import TinyWorld, tiny_world


@pytest.fixture(scope="session")
def original(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TinyWorld]:
    """A world whose lock is materialised and has recorded outputs. Not to be changed: fork it."""
    with tiny_world(tmp_path_factory.mktemp("original")) as made:
        made.run("lock", "--materialise")
        made.run("reproduce", "--record")
        yield made


@pytest.fixture
def shared(original: TinyWorld, tmp_path: Path) -> Iterator[TinyWorld]:
    """A project of its own with the original's store, which a test may add to but not spoil."""
    yield original.fork(tmp_path)
    _mend(original)


@pytest.fixture
def forked(original: TinyWorld, tmp_path: Path) -> Iterator[TinyWorld]:
    """A project and a store of its own."""
    yield original.fork(tmp_path, store=True)
    _mend(original)


def _mend(world: TinyWorld) -> None:
    world.server.script.clear()
    world.archive.upload(world.server)
