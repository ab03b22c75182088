"""Results of builds and comparisons. A difference is a value, not an error."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from lockbuild.model.digest import Digest


@dataclass(frozen=True, slots=True, order=True)
class BuiltFile:
    """One output that a build made: ``path`` below the output directory, ``size`` in bytes."""

    path: str
    size: int
    sha256: Digest


@dataclass(frozen=True, slots=True)
class BuildOutcome:
    """A finished build of one target. ``input`` is the digest of its plan; ``reproducible`` is False for
    results of a back-end that guarantees nothing, which are never recorded."""

    target: str
    input: Digest
    files: tuple[BuiltFile, ...]
    backend: str
    reproducible: bool
    seconds: float


class Verdict(StrEnum):
    """How one output compares with its record."""

    SAME = "same"
    DIFFERENT = "different"
    MISSING = "missing"
    UNEXPECTED = "unexpected"


@dataclass(frozen=True, slots=True)
class FileComparison:
    """One output against its record. ``recorded``/``found`` is None where that side has no such file.
    ``first_difference`` is a byte offset, known only where the recorded bytes are at hand."""

    path: str
    verdict: Verdict
    recorded: BuiltFile | None
    found: BuiltFile | None
    first_difference: int | None = None
    hints: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Comparison:
    """All outputs of a target against the lock. ``stale_input`` is the recorded input digest where it is
    not ``input``, the one just built from.

    ``claimed_by`` says who published the outputs, where they are compared with that and not with a record of
    lockbuild; then only the files that are claimed are compared. A comparison that is not ``decisive`` is shown and
    decides nothing: a claim beside a record.
    """

    target: str
    files: tuple[FileComparison, ...]
    stale_input: Digest | None = None
    input: Digest | None = None
    claimed_by: str | None = None
    decisive: bool = True

    @property
    def same(self) -> bool:
        """Whether every output is what the lock records."""
        return all(file.verdict is Verdict.SAME for file in self.files)
