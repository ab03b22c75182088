"""References to what registries hold: ``registry.example:5000/team/environment:1.2@sha256:…``.

The grammar is that of the distribution project ("reference"), with one difference: the registry is always
named. A short name means another thing on every machine, by whatever it is configured to search.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from lockbuild.model.digest import Digest
from lockbuild.model.text import TextValue

_LABEL = r"[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?"
_REGISTRY = re.compile(rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[0-9a-fA-F:]+\])(?::[0-9]{{1,5}})?")
_REPOSITORY = re.compile(r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_LONGEST_NAME = 255


@dataclass(frozen=True, slots=True, order=True)
class Reference(TextValue):
    """A repository of a registry, and what of it. ``registry`` is ``host`` or ``host:port``.

    With a ``digest`` it is pinned: the ``tag`` then only says to people what that was.
    """

    registry: str
    repository: str
    tag: str | None = None
    digest: Digest | None = None

    def __post_init__(self) -> None:
        if not _REGISTRY.fullmatch(self.registry):
            raise ValueError(f"{self.registry!r} is not a registry (host or host:port)")
        if not _REPOSITORY.fullmatch(self.repository) or len(self.name) > _LONGEST_NAME:
            raise ValueError(
                f"{self.repository!r} is not a repository's name (lower-case words, joined by . _ - and /)"
            )
        if self.tag is not None and not _TAG.fullmatch(self.tag):
            raise ValueError(f"{self.tag!r} is not a tag (up to 128 letters, digits and . _ -)")

    def __str__(self) -> str:
        tag = "" if self.tag is None else f":{self.tag}"
        return f"{self.name}{tag}" + ("" if self.digest is None else f"@{self.digest}")

    @property
    def name(self) -> str:
        """Registry and repository."""
        return f"{self.registry}/{self.repository}"

    @property
    def target(self) -> str:
        """What the registry is asked for: the digest, else the tag, else the tag ``latest``."""
        return str(self.digest or self.tag or "latest")

    def at(self, target: Digest | str) -> Reference:
        """The same repository's manifest with that digest or tag, and nothing else said of it."""
        if isinstance(target, Digest):
            return replace(self, tag=None, digest=target)
        return replace(self, tag=target, digest=None)

    def pinned(self, digest: Digest) -> Reference:
        """The same, pinned to ``digest``."""
        return replace(self, digest=digest)

    @classmethod
    def parse(cls, text: str) -> Reference:
        """Read ``registry/repository[:tag][@sha256:…]``; ValueError, which says why, for anything else."""
        rest, at, digest = text.partition("@")
        registry, slash, repository = rest.partition("/")
        named = "." in registry or ":" in registry or registry == "localhost"
        if not slash or not named:
            raise ValueError(f"{text!r} names no registry; write host/repository or host:port/repository")
        repository, colon, tag = repository.partition(":")
        return cls(registry, repository, tag if colon else None, Digest.parse(digest) if at else None)

    @classmethod
    def text_schema(cls) -> dict[str, Any]:
        return {
            "type": "string",
            "pattern": r"^[^/@\s]+[.:][^/@\s]*/[^@\s]+(@sha256:[0-9a-f]{64})?$|^localhost/",
        }
