"""The binary packages of a suite for one architecture, read from its ``Packages`` indexes.

Format: Debian's repository format ("Packages" indices) and deb-control(5). An index has some 70,000
stanzas and a lock looks at a few thousand, so only names, ``Provides`` and ``Essential`` are scanned;
a stanza is read when its package is asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from lockbuild.errors import IntegrityError
from lockbuild.model.digest import Digest
from lockbuild.resolve.debian.deb822 import Stanza, parse_stanza, stanza_spans
from lockbuild.resolve.debian.relations import Clause, Relation, parse_clauses, parse_relations
from lockbuild.resolve.debian.version import version_key

_NAME = re.compile(r"[a-z0-9][a-z0-9+.-]+")
_PRIORITIES = ("required", "important", "standard", "optional", "extra")


@dataclass(frozen=True, slots=True, eq=False)
class Package:
    """One version of one binary package. ``path`` is below the archive's root, ``size`` in bytes.

    ``rank`` orders packages that serve equally: Essential, then by priority. ``conflicts`` holds
    Conflicts and Breaks, which mean the same to a set of packages that is unpacked at once.
    """

    name: str
    version: str
    architecture: str
    path: str
    size: int
    sha256: Digest
    multi_arch: str
    essential: bool
    rank: int
    depends: tuple[Clause, ...]
    provides: tuple[Relation, ...]
    conflicts: tuple[Relation, ...]

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


def checked_path(path: str, *, on: str) -> str:
    """``path`` as a file below the archive's root; IntegrityError where it could lead anywhere else."""
    parts = PurePosixPath(path).parts
    if not path or not path.isprintable() or path.startswith("/") or ".." in parts or "/".join(parts) != path:
        raise IntegrityError(f"{path[:200]!r} is not a path below the archive's root", on=on)
    return path


def checked_digest(value: str | None, *, on: str) -> Digest:
    """A SHA-256 field; IntegrityError where it is absent or malformed."""
    if value is None:
        raise IntegrityError("the index has no SHA256 for it", on=on)
    try:
        return Digest(value.lower())
    except ValueError as error:
        raise IntegrityError(str(error)[:200], on=on) from None


def checked_size(value: str | None, *, on: str) -> int:
    """A size in bytes; IntegrityError where it is absent or no number."""
    if value is None or not value.isascii() or not value.isdigit() or len(value) > 15:
        raise IntegrityError(f"the index gives no valid size for it ({(value or 'none')[:40]!r})", on=on)
    return int(value)


