from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, reject, settings
from hypothesis import strategies as st

from lockbuild.archive.canonical import tree_digest
from lockbuild.environment.merge import merge
from lockbuild.environment.record import Recorded, encoded, parse_record, render_record
from lockbuild.environment.unpack import unpack
from lockbuild.errors import IntegrityError, ResolveError
from tests.support.debs import directory, file, link, write_deb

PATHS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1)


@given(st.dictionaries(PATHS, st.tuples(st.binary(min_size=32, max_size=32), st.integers(0))))
def test_record_is_read_as_it_was_written(files: dict[str, tuple[bytes, int]]) -> None:
    files.pop("x.dist-info/RECORD", None)
    rows = [(path, encoded(digest), size) for path, (digest, size) in files.items()]
    text = render_record("x.dist-info/RECORD", rows)
    expected: dict[str, Recorded | None] = {
        path: Recorded("sha256", digest, size) for path, digest, size in rows
    }
    assert parse_record(text, wheel="x") == {**expected, "x.dist-info/RECORD": None}
    assert render_record("x.dist-info/RECORD", rows[::-1]) == text


NAMES = st.sampled_from(["bin", "lib", "usr/bin", "usr/lib", "usr/lib/a", "usr/lib/b", "usr/lib/a/c"])
ENTRIES = st.one_of(
    st.builds(lambda where, text: file(f"./{where}/{text}", text), NAMES, st.sampled_from(["x", "y"])),
    st.builds(lambda where, text: file(f"./{where}/same", text), NAMES, st.sampled_from(["x", "y"])),
    st.builds(lambda where: directory(f"./{where}"), NAMES),
    st.builds(
        lambda target: link("./usr/lib/b", target), st.sampled_from(["a", "../bin", "b", "/usr/lib/a"])
    ),
)
PACKAGES = st.lists(st.lists(ENTRIES, max_size=4, unique_by=lambda e: e[0].name), min_size=2, max_size=3)


@settings(deadline=None, max_examples=150)
@given(PACKAGES)
def test_the_order_of_packages_decides_nothing(packages: list[list[tuple[object, bytes]]]) -> None:
    """Whatever packages hold: every order comes to the same root, or none to any."""
    outcomes = set()
    for order in (1, -1):
        with tempfile.TemporaryDirectory() as name:
            work = Path(name)
            unpacked = []
            for number, entries in enumerate(packages):
                deb = write_deb(work / f"p{number}.deb", entries, compression="")  # type: ignore[arg-type]
                try:
                    unpacked.append(unpack(deb, work / f"{number}"))
                except IntegrityError:  # it contradicts itself
                    reject()
            root = work / "root"
            root.mkdir()
            try:
                merge(unpacked[::order], root)
                outcomes.add(str(tree_digest(root)))
            except ResolveError:
                outcomes.add("conflict")
    assert len(outcomes) == 1
