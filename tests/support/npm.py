"""npm packages and lock files, made by the test that needs them."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


def npm_tarball(name: str, version: str, files: Mapping[str, str] | None = None, **fields: Any) -> bytes:
    """A package as a registry serves it: everything below ``package/``."""
    described = {"name": name, "version": version, "main": "index.js", **fields}
    contents = {"package.json": json.dumps(described), "index.js": f"module.exports = {name!r}\n"}
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for path, text in {**contents, **(files or {})}.items():
            info = tarfile.TarInfo(f"package/{path}")
            info.size = len(text)
            info.mode = 0o644
            archive.addfile(info, io.BytesIO(text.encode()))
    return gzip.compress(out.getvalue(), mtime=0)


def integrity(data: bytes, algorithm: str = "sha512") -> str:
    """Subresource integrity of ``data``."""
    return f"{algorithm}-{base64.b64encode(hashlib.new(algorithm, data).digest()).decode()}"


def tarball_path(name: str, version: str) -> str:
    """Where a registry keeps a package, below its root."""
    return f"{name}/-/{name.rpartition('/')[2]}-{version}.tgz"


@dataclass(frozen=True)
class NpmPackage:
    """A package at its usual place on a registry."""

    name: str
    version: str
    data: bytes

    @property
    def path(self) -> str:
        return tarball_path(self.name, self.version)

    def locked(self, registry: str | None, **more: Any) -> dict[str, Any]:
        """Its entry in a package-lock.json; without ``registry`` it does not say where it is."""
        entry: dict[str, Any] = {"version": self.version, "integrity": integrity(self.data)}
        if registry is not None:
            entry["resolved"] = f"{registry}/{self.path}"
        return {**entry, **more}


def npm_package(name: str, version: str = "1.0.0", **fields: Any) -> NpmPackage:
    """A small package."""
    return NpmPackage(name, version, npm_tarball(name, version, **fields))


def package_lock(packages: Mapping[str, Mapping[str, Any]], *, version: int = 3, **root: Any) -> str:
    """The text of a package-lock.json with ``packages`` by their places below node_modules."""
    entries = {f"node_modules/{place}": entry for place, entry in packages.items()}
    project = {"name": "t", "version": "1.0.0", **root}
    return json.dumps(
        {"name": "t", "version": "1.0.0", "lockfileVersion": version, "packages": {"": project, **entries}}
    )
