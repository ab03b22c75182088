"""What is source, against git itself: whatever stands in .gitignore files, by bytes."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lockbuild.build.ignore import walk_source
from lockbuild.model.wildmatch import expression

_ODD_NAMES = [b"a b", b"a ", b" a", b"a\\", b"a\r", b"a\x0b", b"\xff", b"a\xe2\x80\xa8b", b"a\nb"]
_IN_DIRECTORIES = b"d/a d/b d/ab d/d/a d/d/d/ab d/e/b d/e/a.b e/d/a e/B ad/bd/a d.b/a ba/a".split()
NAMES = [*b"a b B ab abc .a a.b #a !a [a] a* a- ^a \xc3\xa9".split(), *_ODD_NAMES, *_IN_DIRECTORIES]

_BRACKETS = rb"[ab] [!a] [^a] [a-c] [c-a] []a] [!]a] [a-] [\]a] [a\-c] [/a] [a [[:a] [[a] [] [!] [[:upper:]]"
_ATOMS = [
    *rb"a b B d e . - ^ / / / / * * * ** **/ /** /**/ *** ? ?? ! # \ \a \* \[ \/ \# \! \]".split(),
    *(_BRACKETS + rb" [[:alpha:][:digit:]] [![:lower:]] [[:nope:]]").split(),
    *(b" ", b"  ", b"\\ ", b"\r", b"\0", b"\x0b", b"\xc3\xa9", b"\xff", b"\xe2\x80\xa8", b"\xef\xbb\xbf"),
]
_IDIOMS = b"* !*/ !*.b d/ !d/ d/** !d/d/ **/d/** !a /* !/d d/* !d/e/a.b".split()
CASES = 30

_CROSSES_BEHIND_A_LETTER = re.compile(rb"[^/*?\[\\]\*\*")
"""``d**/b``: git before 2.53 takes that for ``**/b`` behind a d; by gitignore(5), and now, it is one star."""


def _is_told(line: bytes) -> bool:
    return not _CROSSES_BEHIND_A_LETTER.search(line.removeprefix(b"!"))


LINES = st.one_of(
    st.sampled_from(_IDIOMS), st.lists(st.sampled_from(_ATOMS), max_size=7).map(b"".join)
).filter(_is_told)
FILES = st.lists(LINES, max_size=4).map(b"\n".join) | st.lists(LINES, max_size=4).map(b"\r\n".join)


def git_files(root: Path) -> set[str]:
    """What git itself takes for source."""
    command = [
        "git",
        "-c",
        "core.ignoreCase=false",
        "ls-files",
        "-z",
        "--others",
        "--exclude-per-directory=.gitignore",
    ]
    listed = subprocess.run(
        command,
        cwd=root,
        check=True,
        capture_output=True,
        env={**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"},
    )
    return {os.fsdecode(name) for name in listed.stdout.split(b"\0") if name}


def repository(root: Path, names: Iterable[bytes]) -> Path:
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    for name in names:
        path = root / os.fsdecode(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return root


def sources(root: Path) -> set[str]:
    return {path for path, _ in walk_source(root, frozenset())}


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with the same files many times, so that git is started once for many cases."""
    names = [b"%d/%b" % (case, name) for case in range(CASES) for name in NAMES]
    return repository(tmp_path_factory.mktemp("many"), names)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.tuples(FILES, FILES), min_size=CASES, max_size=CASES))
def test_source_is_what_git_takes_for_it(many: Path, cases: list[tuple[bytes, bytes]]) -> None:
    for case, (above, below) in enumerate(cases):
        (many / str(case) / ".gitignore").write_bytes(above)
        (many / str(case) / "d" / ".gitignore").write_bytes(below)
    mine, theirs = sources(many), git_files(many)
    wrong = {int(path.partition("/")[0]) for path in mine ^ theirs}
    assert mine == theirs, [cases[case] for case in wrong]


CLASSES = [
    "alnum",
    "alpha",
    "blank",
    "cntrl",
    "digit",
    "graph",
    "lower",
    "print",
    "punct",
    "space",
    "upper",
    "xdigit",
]


def test_classes_have_the_bytes_that_git_has_in_them(tmp_path: Path) -> None:
    every = [bytes([byte]) for byte in range(1, 256) if byte not in b"./"]
    names = [b"%b/x%b" % (name.encode(), char) for name in CLASSES for char in every]
    root = repository(tmp_path / "classes", names)
    for name in CLASSES:
        (root / name / ".gitignore").write_text(f"x[[:{name}:]]\n")
    assert sources(root) == git_files(root)


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        (b"*a" * 40 + b"*b", b"a" * 255),
        (b"**/a*/" * 40 + b"b", b"aa/" * 800),
        (b"**/*a*a*a*a*a*a*a*b", (b"a" * 200 + b"/") * 15),
        (b"*?" * 100 + b"b", b"a" * 255),
    ],
)
def test_no_pattern_takes_long(pattern: bytes, path: bytes) -> None:
    regex = re.compile(expression(pattern), re.DOTALL)
    begun = time.process_time()
    assert not regex.fullmatch(path)
    assert time.process_time() - begun < 1
