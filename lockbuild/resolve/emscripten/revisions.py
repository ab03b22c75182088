"""What the archives of Emscripten's releases hash to: ``bazel/revisions.bzl`` of the emsdk repository.

The file is Starlark, which for this much is Python's syntax: one dictionary of ``struct(name = "string", …)``. It is
read as a syntax tree; nothing of it is run.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass

from lockbuild.errors import ResolveError
from lockbuild.model.digest import Digest
from lockbuild.resolve.emscripten.syntax import parse_python

PATH = "bazel/revisions.bzl"
LIMIT = 4 << 20
"""Bytes; the real file has 100 thousand."""
_TABLE = "EMSCRIPTEN_TAGS"
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Revision:
    """One release: the commit of its archives, and as they stand there the SHA-256 values by emsdk's platform names
    (``linux``, ``linux_arm64``, ``mac``, ``mac_arm64``, ``win``)."""

    commit: str
    checksums: Mapping[str, str]
    origin: str

    def sha256(self, platform: str) -> Digest | None:
        """The archive's digest for one of emsdk's platforms; None where the release has no archive for it.

        ResolveError where it is not a SHA-256.
        """
        text = self.checksums.get(platform)
        if text is None:
            return None
        if not _SHA256.fullmatch(text):
            raise ResolveError(f"sha_{platform} is {text!r}, which is not a SHA-256", on=self.origin)
        return Digest(text)


def parse(data: bytes, origin: str) -> dict[str, Revision]:
    """The revisions by version; ResolveError, naming the line, where the table is not made as it should be."""
    if len(data) > LIMIT:
        raise ResolveError(f"is larger than {LIMIT} bytes", on=origin, hint="look at what the mirror serves")
    tables = [
        statement.value
        for statement in parse_python(data, origin).body
        if isinstance(statement, ast.Assign) and any(_names(target) for target in statement.targets)
    ]
    if len(tables) != 1:
        raise ResolveError(f"it has {len(tables)} tables {_TABLE}, not one", on=origin)
    table = tables[0]
    if not isinstance(table, ast.Dict):
        raise _odd(table, origin, f"{_TABLE} is not a dictionary")
    revisions: dict[str, Revision] = {}
    for key, value in zip(table.keys, table.values, strict=True):
        version = _string(key, origin) if key is not None else None
        if version is None:
            raise _odd(value, origin, "an entry has no name of its own")
        if version in revisions:
            raise _odd(value, origin, f"{version} is there twice")
        revisions[version] = _revision(value, origin)
    return revisions


def _names(target: ast.expr) -> bool:
    return isinstance(target, ast.Name) and target.id == _TABLE


def _revision(node: ast.expr, origin: str) -> Revision:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.func.id != "struct":
        raise _odd(node, origin, "an entry is not a struct(…)")
    if node.args:
        raise _odd(node, origin, "a struct has values without a name")
    fields: dict[str, str] = {}
    for keyword in node.keywords:
        if keyword.arg is None or keyword.arg in fields:
            raise _odd(keyword.value, origin, "a value of a struct has no name of its own")
        fields[keyword.arg] = _string(keyword.value, origin)
    if "hash" not in fields:
        raise _odd(node, origin, "a struct has no hash")
    checksums = {
        name.removeprefix("sha_"): value for name, value in fields.items() if name.startswith("sha_")
    }
    return Revision(fields["hash"], checksums, f"{origin}:{node.lineno}")


def _string(node: ast.expr, origin: str) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    raise _odd(node, origin, "a string is needed")


def _odd(node: ast.expr, origin: str, what: str) -> ResolveError:
    return ResolveError(f"cannot be read as data: {what}", on=f"{origin}:{node.lineno}")
