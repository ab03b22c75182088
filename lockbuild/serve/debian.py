"""The locked packages as a Debian archive: ``/debian/pool/…`` and ``/debian/dists/…``. Format: Debian's repository
format.

A lock names files of the pool and the signed index that they were found in. Two kinds of suites come of that:

- ``locked-NAME``, for each known lock: an index, made here and not signed, of exactly its packages. apt takes it only
  with ``[trusted=yes]``.
- the suite as its publisher signed it, where the store still has that index: it names many packages that are not here,
  and is past its Valid-Until mostly, but is the publisher's word.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from lockbuild.errors import IntegrityError
from lockbuild.model.digest import Digest
from lockbuild.model.lock import Suite
from lockbuild.serve.blobs import Blobs
from lockbuild.serve.by_digest import file_answer
from lockbuild.serve.library import KnownLock, Library
from lockbuild.serve.message import Answer, absent, made

COMPONENT = "main"
PREFIX = "locked-"
_LARGEST_RELEASE = 16 << 20
_LISTED = re.compile(rb"^ ([0-9a-f]{64}) +([0-9]{1,15}) +(\S{1,300})$", re.MULTILINE)
_OWN_FIELDS = (b"filename:", b"size:", b"sha256:", b"md5sum:")
_TEXT = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class SignedSuite:
    """A signed index: the file itself, and those that it lists and the store has, by path and digest."""

    inrelease: Digest
    files: Mapping[str, Digest]

    @property
    def usable(self) -> bool:
        """Whether some list of packages is there, too."""
        return any("/Packages" in path for path in self.files)


class DebianArchive:
    """Answers below ``/debian``. Thread-safe."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs
        self._lock = threading.Lock()
        self._stanzas: dict[Digest, bytes | None] = {}
        self._lists: dict[Digest, Mapping[str, Digest]] = {}

    def answer(self, library: Library, segments: Sequence[str]) -> Answer:
        """A package, or a file of a suite."""
        match list(segments):
            case ["dists", name, *rest] if name.startswith(PREFIX):
                return self._generated(library, name.removeprefix(PREFIX), "/".join(rest))
            case ["dists", name, *rest]:
                return self._signed(library, name, "/".join(rest))
        return file_answer(self._blobs, library.pool.get("/".join(segments)))

    def signed_suites(self, library: Library) -> dict[str, SignedSuite]:
        """By name and codename, the newest one that the store has."""
        found: dict[str, tuple[str, SignedSuite]] = {}
        for known in library.locks:
            for suite in known.lock.suites:
                signed = self._suite(suite)
                if signed is None:
                    continue
                for name in (suite.name, suite.codename):
                    if name not in found or found[name][0] < suite.date:
                        found[name] = suite.date, signed
        return {name: signed for name, (_, signed) in found.items()}

    # What is signed

    def _signed(self, library: Library, name: str, path: str) -> Answer:
        suite = self.signed_suites(library).get(name)
        if suite is None or not suite.usable:
            return absent("the store has no signed index of that suite")
        if path == "InRelease":
            return file_answer(self._blobs, suite.inrelease)
        digest = suite.files.get(path)
        if digest is None and "/by-hash/SHA256/" in path:
            wanted = path.rpartition("/")[2]
            digest = next((listed for listed in suite.files.values() if listed.hex == wanted), None)
        return file_answer(self._blobs, digest)

    def _suite(self, suite: Suite) -> SignedSuite | None:
        with self._lock:
            listed = self._lists.get(suite.inrelease)
        if listed is None:
            text = self._blobs.read(suite.inrelease, _LARGEST_RELEASE)
            if text is None:
                return None
            listed = {match[3].decode(): Digest(match[1].decode()) for match in _LISTED.finditer(text)}
            with self._lock:
                self._lists[suite.inrelease] = listed
        return SignedSuite(
            suite.inrelease, {path: digest for path, digest in listed.items() if self._blobs.has(digest)}
        )

    # What is made here

    def _generated(self, library: Library, name: str, path: str) -> Answer:
        known = next((known for known in library.locks if known.name == name), None)
        packages = {} if known is None else self._packages(known)
        if known is None or not packages:
            return absent("there is no such suite")
        indexes = {
            f"{COMPONENT}/binary-{architecture}/Packages": b"\n".join(stanzas)
            for architecture, stanzas in packages.items()
        }
        if path == "Release":
            return made(_release(known, indexes), _TEXT)
        for listed, data in indexes.items():
            by_hash = f"{listed.rpartition('/')[0]}/by-hash/SHA256/{Digest.of(data).hex}"
            if path in (listed, by_hash):
                return made(data, _TEXT)
        return absent()

    def _packages(self, known: KnownLock) -> dict[str, list[bytes]]:
        """The stanzas of its packages by architecture; those for all stand in each list, as apt expects."""
        found: dict[str, list[bytes]] = {}
        everywhere: list[bytes] = []
        for path, architecture, digest in _debs(known):
            stanza = self._stanza(path, digest)
            if stanza is not None:
                (everywhere if architecture == "all" else found.setdefault(architecture, [])).append(stanza)
        if everywhere and not found:
            found = {architecture: [] for architecture in architectures(known)}
        return {architecture: sorted([*own, *everywhere]) for architecture, own in sorted(found.items())}

    def _stanza(self, path: str, digest: Digest) -> bytes | None:
        """The package's entry in an index; None where it is not there or no package."""
        from lockbuild.archive.deb import control_files

        with self._lock:
            if digest in self._stanzas:
                return self._stanzas[digest]
        file = self._blobs.open(digest)
        if file is None:
            return None
        try:
            control = control_files(Path(f"/proc/self/fd/{file.descriptor}"))["control"]
        except IntegrityError:
            control = None
        finally:
            file.close()
        stanza = None if control is None else _entry(control, path, digest, file.size)
        with self._lock:
            self._stanzas[digest] = stanza
        return stanza


