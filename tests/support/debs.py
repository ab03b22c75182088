"""Small Debian packages written byte by byte, also such as dpkg-deb would refuse to build."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path

import zstandard

_COMPRESSIONS = {
    "": lambda data: data,
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".bz2": bz2.compress,
    ".lzma": lambda data: lzma.compress(data, lzma.FORMAT_ALONE),
    ".zst": lambda data: zstandard.ZstdCompressor().compress(data),
}


def entry(name: str, kind: bytes = tarfile.REGTYPE, *, mode: int = 0o644, link: str = "") -> tarfile.TarInfo:
    """One tar header."""
    info = tarfile.TarInfo(name)
    info.type, info.mode, info.linkname = kind, mode, link
    return info


def file(name: str, content: bytes | str = b"", *, mode: int = 0o644) -> tuple[tarfile.TarInfo, bytes]:
    """A regular file."""
    return entry(name, mode=mode), content.encode() if isinstance(content, str) else content


def link(name: str, target: str) -> tuple[tarfile.TarInfo, bytes]:
    """A symbolic link."""
    return entry(name, tarfile.SYMTYPE, mode=0o777, link=target), b""


def directory(name: str) -> tuple[tarfile.TarInfo, bytes]:
    """A directory."""
    return entry(name, tarfile.DIRTYPE, mode=0o755), b""


def tar(entries: Iterable[tuple[tarfile.TarInfo, bytes]]) -> bytes:
    """A tar in GNU format, as dpkg-deb writes it."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for info, content in entries:
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return out.getvalue()


def ar(members: Iterable[tuple[str, bytes]]) -> bytes:
    """An ar archive."""
    out = b"!<arch>\n"
    for name, data in members:
        out += f"{name:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(data):<10}`\n".encode() + data
        out += b"\n" * (len(data) % 2)
    return out


def write_deb(
    path: Path,
    entries: Iterable[tuple[tarfile.TarInfo, bytes]],
    *,
    package: str | None = None,
    architecture: str = "all",
    compression: str = ".xz",
    scripts: Mapping[str, str] | None = None,
    **fields: str,
) -> Path:
    """Write a package to ``path``; its name is the file's unless said otherwise."""
    control = f"Package: {package or path.stem}\nVersion: 1\nArchitecture: {architecture}\n"
    control += "".join(f"{name.title()}: {value}\n" for name, value in fields.items())
    control_entries = [file("./control", control)]
    control_entries += [file(f"./{name}", text, mode=0o755) for name, text in (scripts or {}).items()]
    compress = _COMPRESSIONS[compression]
    members = [
        ("debian-binary", b"2.0\n"),
        (f"control.tar{compression}", compress(tar(control_entries))),
        (f"data.tar{compression}", compress(tar(entries))),
    ]
    path.write_bytes(ar(members))
    return path
