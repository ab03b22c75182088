"""Platforms, written as OCI does: ``linux/amd64``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lockbuild.model.text import TextValue

# OCI architecture -> (Debian architecture, wheel tag architecture = `uname -m`)
_ARCHITECTURES = {"amd64": ("amd64", "x86_64"), "arm64": ("arm64", "aarch64")}


@dataclass(frozen=True, slots=True, order=True)
class Platform(TextValue):
    """An operating system and architecture that an environment runs on."""

    os: str
    architecture: str

    def __str__(self) -> str:
        return f"{self.os}/{self.architecture}"

    @property
    def debian_architecture(self) -> str:
        """As dpkg names it."""
        return _ARCHITECTURES[self.architecture][0]

    @property
    def machine(self) -> str:
        """As ``uname -m`` and wheel tags name it."""
        return _ARCHITECTURES[self.architecture][1]

    @classmethod
    def parse(cls, text: str) -> Platform:
        """Read ``linux/amd64``; ValueError for a platform that lockbuild does not know."""
        os, slash, architecture = text.partition("/")
        if not slash or os != "linux" or architecture not in _ARCHITECTURES:
            known = ", ".join(f"linux/{name}" for name in sorted(_ARCHITECTURES))
            raise ValueError(f"{text!r} is not a known platform (known: {known})")
        return cls(os, architecture)

    @classmethod
    def of_machine(cls, machine: str) -> Platform:
        """The Linux platform of a ``uname -m`` value; ValueError where it is unknown."""
        for architecture, (_, name) in _ARCHITECTURES.items():
            if machine in (name, architecture):
                return cls("linux", architecture)
        raise ValueError(f"this machine's architecture {machine!r} is not supported")

    @classmethod
    def text_schema(cls) -> dict[str, Any]:
        return {"type": "string", "enum": [f"linux/{name}" for name in sorted(_ARCHITECTURES)]}
