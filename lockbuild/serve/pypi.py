"""The locked wheels as a Python package index: ``/pypi/simple/``.

The simple repository API (packaging.python.org): PEP 503 (HTML), 691 (JSON), 658 and 714 (metadata beside the file),
700 (sizes and versions), 629 (its version). Links are relative, so that the index may stand behind another server.
"""

from __future__ import annotations

import re
import threading
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any
from urllib.parse import quote

from lockbuild.model.digest import Digest
from lockbuild.serve.blobs import Blobs
from lockbuild.serve.by_digest import file_answer
from lockbuild.serve.library import Library, Wheel
from lockbuild.serve.message import FOREVER, Answer, Data, Request, absent, as_json, made, text

_JSON = "application/vnd.pypi.simple.v1+json"
_HTML = "application/vnd.pypi.simple.v1+html"
_VERSION = "1.1"
_METADATA_LIMIT = 4 << 20
_METADATA = re.compile(r"[^/]+\.dist-info/METADATA")


@dataclass(frozen=True, slots=True)
class _Metadata:
    """What a wheel's METADATA is and says."""

    data: bytes
    digest: Digest
    requires_python: str | None


class PythonIndex:
    """Answers below ``/pypi``. What wheels say of themselves is read once. Thread-safe."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs
        self._known: dict[Digest, _Metadata | None] = {}
        self._lock = threading.Lock()

    def answer(self, library: Library, segments: Sequence[str], request: Request) -> Answer:
        """The index, the page of a project, a file or its metadata."""
        match list(segments):
            case ["simple"]:
                return text("see simple/", 301).having(Location="simple/")
            case ["simple", ""]:
                return self._projects(library, request)
            case ["simple", name, *rest] if rest in ([], [""]):
                return self._project(library, name, request, slash=bool(rest))
            case ["files", digest, name]:
                return self._file(library, digest, name)
        return absent()

    def _projects(self, library: Library, request: Request) -> Answer:
        names = sorted(library.wheels)
        if _wanted(request) == _JSON:
            return _page({"meta": {"api-version": _VERSION}, "projects": [{"name": name} for name in names]})
        return _document(
            request, "Simple index", [f'<a href="{name}/">{name}</a>' for name in map(escape, names)]
        )

    def _project(self, library: Library, name: str, request: Request, *, slash: bool) -> Answer:
        from packaging.utils import canonicalize_name

        project = canonicalize_name(name)
        if project not in library.wheels:
            return absent("no known lock names that project")
        if project != name or not slash:
            return text(f"see {project}/", 301).having(Location=f"{'../' if slash else ''}{project}/")
        wheels = [wheel for wheel in library.wheels[project].values() if self._blobs.has(wheel.digest)]
        wheels.sort(key=lambda wheel: (wheel.name, wheel.digest))
        if _wanted(request) == _JSON:
            files = [self._described(wheel) for wheel in wheels]
            files = [file for file in files if file is not None]
            versions = sorted({version for wheel in wheels if (version := _version(wheel))})
            return _page(
                {"meta": {"api-version": _VERSION}, "name": project, "versions": versions, "files": files}
            )
        return _document(request, f"Links for {project}", [self._link(wheel) for wheel in wheels])

    def _described(self, wheel: Wheel) -> dict[str, Any] | None:
        file = self._blobs.open(wheel.digest)
        if file is None:
            return None
        size = file.size
        file.close()
        described: dict[str, Any] = {
            "filename": wheel.name,
            "hashes": {"sha256": wheel.digest.hex},
            "size": size,
            "url": _url(wheel),
        }
        metadata = self._metadata(wheel)
        if metadata is not None:
            described["core-metadata"] = described["dist-info-metadata"] = {"sha256": metadata.digest.hex}
            if metadata.requires_python is not None:
                described["requires-python"] = metadata.requires_python
        return described

    def _link(self, wheel: Wheel) -> str:
        attributes = ""
        metadata = self._metadata(wheel)
        if metadata is not None:
            sha256 = f"sha256={metadata.digest.hex}"
            attributes = f' data-core-metadata="{sha256}" data-dist-info-metadata="{sha256}"'
            if metadata.requires_python is not None:
                attributes += f' data-requires-python="{escape(metadata.requires_python)}"'
        return (
            f'<a href="{escape(_url(wheel))}#sha256={wheel.digest.hex}"{attributes}>{escape(wheel.name)}</a>'
        )

    def _file(self, library: Library, digest: str, name: str) -> Answer:
        wanted = name.removesuffix(".metadata")
        wheel = next(
            (
                wheel
                for wheels in library.wheels.values()
                for wheel in wheels.values()
                if wheel.name == wanted and wheel.digest.hex == digest
            ),
            None,
        )
        if wheel is None:
            return absent()
        if wanted == name:
            return file_answer(self._blobs, wheel.digest)
        metadata = self._metadata(wheel)
        if metadata is None:
            return absent("the wheel has no metadata that can be read")
        answer = Answer(Data(metadata.data), "text/plain; charset=utf-8", etag=metadata.digest.hex)
        return answer.having(Cache_Control=FOREVER)

    def _metadata(self, wheel: Wheel) -> _Metadata | None:
        """What the wheel says of itself; None for what is no sound wheel."""
        with self._lock:
            if wheel.digest in self._known:
                return self._known[wheel.digest]
        file = self._blobs.open(wheel.digest)
        if file is None:
            return None
        try:
            with open(file.descriptor, "rb", closefd=False) as stream:
                found = _read(stream) if wheel.name.endswith(".whl") else None
        finally:
            file.close()
        with self._lock:
            self._known[wheel.digest] = found
        return found


def _read(stream: Any) -> _Metadata | None:
    from email.parser import BytesHeaderParser

    try:
        with zipfile.ZipFile(stream) as archive:
            names = [name for name in archive.namelist() if _METADATA.fullmatch(name)]
            if len(names) != 1 or archive.getinfo(names[0]).file_size > _METADATA_LIMIT:
                return None
            data = archive.read(names[0])
    except (zipfile.BadZipFile, OSError, EOFError, NotImplementedError, RuntimeError, ValueError):
        return None
    requires = BytesHeaderParser().parsebytes(data).get("Requires-Python")
    return _Metadata(data, Digest.of(data), None if requires is None else str(requires).strip())


def _version(wheel: Wheel) -> str | None:
    from packaging.utils import InvalidWheelFilename, parse_wheel_filename

    try:
        return str(parse_wheel_filename(wheel.name)[1])
    except InvalidWheelFilename:
        return None


def _url(wheel: Wheel) -> str:
    return f"../../files/{wheel.digest.hex}/{quote(wheel.name)}"


def _wanted(request: Request) -> str:
    """JSON or HTML, whichever the client likes better (RFC 9110, 12.5.1); HTML where it does not care."""
    best, found = 0.0, "text/html"
    for item in request.headers.get("accept", "").split(","):
        kind, *parameters = (part.strip().lower() for part in item.split(";"))
        kind = kind.replace("application/vnd.pypi.simple.latest+", "application/vnd.pypi.simple.v1+")
        if kind not in (_JSON, _HTML, "text/html"):
            continue
        quality = 1.0
        for parameter in parameters:
            if parameter.startswith("q="):
                try:
                    quality = float(parameter[2:])
                except ValueError:
                    quality = 0.0
        if quality > best:
            best, found = quality, kind
    return found


def _page(value: Any) -> Answer:
    return as_json(value, _JSON).having(Vary="Accept")


def _document(request: Request, title: str, links: Sequence[str]) -> Answer:
    lines = "".join(f"{link}<br>\n" for link in links)
    document = (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="pypi:repository-version" content="{_VERSION}"><title>{escape(title)}</title></head>\n'
        f"<body>\n<h1>{escape(title)}</h1>\n{lines}</body></html>\n"
    )
    kind = _HTML if _wanted(request) == _HTML else "text/html; charset=utf-8"
    return made(document.encode(), kind).having(Vary="Accept")
