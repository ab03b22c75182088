"""What the types of a lock cannot say: whether its parts belong together. Format: ``docs/formats.md``.

A lock is written by lockbuild and read from wherever people keep files: merged, edited, cut short. Whatever
builds trusts that its trees, sources and records refer to one another; here that is made sure, once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from urllib.parse import urlsplit

from lockbuild.errors import Problem
from lockbuild.model.digest import Digest
from lockbuild.model.environment import SOURCES_DIR
from lockbuild.model.lock import InputValue, Lock, LockedTree, RecordedOutputs, Source, Unpack
from lockbuild.model.platform import Platform

_UNPACKS: Mapping[str, tuple[Unpack, ...]] = {
    "base": ("debian-root", "oci-root"),
    "tools": ("archive", "debian-tool", "emsdk", "git", "npm", "port", "wheels"),
    "derive": ("derive",),
    "sources": ("archive", "files", "git", "path"),
}
_PART = "[A-Za-z0-9][A-Za-z0-9._-]*"
_NAME = re.compile(rf"base|tools\.{_PART}(?:\+{_PART})?|(?:derive|sources)\.{_PART}")
_URL = re.compile(r"(?:https?|file|ssh)://\S+")
_IMAGE_URL = re.compile(r"oci://[^/@\s]+/[^@\s]+@sha256:[0-9a-f]{64}")


def inputs_digest(inputs: Mapping[str, InputValue]) -> Digest:
    """The digest of what a lock was made from: that of its canonical JSON."""
    text = json.dumps(dict(inputs), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return Digest.of(text.encode("utf-8", "surrogatepass"))


def problems(lock: Lock) -> Iterator[Problem]:
    """Everything in ``lock`` that lockbuild would not have written, by its key."""
    if lock.manifest.digest != inputs_digest(lock.manifest.inputs):
        yield Problem("manifest.digest", "is not the digest of manifest.inputs")
    used = {name for source in lock.sources for name in source.trees}
    seen: set[str] = set()
    for index, tree in enumerate(lock.trees):
        key = f"trees[{index}]"
        if tree.id in seen:
            yield Problem(key, f"{tree.id} is there twice")
        seen.add(tree.id)
        yield from _tree(key, tree, has_source=tree.id in used)
    places: set[tuple[object, ...]] = set()
    for index, source in enumerate(lock.sources):
        key = f"sources[{index}]"
        if source.place in places:
            yield Problem(key, f"{source.purl} is there twice")
        places.add(source.place)
        yield from _source(key, source, seen)
    for platform in lock.environments:
        try:
            Platform.parse(platform)
        except ValueError as error:
            yield Problem(f"environments.{platform}", str(error))
    for name, outputs in lock.outputs.items():
        yield from _outputs(f"outputs.{name}", outputs)


def _tree(key: str, tree: LockedTree, *, has_source: bool) -> Iterator[Problem]:
    if not _NAME.fullmatch(tree.name):
        yield Problem(f"{key}.name", f"{tree.name!r} is not base, tools.NAME, derive.NAME or sources.NAME")
        return
    group, _, short = tree.name.partition(".")
    if tree.unpack not in _UNPACKS[group] or ("+" in tree.name and tree.unpack != "port"):
        yield Problem(f"{key}.unpack", f"a tree called {tree.name} is not of the kind {tree.unpack!r}")
    if not _is_mount(tree.mount, group, short):
        yield Problem(f"{key}.mount", f"{tree.mount!r} is not a place where {tree.name} can stand")
    if tree.unpack not in ("derive", "path") and not has_source:
        yield Problem(key, f"no source is part of {tree.id}")
    if tree.unpack == "path" and tree.digest is None:
        yield Problem(f"{key}.digest", "is required for a directory of the project")
    if tree.unpack in ("debian-root", "debian-tool", "derive", "oci-root") and tree.platform == "any":
        yield Problem(f"{key}.platform", f"{tree.name} is for one platform, not for any")


def _is_mount(mount: str, group: str, short: str) -> bool:
    if group == "base":
        return mount == "/"
    if group == "sources":
        return mount == f"{SOURCES_DIR}/{short}"
    path = PurePosixPath(mount)
    return path.parts[:2] == ("/", "opt") and len(path.parts) > 2 and _is_plain(mount[1:])


def _is_url(text: str) -> bool:
    try:
        _ = urlsplit(text).port
    except ValueError:
        return False
    return _URL.fullmatch(text) is not None


def _source(key: str, source: Source, trees: set[str]) -> Iterator[Problem]:
    from packageurl import PackageURL

    try:
        PackageURL.from_string(source.purl)
    except ValueError as error:
        yield Problem(f"{key}.purl", f"{source.purl!r} is not a package URL: {error}")
    if (source.path is None) == (source.url is None):
        yield Problem(key, "has one of path and url, not both or neither")
    if source.path is not None and not _is_plain(source.path):
        yield Problem(f"{key}.path", f"{source.path!r} is not a path below a registry")
    is_image = source.purl.startswith("pkg:oci/")
    if is_image and not _is_of_image(source):
        yield Problem(f"{key}.url", f"{source.location!r} is not oci://REGISTRY/REPOSITORY@ and its digest")
    elif source.url is not None and not is_image and not _is_url(source.url):
        yield Problem(f"{key}.url", f"{source.url!r} is not an http://, https://, file:// or ssh:// URL")
    if source.at is not None and not _is_plain(source.at):
        yield Problem(f"{key}.at", f"{source.at!r} leaves the tree")
    if source.patch is not None and source.path is None:
        yield Problem(f"{key}.path", "is required for a patch: it is a file of the project")
    for path in source.exclude or ():
        if not _is_plain(path):
            yield Problem(f"{key}.exclude", f"{path!r} leaves the tree")
    if not source.trees:
        yield Problem(f"{key}.trees", "must not be empty")
    for name in source.trees:
        if name not in trees:
            yield Problem(f"{key}.trees", f"there is no tree {name!r}")


def _outputs(key: str, outputs: RecordedOutputs) -> Iterator[Problem]:
    seen: set[str] = set()
    for index, file in enumerate(outputs.files):
        if not _is_plain(file.path):
            yield Problem(f"{key}.files[{index}].path", f"{file.path!r} leaves the output directory")
        if file.path in seen:
            yield Problem(f"{key}.files[{index}].path", f"{file.path!r} is there twice")
        seen.add(file.path)


def _is_of_image(source: Source) -> bool:
    url = source.url or ""
    return _IMAGE_URL.fullmatch(url) is not None and url.endswith(f"@{source.sha256}")


def _is_plain(path: str) -> bool:
    """Whether it is a relative path in its simplest form, without ``..``."""
    return "\0" not in path and all(part not in ("", ".", "..") for part in path.split("/"))
