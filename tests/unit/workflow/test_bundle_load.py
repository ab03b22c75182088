"""Loading a bundle into a store: what may stay there, what goes on, and what a hostile bundle leaves behind."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
import zstandard

from lockbuild.errors import FetchError, IntegrityError, LockbuildError, UsageError
from lockbuild.events import Advanced, Event, Started
from lockbuild.model.digest import Digest
from lockbuild.model.lock import Source
from lockbuild.oci.bundle.contents import Blob, Contents
from lockbuild.store import Store
from lockbuild.workflow.bundle.load import Loaded, load
from lockbuild.workflow.bundle.verify import inspect, verify
from lockbuild.workflow.output import output
from lockbuild.workflow.workspace import Workspace
from tests.support.bundles import (
    DEB,
    PORT,
    SmallBundle,
    changed_tree,
    entries,
    file_entry,
    joined,
    small_bundle,
    snapshot,
)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> SmallBundle:
    return small_bundle(tmp_path_factory.mktemp("small"))


class Site:
    """Somewhere with an empty store."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.store = Store(directory / "store")
        self.events: list[Event] = []

    @property
    def workspace(self) -> Workspace:
        return Workspace(self.store, {}, self.events.append, datetime.now(UTC), offline=True)

    def file(self, data: bytes, name: str = "some.bundle") -> Path:
        path = self.directory / name
        path.write_bytes(data)
        return path

    def load(self, data: bytes) -> Loaded:
        return self._closing(lambda workspace: load(workspace, [self.file(data)]))

    def load_files(self, *files: Path) -> Loaded:
        return self._closing(lambda workspace: load(workspace, files))

    def verify(self, data: bytes) -> Contents:
        return verify(self.workspace, [self.file(data)])

    def piped(self, data: bytes, monkeypatch: pytest.MonkeyPatch) -> Loaded:
        """The same from a pipe."""
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(read)
            view = memoryview(data)
            try:
                while view:
                    view = view[os.write(write, view[:3000]) :]
            finally:
                os._exit(0)
        os.close(write)
        with os.fdopen(read, "rb", buffering=0) as stream:
            monkeypatch.setattr("sys.stdin", stream)
            try:
                return self.load_files(Path("-"))
            finally:
                stream.close()
                os.waitpid(pid, 0)

    def _closing(self, work: Callable[[Workspace], Loaded]) -> Loaded:
        workspace = self.workspace
        try:
            return work(workspace)
        finally:
            workspace.close()


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_everything_is_there_afterwards(small: SmallBundle, site: Site) -> None:
    loaded = site.load(small.data)
    assert loaded.trees == ("linux/amd64:base", "linux/amd64:tools.tool")
    assert len(loaded.sources) == 3
    assert (loaded.there, loaded.missing, loaded.project_missing) == (0, (), None)
    for tree in small.contents.trees:
        assert site.store.tree_damage(tree.digest, thorough=True) is None
    for source in small.contents.sources:
        site.store.verified_blob(source.digest)
    assert site.store.verify() == []
    started = next(event for event in site.events if isinstance(event, Started))
    assert (
        sum(e.amount for e in site.events if isinstance(e, Advanced) and e.key == started.key)
        == started.total
    )


@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_trees_are_the_same_under_any_umask(small: SmallBundle, site: Site, umask: int) -> None:
    """They were not read again when they got their names, so here they are."""
    site.store.add_blob(b"so that the store's own directories are there")
    before = os.umask(umask)
    try:
        site.load(small.data)
    finally:
        os.umask(before)
    for tree in small.contents.trees:
        assert site.store.tree_damage(tree.digest, thorough=True) is None


def test_layers_are_not_kept_beside_their_trees(small: SmallBundle, site: Site) -> None:
    site.load(small.data)
    kept = {path.name for path in (site.store.root / "blobs/sha256").iterdir()}
    assert kept == {source.digest.hex for source in small.contents.sources}


def test_only_what_has_a_digest_of_its_own_is_remembered(small: SmallBundle, site: Site) -> None:
    """A file that its SHA-512 binds is known by that. Which file a commit is, a bundle cannot prove to other locks."""
    site.load(small.data)
    by_purl = {source.purl.partition("@")[0]: source for source in small.lock.sources}
    assert site.store.recall(by_purl["pkg:generic/port"].identity) == Digest.of(PORT)
    assert site.store.recall(by_purl["pkg:github/someone/code"].identity) is None
    assert len(list((site.store.root / "derivations").iterdir())) == 1


