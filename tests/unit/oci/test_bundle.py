"""The format of bundles: what is written is read, and nothing else is."""

from __future__ import annotations

import json
import random
import resource
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import pytest

from lockbuild.archive import ustar
from lockbuild.errors import IntegrityError, LockbuildError, UsageError
from lockbuild.model.digest import Digest
from lockbuild.model.lock import Lock
from lockbuild.oci.bundle import contents as bundle
from lockbuild.oci.bundle.contents import Blob, Contents
from lockbuild.oci.bundle.read import LIMIT, BundleReader, CutShortError
from lockbuild.oci.bundle.source import StreamSource
from lockbuild.oci.bundle.text import index_text
from tests.support.bundles import (
    COMMIT,
    SmallBundle,
    changed_tree,
    entries,
    file_entry,
    joined,
    small_bundle,
)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> SmallBundle:
    return small_bundle(tmp_path_factory.mktemp("small"))


@dataclass
class Reading:
    """Reads bytes as a bundle from a file."""

    directory: Path

    def __call__(self, data: bytes) -> Contents:
        file = self.directory / "some.bundle"
        file.write_bytes(data)
        with file.open("rb", buffering=0) as stream:
            return self.stream(stream)

    @staticmethod
    def stream(stream: BinaryIO) -> Contents:
        reader = BundleReader(StreamSource(stream, "some.bundle"))
        for section in reader.sections():
            section.finish()
        return reader.contents


@pytest.fixture
def read(tmp_path: Path) -> Reading:
    return Reading(tmp_path)


def refusal(read: Reading, data: bytes) -> str:
    with pytest.raises(IntegrityError) as caught:
        read(data)
    assert caught.value.on == "some.bundle"
    assert caught.value.hint
    assert "\n" not in caught.value.what
    return caught.value.what


def test_what_is_written_is_read(small: SmallBundle, read: Reading) -> None:
    assert read(small.data) == small.contents


def test_it_is_an_oci_layout_whose_references_all_lead_to_blobs(small: SmallBundle) -> None:
    files = {name: raw[ustar.BLOCK :] for name, raw in entries(small.data)}
    index = json.loads(files["index.json"].rstrip(b"\0"))
    (artefact,) = index["manifests"]
    assert artefact["artifactType"] == bundle.BUNDLE_TYPE
    assert artefact["annotations"] == {"org.opencontainers.image.ref.name": "bundle"}
    manifest = json.loads(files[f"blobs/sha256/{artefact['digest'][7:]}"].rstrip(b"\0"))
    named = [artefact, manifest["config"], *manifest["layers"]]
    blobs = {name for name in files if name.startswith("blobs/sha256/") and not name.endswith("/")}
    assert {f"blobs/sha256/{item['digest'][7:]}" for item in named} == blobs
    for item in named:
        data = files[f"blobs/sha256/{item['digest'][7:]}"][: item["size"]]
        assert str(Digest.of(data)) == item["digest"]


def test_the_index_for_people(small: SmallBundle) -> None:
    text = index_text(small.contents, small.lock)
    assert "toolchain    small\n" in text
    assert "linux/amd64:tools.tool\n" in text
    assert f"pkg:github/someone/code@{COMMIT}\n" in text
    assert dict(entries(small.data))["INDEX.txt"][ustar.BLOCK :].startswith(text.encode())


def test_text_of_others_cannot_move_the_cursor(small: SmallBundle) -> None:
    lock = small.lock.model_copy(
        update={
            "manifest": small.lock.manifest.model_copy(
                update={"inputs": {"name": "a\x1b[2J\nb", "platforms": []}}
            )
        }
    )
    assert "toolchain    a\\x1b[2J\\nb\n" in index_text(small.contents, lock)


# What came to harm on its way


def test_every_cut_is_seen(small: SmallBundle, read: Reading) -> None:
    data = small.data
    for length in [0, 1, 511, 512, 513, *range(1024, len(data), 487), len(data) - 1]:
        with pytest.raises(LockbuildError) as caught:
            read(data[:length])
        assert isinstance(caught.value, CutShortError), length
        assert f"it ends after {length:,} bytes" in caught.value.what


def test_every_flipped_byte_is_seen(small: SmallBundle, read: Reading) -> None:
    data = small.data
    chosen = random.Random(1).sample(range(len(data)), 400)
    for at in {0, 100, 124, 156, 257, 329, 345, *chosen}:
        flipped = bytearray(data)
        flipped[at] ^= 1 << at % 8
        with pytest.raises((IntegrityError, UsageError)):
            read(bytes(flipped))


def test_something_else_is_no_bundle(read: Reading) -> None:
    for data in (b"PK\3\4" + bytes(600), b"x" * 1000):
        with pytest.raises(UsageError, match="this is no bundle of lockbuild"):
            read(data)


def test_something_after_the_end(small: SmallBundle, read: Reading) -> None:
    assert "something follows its end" in refusal(read, small.data + b"\0")
    assert "something follows where it should end" in refusal(
        read, joined([*entries(small.data), file_entry("more", b"")])
    )


