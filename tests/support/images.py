"""Images for tests, made by hand, byte by byte as the test wants them, and put into a registry by its API.

Nothing of lockbuild is used here: what it reads is to be what others write.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import shutil
import subprocess
import tarfile
import urllib.request
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import zstandard

Compression = Literal["none", "gzip", "zstd"]
OCI_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
OCI_INDEX = "application/vnd.oci.image.index.v1+json"
OCI_CONFIG = "application/vnd.oci.image.config.v1+json"
DOCKER_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
DOCKER_INDEX = "application/vnd.docker.distribution.manifest.list.v2+json"
DOCKER_CONFIG = "application/vnd.docker.container.image.v1+json"
_OCI_LAYERS = {
    "none": "application/vnd.oci.image.layer.v1.tar",
    "gzip": "application/vnd.oci.image.layer.v1.tar+gzip",
    "zstd": "application/vnd.oci.image.layer.v1.tar+zstd",
}
_DOCKER_LAYERS = {
    "none": "application/vnd.docker.image.rootfs.diff.tar",
    "gzip": "application/vnd.docker.image.rootfs.diff.tar.gzip",
    "zstd": "application/vnd.docker.image.rootfs.diff.tar.zstd",
}

# Entries of a layer


@dataclass(frozen=True)
class Entry:
    """An entry of a layer's tar: ``kind`` is one of `tarfile`'s types."""

    name: str
    kind: bytes = tarfile.REGTYPE
    data: bytes = b""
    target: str = ""
    mode: int = 0o644


def file(name: str, data: str | bytes = "", mode: int = 0o644) -> Entry:
    return Entry(name, data=data.encode() if isinstance(data, str) else data, mode=mode)


def directory(name: str) -> Entry:
    return Entry(name, tarfile.DIRTYPE, mode=0o755)


def symlink(name: str, target: str) -> Entry:
    return Entry(name, tarfile.SYMTYPE, target=target, mode=0o777)


def hardlink(name: str, target: str) -> Entry:
    return Entry(name, tarfile.LNKTYPE, target=target)


def gone(name: str) -> Entry:
    """The whiteout of ``name``."""
    above, slash, last = name.rpartition("/")
    return file(f"{above}{slash}.wh.{last}")


def emptied(name: str) -> Entry:
    """The opaque whiteout of the directory ``name``."""
    return file(f"{name}/.wh..wh..opq" if name else ".wh..wh..opq")


def device(name: str, kind: bytes = tarfile.CHRTYPE) -> Entry:
    return Entry(name, kind)


def tar(entries: Iterable[Entry]) -> bytes:
    """Their tar."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for entry in entries:
            header = tarfile.TarInfo(entry.name)
            header.type, header.mode, header.linkname = entry.kind, entry.mode, entry.target
            header.size, header.mtime, header.uid = len(entry.data), 1_700_000_000, 1234
            archive.addfile(header, io.BytesIO(entry.data))
    return out.getvalue()


def busybox_entries() -> Iterator[Entry]:
    """What a base needs: BusyBox as ``/bin/sh`` and the other programs."""
    busybox = shutil.which("busybox")
    assert busybox, "these tests need a static busybox: apt install busybox-static"
    names = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True).stdout.split()
    for name in ("bin", "etc", "usr", "usr/bin", "tmp"):
        yield directory(name)
    yield file("bin/busybox", Path(busybox).read_bytes(), 0o755)
    for name in names:
        if name not in ("busybox", "env"):
            yield symlink(f"bin/{name}", "busybox")
    yield symlink("usr/bin/env", "../../bin/busybox")
    yield file("etc/passwd", "root:x:0:0:root:/root:/bin/sh\n")


# Images


@dataclass(frozen=True)
class Layer:
    """A layer: its tar, and how it is compressed."""

    tar: bytes
    compression: Compression = "gzip"

    @classmethod
    def of(cls, *entries: Entry, compression: Compression = "gzip") -> Layer:
        return cls(tar(entries), compression)

    @property
    def blob(self) -> bytes:
        if self.compression == "gzip":
            return gzip.compress(self.tar, 1, mtime=0)
        return zstandard.compress(self.tar) if self.compression == "zstd" else self.tar


