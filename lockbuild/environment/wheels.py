"""Install wheels into a tree of their own, as pip would, but the same everywhere.

Specification: "Binary distribution format" (packaging.python.org). Below the mount point stand
``lib/python`` (packages), ``bin`` (scripts and launchers), ``include/NAME`` (headers), ``libexec``
(scripts that need the packages) and whatever the ``data`` directory holds. Launchers put the
tree's own ``lib/python`` on Python's path, so tools do not see one another's packages; a build
that wants to import them exports ``PYTHONPATH = "$OUT/lib/python"``.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lockbuild.archive.treewriter import TreeWriter
from lockbuild.environment.launcher import entry_points, launcher, script_launcher
from lockbuild.environment.record import Hashing, Recorded, broken, encoded, parse_record, render_record
from lockbuild.errors import ResolveError, storage_error

LIBRARY = "lib/python"
_UNHASHED = ("RECORD", "RECORD.jws", "RECORD.p7s")
_CODE_LIMIT = 16 << 20
"""Bytes that a metadata file or a script may have to be looked into."""


@dataclass(frozen=True, slots=True)
class _Installed:
    wheel: str
    digest: str
    executable: bool


@dataclass(slots=True)
class _Prefix:
    """The tree being filled: every path below the mount point and who put it there."""

    writer: TreeWriter
    mount: str
    python: str
    files: dict[str, _Installed] = field(default_factory=dict)

    def claim(self, path: str, installed: _Installed) -> None:
        """Note a file that was just written; ResolveError where another wheel has another one there."""
        other = self.files.setdefault(path, installed)
        if (other.digest, other.executable) != (installed.digest, installed.executable):
            first, second = sorted((other.wheel, installed.wheel))
            raise ResolveError(
                f"both install {path}, but different ones",
                on=f"wheels {first} and {second}",
                hint="make a tool of its own of each of the two",
            )


def wheels(files: Sequence[Path], root: Path, *, mount: str, python: str = "/usr/bin/python3") -> None:
    """Install the wheels ``files`` below ``root``/``mount``; ``python`` is the environment's interpreter.

    ``mount`` is absolute and part of the result: launchers name it. Every file is checked against its
    wheel's RECORD. Raises IntegrityError, naming wheel and file, where they do not agree or the wheel
    is damaged or unsafe; ResolveError where two wheels install different files at one path.
    """
    with TreeWriter(root, origin="wheel") as writer:
        writer.directory(mount.strip("/"))
        prefix = _Prefix(writer, "/" + mount.strip("/"), python)
        for file in files:
            try:
                with zipfile.ZipFile(file) as archive:
                    _Wheel(archive, file.name, prefix).install()
            except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
                raise broken(file.name, f"is damaged: {error}") from error
            except OSError as error:
                raise storage_error(error, "cannot unpack the wheel", on=file.name) from error


class _Wheel:
    def __init__(self, archive: zipfile.ZipFile, file_name: str, prefix: _Prefix) -> None:
        self._archive = archive
        self._prefix = prefix
        self.name = file_name
        self._items: dict[str, zipfile.ZipInfo] = {}
        for item in archive.infolist():
            if item.filename in self._items:
                raise broken(file_name, f"holds {item.filename!r} twice")
            if (item.external_attr >> 16) & 0o170000 not in (0, 0o100000, 0o040000):
                raise broken(file_name, f"holds {item.filename!r}, which is a link or a special file")
            if item.flag_bits & 1:
                raise broken(file_name, f"holds {item.filename!r} encrypted")
            if not item.is_dir():
                self._items[item.filename] = item
        infos = {top for name in self._items if (top := name.partition("/")[0]).endswith(".dist-info")}
        if len(infos) != 1:
            raise broken(file_name, f"has {len(infos)} .dist-info directories; a wheel has one")
        self._info = infos.pop()
        self.name = self._info.removesuffix(".dist-info")
        self._data = f"{self.name}.data"
        prefix.writer.origin = f"wheel {self.name}"
        self._record = parse_record(self._metadata("RECORD"), wheel=self.name)
        self._rows: list[tuple[str, str, int]] = []

    def install(self) -> None:
        """Everything in it, its launchers, and the RECORD of what was installed."""
        version = self._field("WHEEL", "wheel-version")
        if version.partition(".")[0] != "1":
            raise broken(self.name, f"is of wheel format {version!r}; only 1.x is known")
        unhashed = {f"{self._info}/{name}" for name in _UNHASHED}
        for path, recorded in self._record.items():
            if path not in self._items and not path.endswith("/"):
                raise broken(self.name, f"{path!r} is in RECORD, but not in the wheel")
            if recorded is None and path not in unhashed:
                raise broken(self.name, f"{path!r} has no hash in RECORD")
        for path, item in self._items.items():
            if path in unhashed:
                continue
            recorded = self._record.get(path)
            if recorded is None:
                raise broken(self.name, f"{path!r} is in the wheel, but not in RECORD")
            self._file(path, item, recorded)
        self._launchers()
        self._write(f"{LIBRARY}/{self._info}/INSTALLER", b"lockbuild\n", executable=False)
        own = f"{self._info}/RECORD"
        self._prefix.writer.file(
            self._at(f"{LIBRARY}/{own}"), render_record(own, self._rows).encode(), executable=False
        )

    def _at(self, path: str) -> str:
        return f"{self._prefix.mount.lstrip('/')}/{path}"

    def _metadata(self, name: str) -> str:
        item = self._items.get(f"{self._info}/{name}")
        if item is None:
            raise broken(self.name, f"has no {self._info}/{name}")
        return self._read(item).decode("utf-8", "replace")

    def _field(self, name: str, wanted: str) -> str:
        for line in self._metadata(name).splitlines():
            key, _, value = line.partition(":")
            if key.strip().lower() == wanted:
                return value.strip()
        return ""

    def _read(self, item: zipfile.ZipInfo) -> bytes:
        if item.file_size > _CODE_LIMIT:
            raise broken(self.name, f"{item.filename!r} is too large for what it is ({item.file_size} bytes)")
        return self._archive.read(item)

    def _place(self, path: str) -> tuple[str, bool]:
        """Where a file of the wheel goes below the mount point, and whether it is a script."""
        top, _, rest = path.partition("/")
        if top != self._data:
            return f"{LIBRARY}/{path}", False
        scheme, _, below = rest.partition("/")
        if not below:
            raise broken(self.name, f"{path!r} is in no scheme of the data directory")
        match scheme:
            case "purelib" | "platlib":
                return f"{LIBRARY}/{below}", False
            case "scripts":
                if "/" in below:
                    raise broken(self.name, f"{path!r} is a script in a directory")
                return f"bin/{below}", True
            case "data":
                return below, False
            case "headers":
                return f"include/{self.name.partition('-')[0]}/{below}", False
        raise broken(self.name, f"{path!r} belongs to an unknown scheme")

    def _file(self, path: str, item: zipfile.ZipInfo, recorded: Recorded) -> None:
        place, script = self._place(path)
        executable = script or bool((item.external_attr >> 16) & 0o111)
        with self._archive.open(item) as stream:
            content = Hashing(stream, recorded.algorithm)
            if script and self._is_python(item):
                self._python_script(content, place, item)
            else:
                self._prefix.writer.file(self._at(place), content, executable=executable)
                self._note(place, content.found("sha256"), content.size, executable=executable)
        if content.found(recorded.algorithm) != recorded.digest or recorded.size not in (None, content.size):
            raise broken(
                self.name,
                f"{path!r} is not what RECORD says: {recorded.algorithm}={content.found(recorded.algorithm)}, "
                f"{content.size} bytes, but recorded as {recorded.algorithm}={recorded.digest}, "
                f"{recorded.size} bytes",
            )

    def _is_python(self, item: zipfile.ZipInfo) -> bool:
        with self._archive.open(item) as stream:
            return stream.read(8).startswith(b"#!python")

    def _python_script(self, content: Hashing, place: str, item: zipfile.ZipInfo) -> None:
        """A script for ``#!python`` gets the environment's interpreter and, like an entry point, its packages."""
        if item.file_size > _CODE_LIMIT:
            raise broken(self.name, f"the script {item.filename!r} is too large ({item.file_size} bytes)")
        data = content.read(_CODE_LIMIT + 1)
        body = data.partition(b"\n")[2]
        kept = f"libexec/{place.removeprefix('bin/')}"
        self._write(kept, f"#!{self._prefix.python}\n".encode() + body, executable=True)
        mount = self._prefix.mount
        start = script_launcher(self._prefix.python, f"{mount}/{LIBRARY}", f"{mount}/{kept}")
        self._write(place, start, executable=True)

    def _launchers(self) -> None:
        if f"{self._info}/entry_points.txt" not in self._items:
            return
        text = self._metadata("entry_points.txt")
        for entry in entry_points(text, wheel=self.name):
            data = launcher(self._prefix.python, f"{self._prefix.mount}/{LIBRARY}", entry)
            self._write(f"bin/{entry.name}", data, executable=True)

    def _write(self, place: str, data: bytes, *, executable: bool) -> None:
        import hashlib

        self._prefix.writer.file(self._at(place), data, executable=executable)
        self._note(place, encoded(hashlib.sha256(data).digest()), len(data), executable=executable)

    def _note(self, place: str, digest: str, size: int, *, executable: bool) -> None:
        self._prefix.claim(place, _Installed(self.name, digest, executable))
        relative = place.removeprefix(f"{LIBRARY}/") if place.startswith(f"{LIBRARY}/") else f"../../{place}"
        self._rows.append((relative, digest, size))