# What somebody put in


def inserted(small: SmallBundle, at: int, *added: tuple[str, bytes]) -> bytes:
    parts = entries(small.data)
    return joined([*parts[:at], *added, *parts[at:]])


def test_an_added_blob(small: SmallBundle, read: Reading) -> None:
    data = b"not named"
    name = f"blobs/sha256/{Digest.of(data).hex}"
    for at in range(1, len(entries(small.data))):
        said = refusal(read, inserted(small, at, file_entry(name, data)))
        # Before the lock is read, it can only be taken for what should stand there.
        assert "there should be " in said or (5 <= at <= 7 and "its l" in said)


def test_a_blob_under_a_false_name(small: SmallBundle, read: Reading) -> None:
    parts = entries(small.data)
    first, second = parts[-2], parts[-1]
    swapped = [*parts[:-2], (second[0], second[1][:512] + first[1][512:]), second]
    assert "there should be blobs/sha256/" in refusal(read, joined(swapped))
    data = bytes(len(second[1]) - 512)
    size = int(second[1][124:135], 8)
    other = [*parts[:-1], file_entry(second[0], data[:size])]
    assert "the layer of linux/amd64:" in (said := refusal(read, joined(other)))
    assert "is damaged: its bytes have the digest sha256:" in said


@pytest.mark.parametrize(
    ("added", "shown"),
    [
        (file_entry("../../evil", b"x"), "'../../evil'"),
        (file_entry("/etc/passwd", b"x"), "'/etc/passwd'"),
        (file_entry("blobs/sha256/../../../x", b"x"), "'blobs/sha256/../../../x'"),
        (file_entry("link", b"", kind=b"2", link=b"/etc"), "'link', a symbolic link"),
        (file_entry("link", b"", kind=b"1", link=b"index.json"), "'link', a hard link"),
        (file_entry("null", b"", kind=b"3"), "'null', a device"),
        (file_entry("pipe", b"", kind=b"6"), "'pipe', a fifo"),
        (file_entry("x", b"9" * 3_000_000, kind=b"x"), "'x', a pax header"),
        (file_entry("x", b"9" * 3_000_000, kind=b"L"), "'x', a long name"),
        (file_entry("index.json", b"{}"), "'index.json'"),
    ],
)
def test_entries_that_lead_elsewhere(
    small: SmallBundle, read: Reading, added: tuple[str, bytes], shown: str
) -> None:
    for at in (0, 1, 3, 5, 8, len(entries(small.data)) - 1):
        if at == 0:
            with pytest.raises(LockbuildError, match="refused|no bundle"):
                read(inserted(small, at, added))
        else:
            said = refusal(read, inserted(small, at, added))
            assert f"and not {shown}" in said or (shown == "'index.json'" and at == 1 and "INDEX.txt" in said)


def test_an_entry_that_is_there_twice(small: SmallBundle, read: Reading) -> None:
    parts = entries(small.data)
    for at, part in enumerate(parts):
        said = refusal(read, inserted(small, at + 1, part))
        last = at == len(parts) - 1 and "something follows where it should end" in said
        assert "there should be " in said or (5 <= at <= 7 and "its l" in said) or last


def test_entries_in_another_order(small: SmallBundle, read: Reading) -> None:
    parts = entries(small.data)
    for at in range(1, len(parts)):
        swapped = list(parts)
        swapped[at - 1], swapped[at] = swapped[at], swapped[at - 1]
        with pytest.raises(LockbuildError, match="there should be|no bundle|refused: its l"):
            read(joined(swapped))


def replaced(small: SmallBundle, name: str, data: bytes) -> bytes:
    return joined(
        [file_entry(name, data) if known == name else (known, raw) for known, raw in entries(small.data)]
    )


def test_an_index_of_ten_million_entries(small: SmallBundle, read: Reading) -> None:
    entry = b'{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":"sha256:00","size":1},'
    size = len(b'{"schemaVersion":2,"manifests":[') + len(entry) * 10_000_000
    begin = joined(entries(small.data)[:1])[: -len(ustar.END)]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    peak = _resident()
    data = begin + ustar.file_header(b"index.json", size, executable=False) + entry * 100_000
    assert f"index.json has {size:,} bytes, and may have {LIMIT:,}" in refusal(read, data)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_utime - before < 1
    assert _resident() - peak < 50 << 20


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


@pytest.mark.parametrize("name", ["index.json", "INDEX.txt"])
def test_an_index_that_is_not_the_one_of_the_contents(small: SmallBundle, read: Reading, name: str) -> None:
    raw = dict(entries(small.data))[name]
    size = int(raw[124:135], 8)
    text = raw[512 : 512 + size]
    assert f"{name} is not the one of its contents" in refusal(read, replaced(small, name, text + b"\n"))


def head(small: SmallBundle, contents: bytes) -> bytes:
    """A bundle up to its contents, which are these bytes."""
    parts = entries(small.data)
    return joined([*parts[:6], file_entry(f"blobs/sha256/{Digest.of(contents).hex}", contents)])[:-1024]


