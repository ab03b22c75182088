"""What a release consists of: ``emsdk_manifest.json`` of the emsdk repository at the release's tag.

Of its tools and SDKs only two things matter here: where the archive of a release is, by architecture, and which
Node.js the SDK of a release uses. Placeholders in it are emsdk's own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lockbuild.errors import ResolveError

PATH = "emsdk_manifest.json"
LIMIT = 4 << 20
"""Bytes; the real file has 30 thousand."""
_TAG = "%releases-tag%"
_VERSIONS = (_TAG, f"upstream-{_TAG}")
"""How the tool of a release is called: the second until spring 2023."""
_ARCHITECTURES = {"x86_64": ("x86_64",), "arm64": ("arm64", "aarch64")}
_NODE = re.compile(r"node-(\d+\.\d+\.\d+)-64bit")
_URL = re.compile(r"https?://[^\s%]+")
_SYSTEMS = {"linux": "linux", "mac": "macos", "win": "windows"}
"""What a system is called in keys; in values it is called as here on the left, or as in the key."""


@dataclass(frozen=True, slots=True)
class SdkManifest:
    """The whole file; ``origin`` is what messages call it."""

    _data: dict[str, Any]
    origin: str

    def archive(self, commit: str, system: str, architecture: str) -> str | None:
        """URL of a release's archive; None where this emsdk knows none for that kind of machine.

        ``system`` is ``linux``, ``mac`` or ``win``, ``architecture`` ``x86_64`` or ``arm64``.
        """
        for tool in self._entries("tools", _VERSIONS):
            if tool.get("id") != "releases" or tool.get("bitness") not in (None, 64):
                continue
            if tool.get("arch", "x86_64") not in _ARCHITECTURES[architecture]:
                continue
            key = _SYSTEMS[system]
            url = tool.get(f"{key}_url", tool.get(f"url_{key}"))  # the second since summer 2026
            if isinstance(url, str):
                url = url.replace(_TAG, commit)
                if not _URL.fullmatch(url):
                    raise ResolveError(f"the URL of a release is {url!r}", on=self.origin)
                return url
        return None

    def tool(self, commit: str) -> str:
        """What emsdk calls the tool of a release once it is installed: ``releases-COMMIT-64bit``."""
        for tool in self._entries("tools", _VERSIONS):
            if tool.get("id") == "releases":
                return f"releases-{tool['version'].replace(_TAG, commit)}-64bit"
        return f"releases-{commit}-64bit"

    def node(self, system: str = "linux") -> str | None:
        """Version of the Node.js that the SDK of a release uses; None where it has none."""
        for sdk in self._entries("sdks", tuple(f"releases-{version}" for version in _VERSIONS)):
            if sdk.get("os") not in (system, _SYSTEMS[system], "all", None):
                continue
            # "uses" until summer 2026; then "deps", of which a system can have its own
            uses = next(
                (sdk[key] for key in ("uses", f"deps_{_SYSTEMS[system]}", "deps") if key in sdk), None
            )
            found = (
                _NODE.fullmatch(used)
                for used in (uses if isinstance(uses, list) else ())
                if isinstance(used, str)
            )
            return next((match[1] for match in found if match), None)
        return None

    def _entries(self, key: str, versions: tuple[str, ...]) -> Iterator[dict[str, Any]]:
        entries = self._data.get(key)
        for entry in entries if isinstance(entries, list) else ():
            if isinstance(entry, dict) and entry.get("version") in versions:
                yield entry


def parse(data: bytes, origin: str) -> SdkManifest:
    """Read the file; ResolveError where it is too large or not JSON."""
    if len(data) > LIMIT:
        raise ResolveError(f"is larger than {LIMIT} bytes", on=origin, hint="look at what the mirror serves")
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ResolveError(f"is not emsdk's manifest: {error}", on=origin) from None
    if not isinstance(value, dict):
        raise ResolveError("is not emsdk's manifest", on=origin)
    return SdkManifest(value, origin)
