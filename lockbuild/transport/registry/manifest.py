"""Manifests and indexes as registries give them, checked before anybody believes them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from lockbuild.config.urls import redact
from lockbuild.errors import IntegrityError
from lockbuild.model.digest import Digest
from lockbuild.model.reference import Reference
from lockbuild.transport.failures import MalformedError

MANIFEST_TYPES = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
"""What is asked for: manifests and indexes of OCI, and what Docker made before there was OCI."""
LARGEST_MANIFEST = 4 << 20
"""Bytes. The specification's own limit ("Pushing Manifests")."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """A manifest or index: its exact bytes, which have ``digest``."""

    media_type: str
    body: bytes
    digest: Digest

    @property
    def value(self) -> dict[str, Any]:
        """Its JSON."""
        value: dict[str, Any] = json.loads(self.body)
        return value


def verified(data: bytes, digest: Digest, place: str) -> bytes:
    """``data``, which came from ``place``; IntegrityError where it does not have that digest."""
    found = Digest.of(data)
    if found != digest:
        raise IntegrityError(f"what came has the digest {found}, not {digest}", on=redact(place))
    return data


def checked_manifest(reference: Reference, place: str, data: bytes, headers: Any) -> Manifest:
    """The manifest in ``data``, which came from ``place`` for ``reference``.

    IntegrityError where it is another one, MalformedError where it is none.
    """
    digest = Digest.of(data)
    if reference.digest is not None:
        verified(data, reference.digest, place)
    said = headers.get("Docker-Content-Digest", "")
    if said.startswith("sha256:") and said != str(digest):
        raise IntegrityError(f"the registry says {said}, and sends {digest}", on=redact(place))
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise MalformedError("what came is no manifest", on=redact(place))
    declared = headers.get("Content-Type", "").partition(";")[0].strip()
    media_type = value.get("mediaType") or declared
    # A document that is read as a manifest here and as an index there is two things (CVE-2021-41190).
    ambiguous = "manifests" in value and ("layers" in value or "config" in value)
    if ambiguous or (declared in MANIFEST_TYPES and media_type != declared):
        raise MalformedError("what came is a manifest of two kinds at once", on=redact(place))
    return Manifest(str(media_type), data, digest)
