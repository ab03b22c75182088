"""Where this machine gets Debian from, read from apt's own configuration.

Follows sources.list(5) (deb822 ``.sources`` and one-line ``.list`` files), apt.conf(5) and
apt-transport-mirror(1). ``apt-config`` says where the files are; without apt the usual places are
looked at, and a machine that has none of them has no mirror.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from lockbuild.reading import read_regular_text

_PLACEHOLDER = "@SNAPSHOTID@"
_SUITES = re.compile(
    r"(?:old)*stable|testing|unstable|sid|experimental|rc-buggy|buzz|rex|bo|hamm|slink|potato|woody|sarge|etch"
    r"|lenny|squeeze|wheezy|jessie|stretch|buster|bullseye|bookworm|trixie|forky|duke"
)
_POCKETS = re.compile(r"-(?:updates|proposed-updates|backports(?:-sloppy)?)$")
_SNAPSHOT = re.compile(r"(?P<service>\S+?)/(?P<time>\d{8}T\d{6}Z)(?:/|$)")
_TIME = re.compile(r"/\d{8}T\d{6}Z$")
_COMMENT = re.compile(r"https?://\S+/debian/\d{8}T\d{6}Z")
_FALSE = ("no", "false", "without", "off", "disable", "0")
"""How apt spells a boolean that is not true."""
_KEYRINGS = (
    "usr/share/keyrings/debian-archive-keyring.pgp",
    "usr/share/keyrings/debian-archive-keyring.gpg",
    "etc/apt/trusted.gpg.d/debian-archive-keyring.gpg",
)


@dataclass(frozen=True, slots=True)
class _Entry:
    """One enabled source that gives the Debian archive: a base URL and the keyring named for it."""

    uri: str
    signed_by: Path | None


def archive_mirrors(environ: Mapping[str, str] | None = None, *, root: Path = Path("/")) -> list[str]:
    """Base URLs of the Debian archive, in apt's order, each once; [] where apt has none.

    Enabled sources that have the component main count where Debian's keyring signs them, or their suite and
    path are Debian's; security archives, those of other vendors, and methods other than http, https and file do
    not. ``environ`` is by default the process's; ``root`` is the file system to look at.
    """
    return list(dict.fromkeys(entry.uri for entry in _entries(_settings(environ, root))))


def snapshot_service(environ: Mapping[str, str] | None = None, *, root: Path = Path("/")) -> str | None:
    """The URL of a service that keeps old states of the Debian archive, or None.

    It is apt's setting ``Acquire::Snapshots::URI`` for Debian, else what stands before a timestamp in a URL
    ``…/archive/debian/<timestamp>`` of the sources files, comments included (Debian's images note there what
    they were made from). Complete it with `snapshot_url`.
    """
    settings = _settings(environ, root)
    for key in ("override::label::debian", "override::origin::debian", "label::debian", "origin::debian"):
        for uri in settings.values.get(f"acquire::snapshots::uri::{key}", ()):
            if _PLACEHOLDER in uri:
                return uri.rstrip("/").removesuffix(f"/{_PLACEHOLDER}")
    for _, text in _source_texts(settings):
        for found in _COMMENT.findall(text):
            match = _SNAPSHOT.match(found)
            if match is not None:
                return match["service"]
    return None


def snapshot_url(service: str, time: str) -> str:
    """The base URL of the archive as it was at ``time`` (as 20261101T000000Z), without a final slash."""
    if _PLACEHOLDER in service:
        return service.replace(_PLACEHOLDER, time).rstrip("/")
    return f"{service.rstrip('/')}/{time}"


def keyring(environ: Mapping[str, str] | None = None, *, root: Path = Path("/")) -> Path:
    """The keyring of the Debian archive: the one that apt's source for it names, else the usual one.

    The file need not exist: who reads it says what to install.
    """
    settings = _settings(environ, root)
    for entry in _entries(settings):
        if entry.signed_by is not None and entry.signed_by.is_file():
            return entry.signed_by
    usual = [settings.root / place for place in _KEYRINGS]
    return next((path for path in usual if path.is_file()), usual[0])


def accepts_expired(environ: Mapping[str, str] | None = None, *, root: Path = Path("/")) -> bool:
    """Whether this machine's administrator told apt to take indexes past their Valid-Until, as one does beside
    a frozen mirror: ``Acquire::Check-Valid-Until "false"`` (apt.conf(5))."""
    values = _settings(environ, root).values.get("acquire::check-valid-until", ())
    return bool(values) and values[-1].lower() in _FALSE


@dataclass(frozen=True, slots=True)
class _Settings:
    """apt's settings: names in lower case, each with its values in order."""

    values: Mapping[str, tuple[str, ...]]
    host: Path

    @property
    def root(self) -> Path:
        """apt's ``Dir``, which everything else is relative to."""
        return self.host / self._one("dir", "/").lstrip("/")

    @property
    def files(self) -> list[Path]:
        """The files of sources that apt reads, in its order."""
        etc = self.root / self._one("dir::etc", "etc/apt")
        main = etc / self._one("dir::etc::sourcelist", "sources.list")
        parts = etc / self._one("dir::etc::sourceparts", "sources.list.d")
        found = [main] if main.is_file() else []
        if parts.is_dir():
            found += sorted(path for path in parts.iterdir() if path.suffix in (".list", ".sources"))
        return found

    def _one(self, key: str, default: str) -> str:
        return (self.values.get(key) or (default,))[-1] or default


