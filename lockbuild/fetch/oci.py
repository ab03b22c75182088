"""Where an image's manifest, configuration and layers are: in the repository of the registry that their URL names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lockbuild.errors import IntegrityError
from lockbuild.fetch.places import Expectation, Places
from lockbuild.model.lock import Source
from lockbuild.model.reference import Reference

if TYPE_CHECKING:
    from lockbuild.store import Store
    from lockbuild.transport.registry.registries import Registries
    from lockbuild.transport.transfers import Transfers

HINT = (
    "see whether the repository still has the image, name a mirror that has it ([[mirrors]]), or lock again with "
    "`lockbuild lock --upgrade base`"
)
"""What to do where no registry has it."""


def candidates(source: Source, places: Places) -> Iterator[str]:
    """None: registries are asked in their own way, and have mirrors of their own."""
    return iter(())


def expectation(source: Source, places: Places) -> Expectation:
    """Where it would come from."""
    reference = reference_of(source)
    return Expectation(f"the registry {reference.registry}", f"{reference.repository}@{reference.digest}")


def fetch(source: Source, store: Store, registries: Registries, transfers: Transfers) -> None:
    """Bring what the source names into ``store``; errors of ``registries``, which verify it. ``transfers`` can end it.

    IntegrityError where it has another size than the lock says.
    """
    reference = reference_of(source)
    assert reference.digest is not None, "the soundness of locks says so"
    if not source.is_image_manifest:
        registries.fetch_blob(reference, reference.digest, store, size=source.size, transfers=transfers)
        return
    manifest = registries.manifest(reference)
    if source.size is not None and len(manifest.body) != source.size:
        raise IntegrityError(
            f"the manifest has {len(manifest.body)} bytes, the lock says {source.size}", on=source.purl
        )
    store.add_blob(manifest.body)


def reference_of(source: Source) -> Reference:
    """Its repository, pinned to its digest."""
    return Reference.parse(source.location.removeprefix("oci://"))
