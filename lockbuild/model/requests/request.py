"""What every request can be asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from lockbuild.model.base import FileModel


class Request(FileModel):
    """Something that a manifest asks for."""

    chosen_for_base: ClassVar[bool] = False
    """Whether it has wheels, which are chosen for the Python and the C library of the base."""

    def needs(self, tools: Mapping[str, Request]) -> tuple[str, ...]:
        """The manifest keys (``base``, ``tools.NAME``) that are resolved before this one, whose result decides it.

        ``tools`` are all tools of the toolchain by name. A key that is not there is a fault of the manifest.
        """
        return ()

    def files(self) -> tuple[str, ...]:
        """The files of the project that it is resolved from, as paths relative to the project; each is locked by its
        digest."""
        return ()
