"""npm packages and lock files, made by the test that needs them."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import os
import subprocess
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
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


def packument(package: NpmPackage, registry: str) -> bytes:
    """What ``registry`` says of ``package``."""
    described = json.loads(_package_json(package.data))
    dist = {"tarball": f"{registry}/{package.path}", "integrity": integrity(package.data)}
    return json.dumps(
        {
            "name": package.name,
            "dist-tags": {"latest": package.version},
            "versions": {package.version: {**described, "dist": dist}},
        }
    ).encode()


def _package_json(tarball: bytes) -> bytes:
    with tarfile.open(fileobj=io.BytesIO(tarball)) as archive:
        file = archive.extractfile("package/package.json")
        assert file is not None
        return file.read()


def npm_without_network(
    directory: Path, script: str, variables: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run ``script`` with this machine's npm in ``directory``, which alone can be written to, without a network."""
    (directory / "home").mkdir(exist_ok=True)
    command = ["bwrap", "--unshare-all", "--die-with-parent", "--ro-bind", "/", "/", "--dev", "/dev"]
    command += ["--proc", "/proc", "--bind", str(directory), str(directory), "--chdir", str(directory)]
    home = str(directory / "home")
    environ = {"PATH": os.environ["PATH"], "HOME": home, "TMPDIR": home, **variables}
    return subprocess.run(
        [*command, "sh", "-c", script], env=environ, capture_output=True, text=True, check=False, timeout=120
    )


def make_package_lock(directory: Path, *options: str, registry: str | None = None, **manifest: Any) -> Path:
    """Let npm itself lock a package with that package.json, in the new ``directory``."""
    directory.mkdir(parents=True)
    (directory / "package.json").write_text(json.dumps({"name": "t", "version": "1.0.0", **manifest}))
    where = [f"--registry={registry}"] if registry else []
    subprocess.run(
        ["npm", "install", "--package-lock-only", "--no-audit", "--no-fund", *where, *options],
        cwd=directory,
        env={**os.environ, "npm_config_cache": str(directory.parent / "npm cache of the test")},
        check=True,
        capture_output=True,
        timeout=300,
    )
    return directory / "package-lock.json"