@dataclass(frozen=True)
class Image:
    """``manifest``'s bytes, their type, and the blobs that it names, by digest."""

    manifest: bytes
    media_type: str
    blobs: Mapping[str, bytes] = field(default_factory=dict)
    architecture: str = "amd64"

    @property
    def digest(self) -> str:
        return sha256(self.manifest)

    def changed(self, change: Mapping[str, Any]) -> Image:
        """The same with other values in the manifest."""
        return replace(self, manifest=json.dumps({**json.loads(self.manifest), **change}).encode())


def image(
    *layers: Layer,
    architecture: str = "amd64",
    env: Sequence[str] = (),
    docker: bool = False,
    diff_ids: Sequence[str] | None = None,
    config: Mapping[str, Any] | None = None,
) -> Image:
    """An image of ``layers``, the lowest first; with ``diff_ids`` its configuration says these, true or not."""
    blobs = [layer.blob for layer in layers]
    settings = {
        "os": "linux",
        "architecture": architecture,
        "created": "2026-01-02T03:04:05Z",
        "config": {"Env": list(env), "Cmd": ["sh"], "User": "nobody", "Entrypoint": ["/entry"]},
        "rootfs": {"type": "layers", "diff_ids": diff_ids or [sha256(layer.tar) for layer in layers]},
        **(config or {}),
    }
    text = json.dumps(settings).encode()
    types = _DOCKER_LAYERS if docker else _OCI_LAYERS
    manifest = {
        "schemaVersion": 2,
        "mediaType": DOCKER_MANIFEST if docker else OCI_MANIFEST,
        "config": described(text, DOCKER_CONFIG if docker else OCI_CONFIG),
        "layers": [
            described(blob, types[layer.compression]) for layer, blob in zip(layers, blobs, strict=True)
        ],
    }
    return Image(
        json.dumps(manifest).encode(),
        DOCKER_MANIFEST if docker else OCI_MANIFEST,
        {sha256(blob): blob for blob in (text, *blobs)},
        architecture,
    )


def index(*images: Image, docker: bool = False, attested: bool = True) -> Image:
    """The index of ``images``, with an attestation beside each as buildx leaves them, if it is ``attested``."""
    entries = []
    for one in images:
        platform = {"os": "linux", "architecture": one.architecture}
        if one.architecture == "arm64":
            platform["variant"] = "v8"
        entries.append({**described(one.manifest, one.media_type), "platform": platform})
        if attested:
            unknown = {"os": "unknown", "architecture": "unknown"}
            entries.append({**described(b"{}" + one.manifest, OCI_MANIFEST), "platform": unknown})
    media_type = DOCKER_INDEX if docker else OCI_INDEX
    return Image(
        json.dumps({"schemaVersion": 2, "mediaType": media_type, "manifests": entries}).encode(), media_type
    )


def described(data: bytes, media_type: str) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": sha256(data), "size": len(data)}


def sha256(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


# Into a registry that speaks HTTP and wants no password


def push(host: str, repository: str, one: Image, *tags: str) -> str:
    """Put ``one`` there, under ``tags`` (else by digest only); ``host/repository@digest``."""
    for digest, blob in one.blobs.items():
        location = _send("POST", f"http://{host}/v2/{repository}/blobs/uploads/", b"", {})
        joint = "&" if "?" in location else "?"
        _send("PUT", f"{location}{joint}digest={digest}", blob, {"Content-Type": "application/octet-stream"})
    for tag in tags or (one.digest,):
        url = f"http://{host}/v2/{repository}/manifests/{tag}"
        _send("PUT", url, one.manifest, {"Content-Type": one.media_type})
    return f"{host}/{repository}@{one.digest}"


def push_index(host: str, repository: str, images: Sequence[Image], tag: str, **options: bool) -> str:
    """Put ``images`` and their index there."""
    for one in images:
        push(host, repository, one)
    return push(host, repository, index(*images, attested=False, **options), tag)


def _send(method: str, url: str, data: bytes, headers: Mapping[str, str]) -> str:
    request = urllib.request.Request(url, data=data, method=method, headers=dict(headers))
    with urllib.request.urlopen(request, timeout=30) as response:
        return str(response.headers.get("Location", ""))
