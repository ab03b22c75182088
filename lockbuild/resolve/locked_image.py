"""The image of one platform that a lock names: its manifest and its configuration, from the registry or the store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lockbuild.errors import IntegrityError, ResolveError
from lockbuild.model.digest import Digest
from lockbuild.model.image import ImageConfig, ImageManifest, read_config, read_manifest
from lockbuild.model.lock import LockedTree, Source
from lockbuild.model.reference import Reference
from lockbuild.resolve.context import ResolveContext
from lockbuild.transport.documents import kept_or_read

_LARGEST_CONFIG = 8 << 20


@dataclass(frozen=True, slots=True)
class LockedImage:
    """An image of one platform: its ``reference`` is pinned to its manifest, which ``size`` bytes are."""

    reference: Reference
    size: int
    manifest: ImageManifest
    config: ImageConfig

    @property
    def digest(self) -> Digest:
        """The digest of its manifest."""
        assert self.reference.digest is not None, "it is made so"
        return self.reference.digest


def image_of(tree: LockedTree, sources: Sequence[Source], context: ResolveContext) -> LockedImage:
    """The image that ``tree`` is locked to."""
    own = [source for source in sources if source.is_image_manifest and tree.id in source.trees]
    if len(own) != 1:
        raise ResolveError("the lock does not say which image it is", on=tree.id, hint="lock it again")
    reference = Reference.parse(own[0].location.removeprefix("oci://"))
    assert reference.digest is not None, "the soundness of locks says so"
    if context.store.has_blob(reference.digest):
        return read_image(
            reference, context.store.verified_blob(reference.digest).read_bytes(), None, context
        )
    found = manifest_at(reference, context)
    return read_image(reference, found.body, found.media_type, context)


@dataclass(frozen=True, slots=True)
class FoundManifest:
    """A manifest or index as it came, which has ``digest``."""

    media_type: str
    body: bytes
    digest: Digest


def manifest_at(reference: Reference, context: ResolveContext) -> FoundManifest:
    """What the registry has there, or had where it was read for a site without a network."""

    def read() -> bytes:
        found = context.registries.manifest(reference)
        return found.media_type.encode() + b"\n" + found.body

    data = kept_or_read(context.http.documents, f"image/manifest/{reference}", read)
    media_type, _, body = data.partition(b"\n")
    found = FoundManifest(media_type.decode("utf-8", "replace"), body, Digest.of(body))
    if reference.digest not in (None, found.digest):
        raise IntegrityError(f"the manifest that came has the digest {found.digest}", on=str(reference))
    return found


def read_image(
    reference: Reference, data: bytes, media_type: str | None, context: ResolveContext
) -> LockedImage:
    """The image whose manifest is ``data``, with its configuration; errors of `read_manifest` and `read_config`."""
    on = str(reference)
    manifest = read_manifest(data, media_type, on=on)
    context.store.add_blob(data)
    digest = manifest.config.digest

    def read() -> bytes:
        if context.store.has_blob(digest):
            return context.store.verified_blob(digest).read_bytes()
        return context.registries.blob_bytes(reference, digest, limit=_LARGEST_CONFIG)

    text = kept_or_read(context.http.documents, f"image/config/{digest}", read)
    if context.store.add_blob(text) != digest:
        raise IntegrityError("the configuration that came is another one", on=f"{reference.name}@{digest}")
    config = read_config(text, manifest, on=on)
    return LockedImage(reference, len(data), manifest, config)