def architectures(known: KnownLock) -> list[str]:
    """The architectures that the lock's trees are for, as Debian calls them."""
    platforms = {tree.platform for tree in known.lock.trees if tree.platform != "any"}
    return sorted(platform.debian_architecture for platform in platforms)


def has_packages(known: KnownLock) -> bool:
    """Whether the lock names binary packages."""
    return next(_debs(known), None) is not None


def _debs(known: KnownLock) -> Iterator[tuple[str, str, Digest]]:
    """Path, architecture and digest of each of its binary packages."""
    from packageurl import PackageURL

    for source in known.lock.sources:
        if (
            source.purl.startswith("pkg:deb/")
            and source.path
            and source.sha256
            and source.path.endswith(".deb")
        ):
            qualifiers = PackageURL.from_string(source.purl).qualifiers
            assert isinstance(qualifiers, dict)
            yield source.path, qualifiers.get("arch", "all"), source.sha256


def _entry(control: bytes, path: str, digest: Digest, size: int) -> bytes:
    """The control file with what an index adds to it; what it says itself of those is left out."""
    lines: list[bytes] = []
    skipping = False
    for line in control.strip(b"\n").split(b"\n"):
        if not line.strip() or line.startswith(b"#"):
            continue
        if not line.startswith((b" ", b"\t")):
            skipping = line.lower().startswith(_OWN_FIELDS)
        if not skipping:
            lines.append(line)
    lines += [f"Filename: {path}".encode(), f"Size: {size}".encode(), f"SHA256: {digest.hex}".encode(), b""]
    return b"\n".join(lines)


def _release(known: KnownLock, indexes: Mapping[str, bytes]) -> bytes:
    dates = [datetime.fromisoformat(suite.date) for suite in known.lock.suites]
    date = max(dates, default=datetime(1970, 1, 1, tzinfo=UTC)).astimezone(UTC)
    names = sorted({path.split("/")[1].removeprefix("binary-") for path in indexes})
    lines = [
        "Origin: lockbuild",
        "Label: what a lock names, not signed",
        f"Suite: {PREFIX}{known.name}",
        f"Codename: {PREFIX}{known.name}",
        f"Date: {date.strftime('%a, %d %b %Y %H:%M:%S UTC')}",
        "Acquire-By-Hash: yes",
        f"Architectures: {' '.join(names)}",
        f"Components: {COMPONENT}",
        "SHA256:",
        *(f" {Digest.of(data).hex} {len(data)} {path}" for path, data in sorted(indexes.items())),
    ]
    return ("\n".join(lines) + "\n").encode()
