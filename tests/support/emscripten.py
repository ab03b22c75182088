"""Small repositories that stand in for emsdk's and Emscripten's, made by the test that needs them."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lockbuild.config import Config
from tests.support.git_server import Repository, new_repository

EMSDK = "https://github.com/emscripten-core/emsdk"
EMSCRIPTEN = "https://github.com/emscripten-core/emscripten"
HASH = hashlib.sha512(b"an archive").hexdigest()
NODE = "22.16.0"


def commit_of(version: str) -> str:
    """What a release's archives are named with, in these repositories."""
    return hashlib.sha1(version.encode()).hexdigest()


def sha256_of(version: str, column: str) -> str:
    """The published digest of an archive that there is not."""
    return hashlib.sha256(f"{version} {column}".encode()).hexdigest()


def archive_url(base: str, version: str, suffix: str = "") -> str:
    return f"{base}/linux/{commit_of(version)}/wasm-binaries{suffix}.tar.xz"


def sdk_manifest(base: str, node: str | None = NODE) -> str:
    """emsdk's manifest, whose archives are below the URL ``base``."""
    url = f"{base}/linux/%releases-tag%/wasm-binaries"
    tools = [
        {
            "id": "releases",
            "version": "%releases-tag%",
            "bitness": 64,
            "arch": "x86_64",
            "linux_url": f"{url}.tar.xz",
        },
        {
            "id": "releases",
            "version": "%releases-tag%",
            "bitness": 64,
            "arch": "arm64",
            "linux_url": f"{url}-arm64.tar.xz",
        },
        {"id": "node", "version": "1.2.3", "bitness": 64, "linux_url": "node.tar.xz"},
    ]
    uses = [f"node-{node}-64bit"] if node else []
    sdk = {
        "version": "releases-%releases-tag%",
        "os": "linux",
        "uses": [*uses, "releases-%releases-tag%-64bit"],
    }
    mac = {"version": "releases-%releases-tag%", "os": "macos", "uses": ["node-0.0.0-64bit"]}
    return json.dumps({"tools": tools, "sdks": [{"version": "main", "uses": ["node-9.9.9-64bit"]}, mac, sdk]})


def revisions(checksums: Mapping[str, Mapping[str, str]]) -> str:
    """The table of checksums: version -> column -> SHA-256."""
    entries = "".join(
        f'    "{version}": struct(\n        hash = "{commit_of(version)}",\n'
        + "".join(f'        sha_{column} = "{digest}",\n' for column, digest in columns.items())
        + "    ),\n"
        for version, columns in checksums.items()
    )
    return f"# Made by a test\n\nEMSCRIPTEN_TAGS = {{\n{entries}}}\n"


@dataclass
class World:
    """Both repositories, and a configuration that has them in place of the public ones."""

    emsdk: Repository
    emscripten: Repository
    releases: dict[str, str] = field(default_factory=dict)
    checksums: dict[str, dict[str, str]] = field(default_factory=dict)
    base: str = "https://storage.googleapis.com/webassembly/emscripten-releases-builds"

    def config(self, **more: Any) -> Config:
        mirrors = [
            {"prefix": EMSDK, "to": [self.emsdk.url]},
            {"prefix": EMSCRIPTEN, "to": [self.emscripten.url]},
        ]
        return Config.model_validate({"mirrors": [*mirrors, *more.pop("mirrors", [])], **more})

    def toml(self) -> str:
        """The same as the text of a configuration file."""
        pairs = ((EMSDK, self.emsdk.url), (EMSCRIPTEN, self.emscripten.url))
        return "".join(f'[[mirrors]]\nprefix = "{prefix}"\nto = ["{url}"]\n' for prefix, url in pairs)

    def release(
        self,
        version: str,
        *,
        columns: tuple[str, ...] | Mapping[str, str] = ("linux", "linux_arm64"),
        commit: str | None = None,
        node: str | None = NODE,
        tag: bool = True,
        ports: Mapping[str, str] | None = None,
        files: Mapping[str, str | bytes] | None = None,
    ) -> str:
        """Publish a release as emsdk does: two files, a tag; the commit. Emscripten gets the tag with ``ports``."""
        self.releases[version] = commit or commit_of(version)
        digests = columns if isinstance(columns, Mapping) else {c: sha256_of(version, c) for c in columns}
        if digests:
            self.checksums[version] = dict(digests)
        made = self.emsdk.commit(
            {
                "emscripten-releases-tags.json": json.dumps(
                    {"aliases": {"latest": version, "latest-sdk": "latest"}, "releases": self.releases}
                ),
                "bazel/revisions.bzl": revisions(self.checksums),
                "emsdk_manifest.json": sdk_manifest(self.base, node),
                "emsdk.py": "print('the emsdk of a test')\n",
                "emsdk": "#!/bin/sh\necho the real launcher\n",
                **(files or {}),
            },
            executable=("emsdk",),
        )
        if tag and "-" not in version:
            self.emsdk.tag(version, made, annotated=True)
            texts = {f"tools/ports/{path}.py": text for path, text in (ports or {}).items()}
            self.emscripten.tag(version, self.emscripten.commit({"emcc.py": version, **texts}))
        return made


def new_world(directory: Path) -> World:
    """Repositories without any release."""
    return World(new_repository(directory / "emsdk.git"), new_repository(directory / "emscripten.git"))


def port(
    name: str, version: str = "1.0", *, deps: tuple[str, ...] = (), body: str = "", digest: str = HASH
) -> str:
    """The text of a port file."""
    return f"""\
import os

VERSION = '{version}'
HASH = '{digest}'
deps = {list(deps)!r}


def get(ports, settings, shared):
  ports.fetch_project('{name}', f'https://archive.test/{name}-{{VERSION}}.zip', sha512hash=HASH)

  def create(final):
    source_path = ports.get_dir('{name}', '{name}-' + VERSION)
    ports.build_port(source_path, final, '{name}')

  return [shared.cache.get_lib('lib{name}.a', create, what='port')]
{body}
"""


def remote_port(name: str, version: str = "v1", digest: str = HASH) -> str:
    """The text of the port file of a port whose real port file is in its archive."""
    return f"""\
_VERSION = '{version}'
EXTERNAL_PORT = f'https://archive.test/{{_VERSION}}/{name}-{{_VERSION}}.zip'
SHA512 = '{digest}'
PORT_FILE = '{name}/{name}.port.py'
"""


def zipped(files: Mapping[str, str]) -> bytes:
    """A zip archive."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return buffer.getvalue()


def tar_xz(path: Path, files: Mapping[str, str | bytes], *, mode: int = 0o744) -> Path:
    """A compressed tar whose files all have that mode, as some releases' launchers have."""
    with tarfile.open(path, "w:xz") as archive:
        for name, content in files.items():
            data = content.encode() if isinstance(content, str) else content
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(data), mode
            archive.addfile(member, io.BytesIO(data))
    return path
