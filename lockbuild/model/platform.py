"""Platforms, written as OCI does: ``linux/amd64``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # pydantic calls the two hooks below; whoever only names a platform need not import it
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic_core import core_schema

# OCI architecture -> (Debian architecture, wheel tag architecture = `uname -m`)
_ARCHITECTURES = {"amd64": ("amd64", "x86_64"), "arm64": ("arm64", "aarch64")}


@dataclass(frozen=True, slots=True, order=True)
class Platform:
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
    def __get_pydantic_core_schema__(
        cls, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(
            cls._accept, serialization=core_schema.to_string_ser_schema()
        )

    @classmethod
    def _accept(cls, value: object) -> Platform:
        if isinstance(value, cls):
            return value
        if not isinstance(value, str):
            raise ValueError("must be a string")
        return cls.parse(value)

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"type": "string", "enum": [f"linux/{name}" for name in sorted(_ARCHITECTURES)]}
