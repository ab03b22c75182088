"""What changed between two locks, as a person reads it: name, old, new."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lockbuild.model.lock import Lock, Source


@dataclass(frozen=True, slots=True)
class PinChange:
    """A pin before and after; ``old`` or ``new`` is None where it was added or removed."""

    name: str
    old: str | None
    new: str | None


@dataclass(frozen=True, slots=True)
class Unbound:
    """What a lock had the digest of, and has not any more: how many ``trees``, and the ``images`` of which platforms.
    ``platforms`` are those of both; trees for any are made with each."""

    trees: int
    images: tuple[str, ...]
    platforms: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.trees or self.images)


def unbound(old: Lock | None, new: Lock) -> Unbound:
    """What ``new`` binds by digest no longer, though it is still there."""
    if old is None:
        return Unbound(0, (), ())
    bound = {tree.id for tree in old.trees if tree.digest is not None}
    trees = [tree for tree in new.trees if tree.digest is None and tree.id in bound]
    there = {str(tree.platform) for tree in new.trees}
    images = tuple(sorted((old.environments.keys() - new.environments.keys()) & there))
    platforms = {str(tree.platform) for tree in trees if tree.platform != "any"}.union(images)
    return Unbound(len(trees), images, tuple(sorted(platforms)))


def pin_changes(old: Lock | None, new: Lock) -> list[PinChange]:
    """Every pin that differs, sorted by name: versions of sources, digests of trees, images, indexes."""
    before = dict(_pins(old)) if old else {}
    after = dict(_pins(new))
    return [
        PinChange(name, before.get(name), after.get(name))
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    ]


def _pins(lock: Lock) -> Iterator[tuple[str, str]]:
    versions: dict[str, list[str]] = {}
    for source in lock.sources:
        if source.purl.startswith("pkg:oci/") and not source.is_image_manifest:
            continue  # the manifest says it all
        name, version = _name_and_version(source)
        versions.setdefault(name, []).append(version)
    for name, found in versions.items():
        yield name, ", ".join(sorted(found))
    yield from _derived(lock)
    for tree in lock.trees:
        yield (
            f"tree {tree.name} ({tree.platform})",
            _short(str(tree.digest)) if tree.digest else "not materialised",
        )
    there = {str(tree.platform) for tree in lock.trees if tree.platform != "any"}
    for platform in there - lock.environments.keys():
        yield f"image ({platform})", "not materialised"
    for platform, environment in lock.environments.items():
        yield f"image ({platform})", _short(str(environment.image))
        for compression, layers in environment.layers.items():
            yield f"image in {compression} ({platform})", f"{_short(str(layers.manifest))}, {layers.encoder}"
    for suite in lock.suites:
        expired = ", expired" if suite.expired else ""
        yield f"suite {suite.name}", f"{suite.date}{expired}"


def _derived(lock: Lock) -> Iterator[tuple[str, str]]:
    """What trees say of themselves: once where all platforms say the same, else by platform."""
    said: dict[str, dict[str, str]] = {}
    for tree in lock.trees:
        for key, value in tree.pins.items():
            said.setdefault(f"{tree.name}: {key}", {})[str(tree.platform)] = value
    for name, values in said.items():
        if len(set(values.values())) == 1:
            yield name, next(iter(values.values()))
        else:
            yield from ((f"{name} ({platform})", value) for platform, value in values.items())


def _name_and_version(source: Source) -> tuple[str, str]:
    """``pkg:deb/debian/libc6@2.43-7?arch=amd64`` as ("deb libc6 (amd64)", "2.43-7 12ab34cd…")."""
    from packageurl import PackageURL

    purl = PackageURL.from_string(source.purl)
    qualifiers = purl.qualifiers if isinstance(purl.qualifiers, dict) else {}
    architecture = f" ({qualifiers['arch']})" if "arch" in qualifiers else ""
    file = "" if purl.type != "pypi" else f" {source.location.rsplit('-', 1)[-1]}"
    place = f" at {source.at}" if source.at is not None else ""
    if source.commit is not None:
        owner = f"{purl.namespace}/" if purl.namespace else ""
        return f"git {owner}{purl.name}{place}", source.commit[:12]
    if purl.type == "oci":
        return f"image {purl.name}{architecture}", source.identity.short
    return (
        f"{purl.type} {purl.name}{architecture}{file}{place}",
        f"{purl.version or ''} {source.identity.short}".strip(),
    )


def _short(digest: str) -> str:
    return digest[: len("sha256:") + 12]
