"""Manifest -> lock: one module per provider, chosen by the request's class through one table.

Resolving reads indexes and never an artefact whose digest is published, so that locking is fast and
works for platforms and sites whose archives cannot be reached from here. A new kind of source is one
new module and one new row.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence

from lockbuild.errors import FetchError, ResolveError
from lockbuild.model.platform import Platform
from lockbuild.model.requests import (
    ArchiveRequest,
    ArchiveTool,
    DawnRequest,
    DawnTool,
    DebianBase,
    DebianSourceRequest,
    DebianTool,
    EmsdkTool,
    GitRequest,
    GitTool,
    ImageRoot,
    NpmTool,
    OnnxruntimeDepsRequest,
    PortTool,
    PypiTool,
    Request,
)
from lockbuild.resolve.context import Resolution, ResolveContext
from lockbuild.resolve.target import TargetPython, target_of

__all__ = [
    "Resolution",
    "ResolveContext",
    "TargetPython",
    "looked_into",
    "moved_tags",
    "resolve",
    "target_of",
]

# Modules by name: one is imported only when a manifest asks for it.
_PROVIDERS: dict[type[Request], str] = {
    DebianBase: "debian.base",
    DebianSourceRequest: "debian.source",
    DebianTool: "debian.tool",
    NpmTool: "npm.provider",
    PypiTool: "pypi.provider",
    EmsdkTool: "emscripten.release",
    PortTool: "emscripten.ports",
    ArchiveTool: "archive",
    ArchiveRequest: "archive",
    GitTool: "git",
    GitRequest: "git",
    ImageRoot: "oci_image",
    DawnTool: "dawn",
    DawnRequest: "dawn",
    OnnxruntimeDepsRequest: "onnxruntime",
}


def resolve(
    name: str, request: Request, platforms: Sequence[Platform], context: ResolveContext
) -> Resolution:
    """Lock one request. ``name`` is its key in the manifest: ``base``, ``tools.cmake``, ``sources.zlib``.

    ResolveError where it has no solution; FetchError where an index cannot be read. A project path is
    not resolved from an index: the workflow takes its snapshot, and asking for it here is a ResolveError.
    """
    provider = _PROVIDERS.get(type(request))
    if provider is None:
        raise ResolveError(
            f'a request of the kind from = "{getattr(request, "from_", type(request).__name__)}"'
            " is not resolved from an index",
            on=name,
        )
    module = importlib.import_module(f"{__name__}.{provider}")
    try:
        resolution: Resolution = module.resolve(name, request, platforms, context)
    except FetchError as error:
        if not (error.on or "").startswith(name):
            error.on = f"{name}: {error.on}" if error.on else name
        raise
    return resolution


def moved_tags(before: Resolution, after: Resolution) -> list[str]:
    """What to tell of tags of git repositories and images that mean something else now than when they were locked."""
    kinds = {tree.unpack for tree in after.trees}
    told: list[str] = []
    if "git" in kinds:
        from lockbuild.resolve import git

        told += git.moved_tags(before, after)
    if "oci-root" in kinds:
        from lockbuild.resolve import oci_image

        told += oci_image.moved(before, after)
    return told


def looked_into(resolution: Resolution, context: ResolveContext) -> Resolution:
    """What a base was locked to, with pins that say which Python and glibc it has, where it is an image."""
    if not any(tree.unpack == "oci-root" for tree in resolution.trees):
        return resolution
    from lockbuild.resolve.image_packages import looked_into

    return looked_into(resolution, context)