def _settings(environ: Mapping[str, str] | None, root: Path) -> _Settings:
    import subprocess

    environ = os.environ if environ is None else environ
    try:
        done = subprocess.run(
            ["apt-config", "dump"],
            capture_output=True,
            check=False,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            timeout=30,
        )
    except (OSError, subprocess.TimeoutExpired):
        return _Settings({}, root)
    values: dict[str, list[str]] = {}
    for line in done.stdout.decode("utf-8", "replace").splitlines():
        name, space, value = line.partition(" ")
        if space and value.startswith('"') and value.endswith('";'):
            values.setdefault(name.lower().removesuffix("::"), []).append(value[1:-2])
    return _Settings({name: tuple(items) for name, items in values.items()}, root)


def _source_texts(settings: _Settings) -> Iterator[tuple[Path, str]]:
    for path in settings.files:
        try:
            yield path, read_regular_text(path, "replace")
        except OSError:
            continue  # not for this user: apt passes over it as well


def _entries(settings: _Settings) -> Iterator[_Entry]:
    for path, text in _source_texts(settings):
        read = _deb822_entries if path.suffix == ".sources" else _one_line_entries
        for uris, suites, components, signed_by in read(text):
            named = Path(signed_by) if signed_by and signed_by.startswith("/") else None
            known = any(map(_is_debian_suite, suites))
            for uri in _expand(uris):
                if "main" in components and _is_debian_archive(uri, known, named):
                    yield _Entry(uri.rstrip("/"), named)


_Fields = tuple[list[str], list[str], list[str], str | None]


def _deb822_entries(text: str) -> Iterator[_Fields]:
    kept = [line for line in text.splitlines() if not line.startswith("#")]
    for stanza in re.split(r"\n\s*\n", "\n".join(kept)):
        fields: dict[str, str] = {}
        name = ""
        for line in stanza.splitlines():
            if line.startswith((" ", "\t")):
                fields[name] = f"{fields.get(name, '')}\n{line}"
            else:
                name, _, value = line.partition(":")
                name = name.strip().lower()
                fields[name] = value.strip()
        if fields.get("enabled", "yes").strip().lower() in ("no", "false", "off", "0", "without", "disable"):
            continue
        if not {"deb", "deb-src"} & set(fields.get("types", "").split()):
            continue
        signed_by = (fields.get("signed-by") or "").strip()
        yield (
            fields.get("uris", "").split(),
            fields.get("suites", "").split(),
            fields.get("components", "").split(),
            signed_by.split()[0] if signed_by.startswith("/") else None,
        )


def _one_line_entries(text: str) -> Iterator[_Fields]:
    for line in text.splitlines():
        match = re.match(r"\s*deb(?:-src)?\s+(?:\[(?P<options>[^]]*)\]\s*)?(?P<rest>[^#]*)", line)
        words = match["rest"].split() if match else []
        if match is None or len(words) < 3:
            continue
        options = dict(option.partition("=")[::2] for option in (match["options"] or "").split())
        signed_by = options.get("signed-by", "").split(",")[0]
        yield [words[0]], [words[1]], words[2:], signed_by or None


def _expand(uris: list[str]) -> Iterator[str]:
    """Each URI; in the place of a ``mirror+file:`` list the mirrors that it names."""
    for uri in uris:
        if not uri.startswith("mirror+file:"):
            yield uri
            continue
        try:
            text = read_regular_text(Path(urlsplit(uri).path), "replace")
        except OSError:
            continue
        for line in text.splitlines():
            words = line.split("#", 1)[0].split()
            if words:
                yield words[0]


def _is_debian_suite(suite: str) -> bool:
    return _SUITES.fullmatch(_POCKETS.sub("", suite)) is not None


def _is_debian_archive(uri: str, known_suite: bool, signed_by: Path | None) -> bool:
    parts = urlsplit(uri)
    if parts.scheme not in ("http", "https", "file"):
        return False
    last = _TIME.sub("", parts.path.rstrip("/")).rpartition("/")[2].lower()
    if any(word in last for word in ("security", "debug", "ports")):
        return False
    if signed_by is not None and signed_by.name.startswith("debian-archive"):
        return True
    # Other vendors publish for Debian's suites below paths of their own; mirrors keep the archive's name.
    return known_suite and "debian" in last