@pytest.mark.parametrize(
    "contents",
    [
        b"[" * 1_000_000,
        b'{"a":' * 500_000,
        b"[" + b"{}," * 390_000 + b"{}]",
        b'{"trees":[' + b"1," * 390_000 + b"1]}",
        b"{" + b",".join(b'"k%d":1' % number for number in range(300_000)) + b"}",
        b"9" * 100_000,
        b"\xff\xfe",
        b"null",
    ],
)
def test_contents_that_cost_much_to_read(small: SmallBundle, read: Reading, contents: bytes) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    peak = _resident()
    assert "list of contents" in refusal(read, head(small, contents))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_utime - before < 5
    assert _resident() - peak < 250 << 20


def test_contents_of_more_than_there_may_be(small: SmallBundle, read: Reading) -> None:
    assert "may have" in refusal(read, head(small, bytes(LIMIT + 1)))
    assert "has more than 400,000 values" in refusal(read, head(small, b"," * 400_001))


@pytest.mark.parametrize(
    "lock",
    [
        b"a = " + b"[" * 200_000,
        b".".join([b"a"] * 200_000) + b" = 1",
        b'x = { "' + b'"."'.join([b"a"] * 200_000) + b'" = 1 }',
        b"[" + b".".join([b"a"] * 200_000) + b"]",
        b'x = "' + b"\\n" * 500_000 + b'"',
        b'x = "' + b'\\"' * 500_000,
        b"".join(b"x%d=1\n" % number for number in range(150_000)),
        b"schema = 1\n",
        b"\xff",
        b"schema = 1\n[manifest]\ndigest = 1\n",
    ],
)
def test_locks_that_cost_much_to_read(small: SmallBundle, read: Reading, lock: bytes) -> None:
    contents = small.contents.model_copy(update={"lock": Blob(digest=Digest.of(lock), size=len(lock))})
    before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    peak = _resident()
    data = head(small, contents.data()) + file_entry(f"blobs/sha256/{Digest.of(lock).hex}", lock)[1]
    assert "its lock is not one that lockbuild writes" in refusal(read, data)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_utime - before < 8
    assert _resident() - peak < 250 << 20


def test_formats_of_the_future(small: SmallBundle, read: Reading) -> None:
    with pytest.raises(
        UsageError, match="the bundle has schema 2, and this version of lockbuild reads schema 1"
    ):
        read(head(small, b'{"schema":2}'))
    lock = b"schema = 7\n"
    contents = small.contents.model_copy(update={"lock": Blob(digest=Digest.of(lock), size=len(lock))})
    data = head(small, contents.data()) + file_entry(f"blobs/sha256/{Digest.of(lock).hex}", lock)[1]
    with pytest.raises(UsageError, match="it has schema 7"):
        read(data)


# What the lock does not name


def without_tree(lock: Lock, name: str) -> Lock:
    return lock.model_copy(
        update={
            "trees": [
                tree.model_copy(update={"digest": None}) if tree.name == name else tree for tree in lock.trees
            ]
        }
    )


def without_source(lock: Lock) -> Lock:
    changed = [
        source.model_copy(update={"sha256": Digest("5" * 64)})
        if source.commit is None and source.sha256
        else source
        for source in lock.sources
    ]
    return lock.model_copy(update={"sources": changed})


Case = Callable[[SmallBundle], bytes]


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (
            lambda small: small.written(small.contents, without_tree(small.lock, "tools.tool")),
            r"the lock names no tree 'linux/amd64:tools.tool' of the digest sha256:\w+",
        ),
        (
            lambda small: small.written(small.contents, without_source(small.lock)),
            r"the lock names no source 'pkg:deb/debian/data@1\?arch=all&distro=forky' of the digest sha256:\w+",
        ),
        (
            lambda small: small.written(changed_tree(small.contents, 0, names=["linux/amd64:tools.other"])),
            "the lock names no tree 'linux/amd64:tools.other'",
        ),
        (
            lambda small: small.written(
                small.contents.model_copy(update={"trees": small.contents.trees[::-1]})
            ),
            "the trees are not in order, or one is there twice",
        ),
        (
            lambda small: small.written(
                small.contents.model_copy(update={"signatures": [Blob(digest=Digest.of(b"x"), size=1)]})
            ),
            "the lock names no signed index",
        ),
    ],
)
def test_what_the_lock_does_not_name(small: SmallBundle, read: Reading, make: Case, why: str) -> None:
    with pytest.raises(IntegrityError, match=f"it holds what its lock does not name: .*{why}"):
        read(make(small))


def test_a_lock_that_is_another_one(small: SmallBundle, read: Reading) -> None:
    other = without_tree(small.lock, "base")
    parts = entries(small.data)
    theirs = entries(small.written(small.contents, other))
    mixed = [*parts[:7], theirs[7], *parts[8:]]
    assert "its lock is another one than its list of contents names" in refusal(read, joined(mixed))
