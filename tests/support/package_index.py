"""Small real wheels and index pages, made on the spot."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.support.http_server import Server

JSON = "application/vnd.pypi.simple.v1+json"


def make_wheel(
    name: str, version: str, *, requires: Sequence[str] = (), extras: Sequence[str] = (), padding: int = 0
) -> bytes:
    """The bytes of a wheel with that metadata and ``padding`` bytes of content before it."""
    metadata = [f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}"]
    metadata += [f"Provides-Extra: {extra}" for extra in extras]
    metadata += [f"Requires-Dist: {requirement}" for requirement in requires]
    information = f"{name}-{version}.dist-info"
    files = {
        f"{name}/data": hashlib.shake_256(name.encode()).digest(padding),
        f"{information}/WHEEL": b"Wheel-Version: 1.0\n",
        f"{information}/METADATA": ("\n".join(metadata) + "\n\nText.\n").encode(),
    }
    record = [f"{path},sha256={_urlsafe(data)},{len(data)}\n" for path, data in files.items()]
    files[f"{information}/RECORD"] = "".join([*record, f"{information}/RECORD,,\n"]).encode()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path, data in files.items():
            archive.writestr(path, data)
    return buffer.getvalue()


def _urlsafe(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


@dataclass
class Index:
    """An index below ``/simple`` of a server; every change is served at once."""

    server: Server
    pages: dict[str, list[dict[str, object]]] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"{self.server.url}/simple"

    def add(
        self,
        name: str,
        version: str,
        tag: str = "py3-none-any",
        *,
        requires: Sequence[str] = (),
        extras: Sequence[str] = (),
        padding: int = 0,
        hashes: bool = True,
        size: bool = True,
        metadata: bool = False,
        **entry: object,
    ) -> str:
        """Publish a wheel; its file name. ``entry`` are further keys of the file in the JSON page."""
        file_name = f"{name.replace('-', '_')}-{version}-{tag}.whl"
        data = make_wheel(name.replace("-", "_"), version, requires=requires, extras=extras, padding=padding)
        path = f"/files/{file_name}"
        self.server.add(path, data)
        described: dict[str, object] = {"filename": file_name, "url": f"../..{path}", "hashes": {}}
        if hashes:
            described["hashes"] = {"sha256": hashlib.sha256(data).hexdigest()}
        if size:
            described["size"] = len(data)
        if metadata:
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                text = archive.read(f"{name.replace('-', '_')}-{version}.dist-info/METADATA")
            self.server.add(f"{path}.metadata", text)
            described["core-metadata"] = {"sha256": hashlib.sha256(text).hexdigest()}
        self._publish(name, {**described, **entry})
        return file_name

    def add_source(self, name: str, version: str) -> None:
        """Publish a source distribution."""
        self._publish(
            name,
            {
                "filename": f"{name}-{version}.tar.gz",
                "url": f"../../files/{name}-{version}.tar.gz",
                "hashes": {},
            },
        )

    def _publish(self, name: str, entry: dict[str, object]) -> None:
        self.pages.setdefault(name, []).append(entry)
        page = {"meta": {"api-version": "1.1"}, "name": name, "versions": [], "files": self.pages[name]}
        self.server.add(f"/simple/{name}/", json.dumps(page).encode(), JSON)
