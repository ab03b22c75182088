"""Stanzas, relations and indexes of packages: what is read from them, and what is refused."""

from __future__ import annotations

import gzip
import lzma
import os

import pytest

from lockbuild.errors import IntegrityError
from lockbuild.resolve.debian.compression import decompress
from lockbuild.resolve.debian.deb822 import LARGEST_STANZA, parse_stanza, stanza_spans
from lockbuild.resolve.debian.index import PackageIndex
from lockbuild.resolve.debian.relations import Relation, describe, parse_clauses, parse_relation

FILE = "Filename: pool/x.deb\nSize: 12\nSHA256: " + "ab" * 32 + "\n"


def package(name: str, version: str = "1", more: str = "", file: str = FILE) -> str:
    return f"Package: {name}\nVersion: {version}\nArchitecture: amd64\n{more}{file}"


def index(*stanzas: str) -> PackageIndex:
    return PackageIndex(["\n".join(stanzas).encode()], "amd64", on="index")


def test_a_stanza_has_folded_and_multi_line_fields() -> None:
    stanza = parse_stanza(b"Package: a\ndepends: b,\n c\nFiles:\n x 1\n y 2\n#note\nEmpty:\n", on="f")
    assert stanza.get("PACKAGE") == "a"
    assert (stanza.get("Depends") or "").split() == ["b,", "c"]
    assert stanza.lines("Files") == ["x 1", "y 2"]
    assert stanza.get("Empty") == ""
    assert stanza.get("None") is None
    assert stanza.lines("None") == []


@pytest.mark.parametrize(
    "data",
    [b" leading", b"Package: a\n \nVersion: 1", b"Package a", b"A: 1\na: 2", b"A : 1", b"A: \xff", b": x"],
)
def test_what_is_no_stanza_is_refused(data: bytes) -> None:
    with pytest.raises(IntegrityError, match="stanza"):
        parse_stanza(data, on="f")


def test_a_huge_stanza_is_refused() -> None:
    with pytest.raises(IntegrityError, match="the most that is read"):
        parse_stanza(b"A: " + b"x" * LARGEST_STANZA, on="f")


@pytest.mark.parametrize(
    ("data", "count"),
    [(b"", 0), (b"\n\n\n", 0), (b"A: 1", 1), (b"\nA: 1\n\n\n\nB: 1\n\n", 2), (b"A: 1\n\nB: 1\n", 2)],
)
def test_spans_of_stanzas(data: bytes, count: int) -> None:
    spans = list(stanza_spans(data))
    assert len(spans) == count
    assert all(data[start:end].strip(b"\n") == data[start:end].rstrip(b"\n") for start, end in spans)


def test_relations_are_read_and_written_back() -> None:
    text = "libc6 (>= 2.38), awk | mawk:any, python3:any (<< 3.15~)"
    assert ", ".join(map(describe, parse_clauses(text))) == text
    assert parse_relation("a(<1)") == Relation("a", None, "<=", "1")
    assert parse_relation(" a:amd64  ( = 1:2-3 ) ") == Relation("a", "amd64", "=", "1:2-3")
    assert parse_clauses(None) == ()


@pytest.mark.parametrize("text", ["", "a b", "a (1)", "a (>= )", "a (~ 1)", "-a", "a (>= 1_0)", "a [amd64]"])
def test_what_is_no_relation_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not"):
        parse_relation(text)


def test_versions_come_newest_first_and_once() -> None:
    found = index(package("ab", "1.9"), package("ab", "1.10"), package("ab", "1.10-0"))
    assert [each.version for each in found.packages("ab")] == ["1.10", "1.9"]
    assert found.packages("none") == ()


def test_other_architectures_are_not_there() -> None:
    other = package("ab").replace("amd64", "i386")
    assert index(other).packages("ab") == ()
    assert index(other, package("ab").replace("amd64", "all")).packages("ab")[0].architecture == "all"


def test_providers_are_ordered_by_rank_and_name() -> None:
    found = index(
        package("gawk", more="Provides: awk\nPriority: optional\n"),
        package("bwk", more="Priority: optional\nProvides: other (= 2), awk (= 3)\n"),
        package("mawk", more="Priority: required\nProvides:\n other,\n awk\n"),
        package("ess", more="Essential: yes\nProvides: awk\n"),
    )
    assert [each.name for each, _ in found.providers("awk")] == ["ess", "mawk", "bwk", "gawk"]
    assert [provided.version for _, provided in found.providers("other")] == [None, "2"]
    assert [each.name for each in found.essential()] == ["ess"]
    assert set(found.virtual_names) == {"awk", "other"}


