"""What the modules that know where sources are kept have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lockbuild.config import Config

if TYPE_CHECKING:
    from lockbuild.transport.index import PackageIndexes


@dataclass(frozen=True, slots=True)
class Places:
    """Where to look: the user's ``config``, the ``indexes`` (pages read once a run), and for each Debian
    suite's name or codename the snapshot ``timestamps`` (20261101T000000Z) that the lock knows. ``references`` has
    for commits the reference of its repository (``refs/tags/v1``) that each was when it was locked."""

    config: Config
    indexes: PackageIndexes
    timestamps: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    references: Mapping[str, str] = field(default_factory=dict)
