"""Packages that a root has already: read from its list, and left as they are by whatever is added.

The list (`lockbuild.archive.dpkg_status`) is in deb822 like an index, so the packages in it can stand in one; what
their stanzas lack there (a file, a digest) nobody asks of what is installed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lockbuild.errors import IntegrityError, ResolveError
from lockbuild.resolve.debian.closure import asked, choose
from lockbuild.resolve.debian.deb822 import Stanza, parse_stanza, stanza_spans
from lockbuild.resolve.debian.index import Package, PackageIndex
from lockbuild.resolve.debian.relations import parse_relations
from lockbuild.resolve.debian.universe import Need, Universe
from lockbuild.resolve.debian.version import version_key

_INSTALLED = ("installed", "triggers-awaited", "triggers-pending")
_RELATIONS = ("Provides", "Conflicts", "Breaks")
_HINT = (
    "packages that the image has stay as they are: name the suite that it was made from (`snapshot` reads it as it "
    "was then), or a newer image"
)


class Installed:
    """The packages for ``architecture`` in the list ``text``; ``on`` is what errors call it.

    ``versions`` has them by name. IntegrityError where it is no list of packages.
    """

    def __init__(self, text: bytes, architecture: str, *, on: str) -> None:
        self.versions: dict[str, str] = {}
        self._stanzas: list[str] = []
        for start, end in stanza_spans(text):
            stanza = parse_stanza(text[start:end], on=on)
            name, version = stanza.get("Package"), stanza.get("Version")
            status = (stanza.get("Status") or "").rpartition(" ")[2]
            if status not in _INSTALLED or stanza.get("Architecture") not in (architecture, "all"):
                continue
            if name is None or version is None or not _is_version(version):
                raise IntegrityError("its list of packages has one without a name or version", on=on)
            self.versions[name] = version
            self._stanzas.append(_entry(name, version, stanza))

    @property
    def index(self) -> bytes:
        """The packages as an index has them."""
        return "\n".join(self._stanzas).encode()


def additions(
    index: PackageIndex, installed: Mapping[str, str], requested: Sequence[str], architecture: str, *, on: str
) -> list[Package]:
    """The packages, by name, that ``requested`` needs beside those that are ``installed`` (name to version).

    ``index`` has these, too. ResolveError, which explains, where that cannot be without another version of one of
    them, or without it.
    """
    for wanted in requested:
        name, pinned, version = wanted.partition("=")
        if pinned and name in installed and version_key(version) != version_key(installed[name]):
            raise ResolveError(f"the image has {name} {installed[name]}, not {version}", on=on, hint=_HINT)
    others = frozenset(
        package
        for name, version in installed.items()
        for package in index.packages(name)
        if version_key(package.version) != version_key(version)
    )
    universe = Universe(index, architecture, others, installed, keeps_given=True)
    roots = [
        Need(name, frozenset(universe.packages(name)), f"{name} {version}, which the image has")
        for name, version in sorted(installed.items())
    ]
    roots += [asked(universe, wanted, on=on) for wanted in sorted(set(requested))]
    try:
        chosen = choose(universe, roots, on=on)
    except ResolveError as error:
        raise ResolveError(error.what, on=error.on, hint=error.hint or _HINT) from None
    return [package for package in chosen if not universe.is_given(package)]


def _entry(name: str, version: str, stanza: Stanza) -> str:
    fields = {"Package": name, "Version": version}
    for field in ("Architecture", "Multi-Arch"):
        fields[field] = stanza.get(field) or ""
    for field in _RELATIONS:
        fields[field] = _sound(stanza.get(field))
    fields.update({"Filename": "installed", "Size": "0", "SHA256": "0" * 64})
    return "".join(f"{field}: {value}\n" for field, value in fields.items() if value)


def _sound(relations: str | None) -> str:
    """The field on one line; empty where it is no list of relations: what made the image took it for one."""
    try:
        return ", ".join(map(str, parse_relations(relations)))
    except ValueError:
        return ""


def _is_version(version: str) -> bool:
    try:
        version_key(version)
    except ValueError:
        return False
    return True