def test_the_first_and_last_stanza_count_as_well() -> None:
    found = index(
        package("first", more="Essential: yes\nProvides: v\n"),
        package("last", more="Essential: yes\nProvides: v\n"),
    )
    assert [each.name for each in found.essential()] == ["first", "last"]
    assert [each.name for each, _ in found.providers("v")] == ["first", "last"]


def test_a_stanza_need_not_begin_with_its_name() -> None:
    text = "Version: 1\npackage: ab\nArchitecture: all\nProvides: v\n" + FILE
    found = index(text)
    assert found.packages("ab")[0].size == 12
    assert [each.name for each, _ in found.providers("v")] == ["ab"]


@pytest.mark.parametrize(
    ("stanza", "message"),
    [
        (package("ab", file=FILE.split("SHA256")[0]), "no SHA256"),
        (package("ab", file=FILE.replace("abab", "abxx")), "is not a SHA-256"),
        (package("ab", file=FILE.replace("pool/x.deb", "../../etc/passwd")), "not a path below"),
        (package("ab", file=FILE.replace("pool/x.deb", "/etc/passwd")), "not a path below"),
        (package("ab", file=FILE.replace("pool/x.deb", "pool/../x")), "not a path below"),
        (package("ab", file=FILE.replace("pool/x.deb", "pool//x")), "not a path below"),
        (package("ab", file=FILE.replace("pool/x.deb", "")), "not a path below"),
        (package("ab", file=FILE.replace("pool/x.deb", "pool/\x1b[2Jx")), "not a path below"),
        (package("ab", file=FILE.replace("12", "-1")), "no valid size"),
        (package("ab", file=FILE.replace("12", "1" * 20)), "no valid size"),
        (package("ab", version="1" * 5000), "is not a Debian version"),
        (package("ab", version="a b"), "is not a Debian version"),
        (package("ab", more="Depends: <none>\n"), "is not a relation"),
        (package("ab", more="Conflicts: " + "x" * LARGEST_STANZA + "\n"), "the most that is read"),
    ],
)
def test_a_stanza_that_cannot_be_trusted_is_refused(stanza: str, message: str) -> None:
    found = index(package("good"), stanza)
    assert found.packages("good")
    with pytest.raises(IntegrityError, match=message) as caught:
        found.packages("ab")
    assert caught.value.on == "index: ab"
    assert len(str(caught.value)) < 600


def test_a_name_that_is_none_is_refused() -> None:
    with pytest.raises(IntegrityError, match="not the name of a package"):
        index(package("../x"))


@pytest.mark.parametrize("suffix", [".xz", ".gz", ""])
def test_decompresses_up_to_the_limit(suffix: str) -> None:
    pack = {".xz": lzma.compress, ".gz": gzip.compress, "": bytes}[suffix]
    text = os.urandom(100_000)
    assert decompress(pack(text), suffix, limit=len(text), on="f") == text
    assert decompress(pack(b""), suffix, limit=0, on="f") == b""
    with pytest.raises(IntegrityError, match="more than"):
        decompress(pack(text), suffix, limit=len(text) - 1, on="f")


@pytest.mark.parametrize("suffix", [".xz", ".gz"])
def test_several_streams_are_one_file(suffix: str) -> None:
    pack = {".xz": lzma.compress, ".gz": gzip.compress}[suffix]
    two = pack(b"one ") + pack(b"two")
    assert decompress(two, suffix, limit=7, on="f") == b"one two"
    with pytest.raises(IntegrityError, match="more than"):
        decompress(two, suffix, limit=6, on="f")
    for broken in (two[:-3], two + b"x", b"no such format"):
        with pytest.raises(IntegrityError, match="truncated|cannot be unpacked"):
            decompress(broken, suffix, limit=100, on="f")


def test_a_bomb_is_stopped_early() -> None:
    bomb = lzma.compress(b"\0" * (300 << 20), preset=0)
    with pytest.raises(IntegrityError, match="more than the 1000 bytes"):
        decompress(bomb, ".xz", limit=1000, on="f")
