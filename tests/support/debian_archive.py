"""A small signed Debian archive with real packages, made by the test that needs it.

    with signing_key() as key:
        archive = DebianArchive(key, tmp_path)
        archive.add("hello", "2.10-3", depends="libc6", contents={"usr/bin/hello": "#!/bin/sh\\n"})
        archive.publish()
        with archive.serving() as server:      # its files at server.url + "/debian"
            …

Packages are built by dpkg-deb, ``InRelease`` is signed by gpg with a key of the test's own.
"""

from __future__ import annotations

import gzip
import hashlib
import lzma
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

from tests.support.http_server import Server, serving

PREFIX = "/debian"
"""Where the archive stands on its server."""


class SigningKey:
    """An OpenPGP key with its own GnuPG home; ``keyring`` is its public part, binary.

    ``expired`` makes a key of 2020 that was valid for a day, and all that it signs of that day.
    """

    def __init__(self, home: Path, name: str, *, expired: bool = False, algorithm: str = "ed25519") -> None:
        self._home = home
        self._clock = ["--faked-system-time", "20200101T000000"] if expired else []
        self.keyring = home / "keyring.gpg"
        user = f"{name} <archive@example.test>"
        self._gpg("--quick-generate-key", user, algorithm, "sign", "1d" if expired else "never")
        self.keyring.write_bytes(self._gpg("--export"))
        self.armoured_keyring = home / "keyring.asc"
        self.armoured_keyring.write_bytes(self._gpg("--armor", "--export"))

    def clearsign(self, text: bytes, *options: str) -> bytes:
        """``text`` with a cleartext signature, as an InRelease file has it."""
        return self._gpg(*options, "--clearsign", data=text)

    def detach(self, text: bytes) -> bytes:
        """An armoured signature apart from the text."""
        return self._gpg("--armor", "--detach-sign", data=text)

    def _gpg(self, *arguments: str, data: bytes | None = None) -> bytes:
        command = ["gpg", "--homedir", str(self._home), "--batch", "--quiet", "--no-tty", "--pinentry-mode"]
        done = subprocess.run(
            [*command, "loopback", "--passphrase", "", *self._clock, *arguments],
            input=data,
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout


@contextmanager
def signing_key(name: str = "Archive of a test", **options: Any) -> Iterator[SigningKey]:
    """A new key; its home and agent are gone afterwards. ``options`` are those of `SigningKey`."""
    # Not below pytest's directories: the path of the agent's socket may have 107 bytes only.
    home = Path(tempfile.mkdtemp(prefix="lb-gpg-"))
    try:
        yield SigningKey(home, name, **options)
    finally:
        subprocess.run(["gpgconf", "--homedir", str(home), "--kill", "all"], check=False, capture_output=True)
        shutil.rmtree(home, ignore_errors=True)


@dataclass
class DebianArchive:
    """``files`` holds what a mirror serves: pool/…, dists/…; `publish` makes the indexes of all that was added."""

    key: SigningKey
    work: Path
    codename: str = "forky"
    suite: str = "testing"
    architectures: tuple[str, ...] = ("amd64", "arm64")
    files: dict[str, bytes] = field(default_factory=dict)
    _stanzas: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    _sources: dict[str, list[str]] = field(default_factory=dict)

    def add(
        self,
        name: str,
        version: str = "1.0",
        *,
        architecture: str = "all",
        component: str = "main",
        contents: Mapping[str, str | bytes] | None = None,
        scripts: Mapping[str, str] | None = None,
        links: Mapping[str, str] | None = None,
        **fields: str,
    ) -> str:
        """Build a package; its path in the pool. ``fields`` are control fields (``pre_depends="libc6"``).

        ``contents`` maps paths to text or bytes (executable below bin/), ``links`` paths to link targets,
        ``scripts`` the names of maintainer scripts to theirs.
        """
        control = {"Package": name, "Version": version, "Architecture": architecture}
        control["Maintainer"] = "A test <test@example.test>"
        control |= {key.replace("_", "-").title(): value for key, value in fields.items()}
        control["Description"] = f"the package {name} of a test"
        text = "".join(f"{key}: {value}\n" for key, value in control.items())
        deb = self._build(text, contents or {}, links or {}, scripts or {})
        # As in Debian's pool, the epoch is not part of the file's name.
        file = f"{name}_{version.rpartition(':')[2]}_{architecture}.deb"
        path = f"pool/{component}/{name[:4] if name.startswith('lib') else name[0]}/{name}/{file}"
        self.files[path] = deb
        stanza = f"{text}Filename: {path}\nSize: {len(deb)}\nSHA256: {hashlib.sha256(deb).hexdigest()}\n"
        self.add_stanza(stanza, architecture=architecture, component=component)
        return path

    def add_stanza(self, stanza: str, *, architecture: str = "all", component: str = "main") -> None:
        """List a package in ``Packages`` by a stanza of the test's own making."""
        for listed in self.architectures if architecture == "all" else (architecture,):
            self._stanzas.setdefault((component, listed), []).append(stanza.rstrip("\n") + "\n")

    def add_source(
        self, name: str, version: str, files: Mapping[str, bytes], *, component: str = "main", **fields: str
    ) -> str:
        """List a source package with ``files`` (by file name); its directory in the pool."""
        directory = f"pool/{component}/{name[0]}/{name}"
        sums = ""
        for file, data in files.items():
            self.files[f"{directory}/{file}"] = data
            sums += f" {hashlib.sha256(data).hexdigest()} {len(data)} {file}\n"
        more = "".join(f"{key.replace('_', '-').title()}: {value}\n" for key, value in fields.items())
        self._sources.setdefault(component, []).append(
            f"Package: {name}\nBinary: {name}\nVersion: {version}\n{more}"
            f"Directory: {directory}\nChecksums-Sha256:\n{sums}"
        )
        return directory

    def release(
        self, *, date: datetime | None = None, valid_for: timedelta | None = None, **fields: str
    ) -> bytes:
        """Write the indexes into ``files``; the text of the Release file over them, not signed yet."""
        date = date or datetime.now(UTC) - timedelta(hours=1)
        indexes = self._indexes()
        dists = f"dists/{self.codename}"
        for path, data in indexes.items():
            self.files[f"{dists}/{path}"] = data
            digest = hashlib.sha256(data).hexdigest()
            self.files[f"{dists}/{path.rpartition('/')[0]}/by-hash/SHA256/{digest}"] = data
        known = {
            "Origin": "A test",
            "Suite": self.suite,
            "Codename": self.codename,
            "Date": format_datetime(date, usegmt=True).replace("GMT", "UTC"),
            "Valid-Until": format_datetime(date + (valid_for or timedelta(days=7)), usegmt=True).replace(
                "GMT", "UTC"
            ),
            "Acquire-By-Hash": "yes",
            "No-Support-for-Architecture-all": "Packages",
            "Architectures": " ".join(("all", *self.architectures)),
            "Components": " ".join(self._components()),
        }
        known |= {key.replace("_", "-"): value for key, value in fields.items()}
        lines = [f"{key}: {value}\n" for key, value in known.items() if value]
        lines.append("SHA256:\n")
        for path, data in sorted(indexes.items()):
            lines.append(f" {hashlib.sha256(data).hexdigest()} {len(data):8} {path}\n")
        return "".join(lines).encode()

    def publish(
        self,
        *,
        date: datetime | None = None,
        valid_for: timedelta | None = None,
        key: SigningKey | None = None,
        **fields: str,
    ) -> None:
        """Make the indexes and sign them. ``fields`` replace those of the Release (``Codename="sid"``; "" drops)."""
        text = self.release(date=date, valid_for=valid_for, **fields)
        signed = (key or self.key).clearsign(text)
        for name in (self.codename, self.suite):
            self.files[f"dists/{name}/InRelease"] = signed
        for path in [path for path in self.files if path.startswith(f"dists/{self.codename}/")]:
            self.files[path.replace(f"/{self.codename}/", f"/{self.suite}/", 1)] = self.files[path]

    def copy(self) -> DebianArchive:
        """The archive as it is now, for what is to be added to it to be forgotten again."""
        return replace(
            self,
            files=dict(self.files),
            _stanzas={key: list(stanzas) for key, stanzas in self._stanzas.items()},
            _sources={key: list(stanzas) for key, stanzas in self._sources.items()},
        )

    @contextmanager
    def serving(self) -> Iterator[Server]:
        """A server of the archive as it is now, below ``server.url + "/debian"``."""
        with serving() as server:
            self.upload(server)
            yield server

    def upload(self, server: Server) -> None:
        """Bring what ``server`` has up to date, leaving nothing of an earlier state."""
        for path in [path for path in server.files if path.startswith(f"{PREFIX}/")]:
            del server.files[path]
        server.files.update({f"{PREFIX}/{path}": data for path, data in self.files.items()})

    def write(self, root: Path) -> None:
        """Write the archive into the directory ``root``, for a file:// URL."""
        for path, data in self.files.items():
            target = root / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)

    def _components(self) -> list[str]:
        return sorted({"main", *(component for component, _ in self._stanzas), *self._sources})

    def _indexes(self) -> dict[str, bytes]:
        plain = {
            f"{component}/binary-{architecture}/Packages": "\n".join(
                self._stanzas.get((component, architecture), [])
            ).encode()
            for component in self._components()
            for architecture in self.architectures
        }
        for component in self._components():
            plain[f"{component}/source/Sources"] = "\n".join(self._sources.get(component, [])).encode()
        indexes = {}
        for path, data in plain.items():
            indexes[path] = data
            indexes[f"{path}.gz"] = gzip.compress(data, mtime=0)
            indexes[f"{path}.xz"] = lzma.compress(data)
        return indexes

    def _build(
        self,
        control: str,
        contents: Mapping[str, str | bytes],
        links: Mapping[str, str],
        scripts: Mapping[str, str],
    ) -> bytes:
        with tempfile.TemporaryDirectory(dir=self.work) as name:
            tree, deb = Path(name) / "tree", Path(name) / "package.deb"
            (tree / "DEBIAN").mkdir(parents=True, mode=0o755)
            tree.chmod(0o755)
            (tree / "DEBIAN").chmod(0o755)
            (tree / "DEBIAN" / "control").write_text(control)
            for script, text in scripts.items():
                (tree / "DEBIAN" / script).write_text(text)
                (tree / "DEBIAN" / script).chmod(0o755)
            for path, content in contents.items():
                target = tree / path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content.encode() if isinstance(content, str) else content)
                target.chmod(0o755 if "bin" in target.parent.name else 0o644)
            for path, destination in links.items():
                (tree / path).parent.mkdir(parents=True, exist_ok=True)
                (tree / path).symlink_to(destination)
            subprocess.run(
                ["dpkg-deb", "--root-owner-group", "--build", str(tree), str(deb)],
                check=True,
                capture_output=True,
                env={"PATH": os.environ["PATH"], "SOURCE_DATE_EPOCH": "0", "LC_ALL": "C.UTF-8"},
            )
            return deb.read_bytes()