class PackageIndex:
    """Looks up packages for ``architecture`` in ``texts``, the contents of ``Packages`` files.

    What is found does not depend on the order of stanzas: versions come newest first, providers by rank and
    name. A version that several texts have counts once, as the first text has it. ``on`` names the index in
    errors; IntegrityError for a stanza that cannot be trusted to mean one file.
    """

    def __init__(self, texts: Sequence[bytes], architecture: str, *, on: str) -> None:
        self._on = on
        self._architecture = architecture
        self._texts = tuple(texts)
        self._spans: dict[str, list[tuple[int, int, int]]] = {}
        self._packages: dict[str, tuple[Package, ...]] = {}
        self._providers: dict[str, tuple[tuple[Package, Relation], ...]] = {}
        for number, text in enumerate(self._texts):
            for start, end in stanza_spans(text):
                self._spans.setdefault(self._name_at(text, start, end), []).append((number, start, end))
        self._providing = self._scan_provides()

    @property
    def names(self) -> Iterable[str]:
        """The names of all packages; virtual ones are not among them."""
        return self._spans.keys()

    @property
    def virtual_names(self) -> Iterable[str]:
        """The names that some package provides."""
        return self._providing.keys()

    def packages(self, name: str) -> tuple[Package, ...]:
        """The versions of package ``name``, newest first; () where there is none."""
        found = self._packages.get(name)
        if found is None:
            by_version: dict[object, Package] = {}
            for number, start, end in self._spans.get(name, ()):
                package = self._read(name, self._texts[number][start:end])
                if package is not None:
                    by_version.setdefault(version_key(package.version), package)
            found = tuple(by_version[key] for key in sorted(by_version, reverse=True))  # type: ignore[type-var]
            self._packages[name] = found
        return found

    def providers(self, name: str) -> tuple[tuple[Package, Relation], ...]:
        """The packages that provide ``name``, each with the Provides that does, the preferred one first."""
        found = self._providers.get(name)
        if found is None:
            pairs = [
                (package, provided)
                for owner in sorted(self._providing.get(name, ()))
                for package in self.packages(owner)
                for provided in package.provides
                if provided.name == name
            ]
            pairs.sort(key=lambda pair: (not pair[0].essential, pair[0].rank, pair[0].name))
            found = self._providers[name] = tuple(pairs)
        return found

    def essential(self) -> list[Package]:
        """The newest version of each package that has Essential: yes, by name."""
        names = set()
        for text in self._texts:
            position = text.find(b"\nEssential:")
            while position >= 0:
                start, end = self._span_around(text, position + 1)
                names.add(self._name_at(text, start, end))
                position = text.find(b"\nEssential:", position + 1)
        newest = (self.packages(name)[:1] for name in sorted(names))
        return [package for versions in newest for package in versions if package.essential]

    def _scan_provides(self) -> dict[str, set[str]]:
        providing: dict[str, set[str]] = {}
        for text in self._texts:
            position = text.find(b"\nProvides:")
            while position >= 0:
                start, end = self._span_around(text, position + 1)
                owner = self._name_at(text, start, end)
                line_end = text.find(b"\n", position + 1, end)
                line_end = end if line_end < 0 else line_end
                value = text[position + 10 : line_end]
                if text[line_end + 1 : line_end + 2] in (b" ", b"\t"):  # folded: rare, so read it in full
                    stanza = parse_stanza(text[start:end], on=self._on)
                    value = (stanza.get("Provides") or "").encode()
                for item in value.decode("utf-8", "replace").split(","):
                    name = item.split("(", 1)[0].strip().split(":", 1)[0]
                    providing.setdefault(name, set()).add(owner)
                position = text.find(b"\nProvides:", end)
        return providing

    @staticmethod
    def _span_around(text: bytes, position: int) -> tuple[int, int]:
        start = text.rfind(b"\n\n", 0, position)
        end = text.find(b"\n\n", position)
        return (0 if start < 0 else start + 2), (len(text) if end < 0 else end)

    def _name_at(self, text: bytes, start: int, end: int) -> str:
        if text.startswith(b"Package: ", start):
            stop = text.find(b"\n", start, end)
            name = text[start + 9 : end if stop < 0 else stop].decode("utf-8", "replace").strip()
        else:
            name = parse_stanza(text[start:end], on=self._on).get("Package") or ""
        if not _NAME.fullmatch(name):
            raise IntegrityError(f"{name[:80]!r} is not the name of a package", on=self._on)
        return name

    def _read(self, name: str, data: bytes) -> Package | None:
        on = f"{self._on}: {name}"
        stanza = parse_stanza(data, on=on)
        architecture = stanza.get("Architecture")
        if architecture not in (self._architecture, "all"):
            return None
        return _package(name, stanza, architecture, on)


def _package(name: str, stanza: Stanza, architecture: str, on: str) -> Package:
    try:
        version = stanza.get("Version") or ""
        version_key(version)
        depends = parse_clauses(stanza.get("Pre-Depends")) + parse_clauses(stanza.get("Depends"))
        provides = parse_relations(stanza.get("Provides"))
        conflicts = parse_relations(stanza.get("Conflicts")) + parse_relations(stanza.get("Breaks"))
    except ValueError as error:
        raise IntegrityError(str(error), on=on) from None
    priority = stanza.get("Priority")
    return Package(
        name=name,
        version=version,
        architecture=architecture,
        path=checked_path(stanza.get("Filename") or "", on=on),
        size=checked_size(stanza.get("Size"), on=on),
        sha256=checked_digest(stanza.get("SHA256"), on=on),
        multi_arch=stanza.get("Multi-Arch") or "no",
        essential=stanza.get("Essential") == "yes",
        rank=_PRIORITIES.index(priority) if priority in _PRIORITIES else len(_PRIORITIES),
        depends=tuple(dict.fromkeys(depends)),
        provides=provides,
        conflicts=tuple(dict.fromkeys(conflicts)),
    )
