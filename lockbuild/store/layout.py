"""Where everything stands in a store.

Blobs stand as in an OCI image layout (OCI image specification, image-layout.md), so that any tool
that reads one can read them; the rest is lockbuild's own and stands beside:

    oci-layout  index.json
    blobs/sha256/<hex>      files, by the digest of their bytes
    trees/sha256/<hex>/     unpacked trees, by the digest of their canonical tar
    derivations/<hex>       memo: the tree that a recipe gave
    roots/<hex>             the locks whose needs `gc` keeps, and the trees they were last made into
    partial/<hex>           downloads under way, by the digest that they should have
    locks/<name>            empty files, held with flock(2)
    tmp/<random>/           work under way, each held with flock(2) by the process that does it
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lockbuild.model.digest import Digest

_IMAGE_LAYOUT = b'{"imageLayoutVersion":"1.0.0"}'
_EMPTY_INDEX = b'{"schemaVersion":2,"manifests":[]}'


@dataclass(frozen=True, slots=True)
class Layout:
    """The paths of the store at ``root``. Creates nothing until `prepare`."""

    root: Path

    @property
    def blobs(self) -> Path:
        """The directory of blobs."""
        return self.root / "blobs" / "sha256"

    @property
    def trees(self) -> Path:
        """The directory of trees."""
        return self.root / "trees" / "sha256"

    @property
    def derivations(self) -> Path:
        """The directory of memos."""
        return self.root / "derivations"

    @property
    def roots(self) -> Path:
        """The directory of notes of locks."""
        return self.root / "roots"

    @property
    def partials(self) -> Path:
        """The directory of downloads under way."""
        return self.root / "partial"

    @property
    def locks(self) -> Path:
        """The directory of lock files."""
        return self.root / "locks"

    @property
    def temporary(self) -> Path:
        """The directory of work under way."""
        return self.root / "tmp"

    def blob(self, digest: Digest) -> Path:
        """Where that blob stands, if it is there."""
        return self.blobs / digest.hex

    def tree(self, digest: Digest) -> Path:
        """Where that tree stands, if it is there."""
        return self.trees / digest.hex

    def prepare(self) -> None:
        """Make the directories and the files of an image layout, where they are missing."""
        for directory in (
            self.blobs,
            self.trees,
            self.derivations,
            self.roots,
            self.partials,
            self.locks,
            self.temporary,
        ):
            directory.mkdir(parents=True, exist_ok=True)
        for name, content in (("index.json", _EMPTY_INDEX), ("oci-layout", _IMAGE_LAYOUT)):
            path = self.root / name
            # Written in one go: a reader of the layout never looks at these while lockbuild runs.
            if not path.exists() or path.stat().st_size == 0:
                path.write_bytes(content)