def test_loading_twice_takes_nothing(small: SmallBundle, site: Site) -> None:
    site.load(small.data)
    before = dict(snapshot(site.store.root))
    again = site.load(small.data)
    assert (again.trees, again.sources, again.there) == ((), (), 5)
    assert dict(snapshot(site.store.root)) == before


def test_a_memo_that_is_lacking_is_made(small: SmallBundle, site: Site) -> None:
    site.store.add_blob(PORT)
    loaded = site.load(small.data)
    assert "pkg:generic/port@1" in loaded.sources
    (port,) = [source for source in small.lock.sources if source.sha512 is not None]
    assert site.store.recall(port.identity) == Digest.of(PORT)


def test_from_a_pipe(small: SmallBundle, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(site.piped(small.data, monkeypatch).trees) == 2
    assert site.piped(small.data, monkeypatch).there == 5


def test_every_cut_can_be_gone_on_with(small: SmallBundle, tmp_path: Path) -> None:
    data = small.data
    for number, length in enumerate(range(9000, len(data), 3333)):
        (tmp_path / str(number)).mkdir()
        site = Site(tmp_path / str(number))
        with pytest.raises(IntegrityError, match="the bundle is cut short"):
            site.load(data[:length])
        there = len(list((site.store.root / "blobs/sha256").glob("*")))
        there += len(list((site.store.root / "trees/sha256").glob("*")))
        assert list((site.store.root / "tmp").iterdir()) == []
        assert site.load(data).there == there
        assert site.store.verify() == []
        assert list((site.store.root / "partial").iterdir()) == []


def test_a_file_goes_on_where_it_was_cut_off(small: SmallBundle, site: Site) -> None:
    at = small.data.index(PORT) + 1500
    with pytest.raises(IntegrityError, match="cut short"):
        site.load(small.data[:at])
    (partial,) = (site.store.root / "partial").iterdir()
    assert PORT.startswith(partial.read_bytes())
    assert partial.stat().st_size == 1500
    site.load(small.data)
    assert not partial.exists()


def test_what_an_earlier_load_left_is_not_trusted(small: SmallBundle, site: Site) -> None:
    with site.store.partial(Digest.of(DEB)) as partial:
        partial.write(b"something else")
    with pytest.raises(IntegrityError, match="is not what it should be") as caught:
        site.load(small.data)
    assert "load it again" in (caught.value.hint or "")
    assert site.load(small.data).missing == ()
    assert site.store.verify() == []


# Hostile


def clean(site: Site, small: SmallBundle) -> bool:
    """Whether the store holds nothing but sound things that the bundle's lock names, and nothing is under way."""
    names = {
        path.name for part in ("blobs", "trees") for path in (site.store.root / part / "sha256").glob("*")
    }
    wanted = {tree.digest.hex for tree in small.contents.trees}
    wanted |= {source.digest.hex for source in small.contents.sources}
    return names <= wanted and site.store.verify() == [] and not list((site.store.root / "tmp").glob("*"))


def test_every_flipped_byte_leaves_the_store_sound(small: SmallBundle, tmp_path: Path) -> None:
    data = small.data
    for at in range(7, len(data), 1777):
        directory = tmp_path / str(at)
        directory.mkdir()
        site = Site(directory)
        flipped = bytearray(data)
        flipped[at] ^= 0x10
        with pytest.raises(LockbuildError):
            site.load(bytes(flipped))
        assert clean(site, small)
        assert not list((site.store.root / "partial").glob("*"))
        with pytest.raises(LockbuildError):
            site.verify(bytes(flipped))


def with_layer(small: SmallBundle, layer: bytes, *, size: int | None = None) -> bytes:
    """The bundle with another layer for the first tree, which the contents name; a tar of ``size`` bytes."""
    digest = small.store.add_blob(layer)
    update = {"layer": Blob(digest=digest, size=len(layer))}
    contents = changed_tree(small.contents, 0, **update)
    if size is not None:
        contents = changed_tree(contents, 0, size=size)
    return small.written(contents)


def test_a_layer_that_is_a_bomb(small: SmallBundle, site: Site) -> None:
    bomb = zstandard.ZstdCompressor(level=3).compress(bytes(3 << 29))
    assert len(bomb) < 1 << 20
    for make in (lambda: with_layer(small, bomb), lambda: with_layer(small, bomb, size=3 << 29)):
        with pytest.raises(
            IntegrityError, match=r"cannot be unpacked: it grows|not the canonical tar|bytes of it grow"
        ):
            site.load(make())
        with pytest.raises(
            IntegrityError, match=r"cannot be unpacked: it grows|another tree|bytes of it grow"
        ):
            site.verify(make())
        assert clean(site, small)


def test_a_layer_that_is_another_tree(small: SmallBundle, site: Site) -> None:
    other = zstandard.compress(dict(entries(small.data))["INDEX.txt"] + bytes(1024))
    with pytest.raises(IntegrityError, match="unpacks to another tree than it should|grows to more than"):
        site.load(with_layer(small, other))
    with pytest.raises(IntegrityError, match="unpacks to another tree"):
        site.verify(with_layer(small, other))
    assert clean(site, small)


def test_a_layer_that_needs_much_memory(small: SmallBundle, site: Site) -> None:
    parameters = zstandard.ZstdCompressionParameters(window_log=30)
    layer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    data = layer.compress(os.urandom(1 << 16)) + layer.flush()
    with pytest.raises(IntegrityError, match="memory"):
        site.load(with_layer(small, data))
    assert clean(site, small)


def test_a_tree_that_would_not_fit_anywhere(small: SmallBundle, site: Site) -> None:
    with pytest.raises(FetchError, match=r"what the bundle holds takes 1,000,000,\d+ bytes|takes 1,000,0"):
        site.load(small.written(changed_tree(small.contents, 0, size=10**15)))
    assert not list((site.store.root / "trees/sha256").glob("*"))


def test_a_file_that_has_another_sha512(small: SmallBundle, site: Site) -> None:
    sources = [
        source.model_copy(update={"sha512": hashlib.sha512(b"other").hexdigest()})
        if source.sha512
        else source
        for source in small.lock.sources
    ]
    lock = small.lock.model_copy(update={"sources": sources})
    data = small.written(small.contents, lock)
    with pytest.raises(IntegrityError, match="have the digest sha512:"):
        site.load(data)
    assert not site.store.has_blob(Digest.of(PORT))
    site.store.add_blob(PORT)
    with pytest.raises(IntegrityError, match="does not have the SHA-512 that the lock says"):
        site.load(data)
    with pytest.raises(IntegrityError, match="does not have the SHA-512 that the lock says"):
        site.verify(data)
    assert not any(site.store.recall(source.identity) for source in sources)


def test_an_added_blob_is_refused_before_anything_after_it(small: SmallBundle, site: Site) -> None:
    parts = entries(small.data)
    added = file_entry(f"blobs/sha256/{Digest.of(b'x').hex}", b"x")
    with pytest.raises(IntegrityError, match="there should be blobs/sha256/"):
        site.load(joined([*parts[:8], added, *parts[8:]]))
    assert clean(site, small)
    assert not list((site.store.root / "blobs/sha256").glob("*"))


# What the base has


def since(small: SmallBundle) -> Contents:
    """The contents without the first tree and source, which another lock has."""
    contents = changed_tree(small.contents, 0, layer=None)
    sources = list(contents.sources)
    sources[0] = sources[0].model_copy(update={"held": False})
    return contents.model_copy(update={"sources": sources, "since": Digest.of(b"old lock")})


def test_what_is_left_out_is_named(small: SmallBundle, site: Site) -> None:
    data = small.written(since(small))
    assert len(entries(data)) == len(entries(small.data)) - 2
    loaded = site.load(data)
    assert loaded.missing == (small.contents.trees[0].names[0], small.contents.sources[0].purls[0])
    assert len(loaded.trees) == 1
    assert site.load(small.data).missing == ()
    assert site.load(data).missing == ()


# Parts


@dataclass
class Split:
    """A bundle in parts."""

    files: list[Path]


@pytest.fixture
def split(small: SmallBundle, tmp_path: Path) -> Split:
    # The least part is larger than the small bundle: with a source that does not shrink it has several.
    data = many(small)
    target = tmp_path / "out" / "x.bundle"
    target.parent.mkdir()
    with output(target, len(data), 64 << 10) as out:
        for at in range(0, len(data), 7000):
            out.write(data[at : at + 7000])
        out.commit()
    assert out.digest == Digest.of(data)
    assert sorted(target.parent.iterdir()) == out.files
    assert all(file.stat().st_size <= 64 << 10 for file in out.files)
    assert len(out.files) > 3
    return Split(out.files)


def many(small: SmallBundle) -> bytes:
    noise = hashlib.shake_256(b"noise").digest(250_000)
    digest = small.store.add_blob(noise)
    source = Source(
        purl="pkg:generic/noise@1",
        url="https://example.test/noise",
        sha256=digest,
        trees=["any:tools.port"],
    )
    lock = small.lock.model_copy(update={"sources": [*small.lock.sources, source]})
    bundled = small.contents.sources[0].model_copy(
        update={"purls": [source.purl], "digest": digest, "size": len(noise)}
    )
    sources = sorted([*small.contents.sources, bundled], key=lambda item: item.digest)
    return small.written(small.contents.model_copy(update={"sources": sources}), lock)


def test_parts_in_any_order(small: SmallBundle, split: Split, site: Site) -> None:
    assert len(site.load_files(*split.files[::-1]).trees) == 2
    assert site.load_files(split.files[0].with_name("x.bundle")).there == 6
    assert inspect([split.files[0]]).lock.trees == small.lock.trees


def test_parts_under_other_names_and_through_a_pipe(
    split: Split, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    renamed = [file.rename(file.with_name(f"upload-{9 - number}")) for number, file in enumerate(split.files)]
    assert len(site.load_files(*sorted(renamed)).trees) == 2
    other = Site(site.directory / "other")
    other.directory.mkdir()
    assert len(other.piped(b"".join(file.read_bytes() for file in renamed), monkeypatch).trees) == 2


def test_the_parts_are_slices(small: SmallBundle, split: Split) -> None:
    slices = [entries(file.read_bytes()) for file in split.files]
    assert all([name for name, _ in parts] == ["part.json", "data"] for parts in slices)
    data = b"".join(raw[512 : 512 + int(raw[124:135], 8)] for (_, _), (_, raw) in slices)
    assert data == many(small)


def test_missing_parts_are_named(split: Split, site: Site) -> None:
    for left_out in range(len(split.files)):
        files = [file for number, file in enumerate(split.files) if number != left_out]
        with pytest.raises(IntegrityError) as caught:
            site.load_files(*files)
        assert caught.value.what == (
            f"a part is missing of the bundle, which has {len(split.files)}: {split.files[left_out]}"
        )
    with pytest.raises(IntegrityError, match=r"parts are missing .*x.bundle.000, .*x.bundle.001"):
        site.load_files(*split.files[2:])
    assert not list(site.store.root.glob("trees/sha256/*"))


def test_parts_that_do_not_belong_together(small: SmallBundle, split: Split, site: Site) -> None:
    with pytest.raises(IntegrityError, match="it is part 0, as .*x.bundle.000 is"):
        site.load_files(split.files[0], *split.files)
    other = site.directory / "other.bundle"
    with output(other, len(small.data), 64 << 10) as out:
        out.write(small.data)
        out.commit()
    with pytest.raises(IntegrityError, match="it is a part of another bundle than"):
        site.load_files(*split.files, *out.files)
    with pytest.raises(UsageError, match="several files are named, and they are not parts of one bundle"):
        site.load_files(site.file(small.data), site.file(small.data, "again"))


def test_damaged_parts_are_named(split: Split, site: Site) -> None:
    for number, file in enumerate(split.files):
        sound = file.read_bytes()
        for at in (0, 130, 520, len(sound) // 2, len(sound) - 600):
            damaged = bytearray(sound)
            damaged[at] ^= 4
            file.write_bytes(damaged)
            with pytest.raises((IntegrityError, UsageError)) as caught:
                site.load_files(*split.files)
            if at >= len(sound) // 2 and number:
                assert str(file) in str(caught.value) or "is damaged" in caught.value.what
        file.write_bytes(sound[:-700])
        with pytest.raises(IntegrityError, match="cut short|not end as it should"):
            site.load_files(*split.files)
        file.write_bytes(sound)
    assert len(site.load_files(*split.files).trees) + len(list(site.store.root.glob("trees/sha256/*"))) >= 2
    assert site.store.verify() == []
