"""Small wheels, right or wrong in the way that a test needs."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from collections.abc import Mapping
from pathlib import Path


def hashed(data: bytes, algorithm: str = "sha256") -> str:
    """A digest as RECORD writes it."""
    digest = base64.urlsafe_b64encode(hashlib.new(algorithm, data).digest()).decode().rstrip("=")
    return f"{algorithm}={digest}"


def write_wheel(
    directory: Path,
    files: Mapping[str, bytes | str],
    *,
    name: str = "tool",
    modes: Mapping[str, int] | None = None,
    record: Mapping[str, str | None] | None = None,
    algorithm: str = "sha256",
    wheel: str = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
) -> Path:
    """Write ``NAME-1.0``. ``record`` replaces rows of RECORD (``HASH,SIZE``), or drops them (None)."""
    info = f"{name}-1.0.dist-info"
    contents = {path: data.encode() if isinstance(data, str) else data for path, data in files.items()}
    contents[f"{info}/WHEEL"] = wheel.encode()
    contents[f"{info}/METADATA"] = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n".encode()
    rows: dict[str, str | None] = {
        path: f"{hashed(data, algorithm)},{len(data)}" for path, data in contents.items()
    }
    rows |= record or {}
    rows.setdefault(f"{info}/RECORD", ",")
    text = "".join(f"{_quoted(path)},{row}\n" for path, row in rows.items() if row is not None)
    path = directory / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for entry, data in {**contents, f"{info}/RECORD": text.encode()}.items():
            item = zipfile.ZipInfo(entry)
            item.external_attr = (modes or {}).get(entry, 0o100644) << 16
            archive.writestr(item, data)
    return path


def _quoted(path: str) -> str:
    return '"' + path.replace('"', '""') + '"' if set(path) & set('",') else path
