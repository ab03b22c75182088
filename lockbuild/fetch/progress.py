"""Progress of downloads: one task a file and one for all of them, in steps that are worth drawing."""

from __future__ import annotations

from lockbuild.events import Advanced, Finished, Reporter, Started
from lockbuild.model.lock import Source

OVERALL = "fetch"
"""The key of the task that counts the bytes of all files."""
_STEP = 256 * 1024


class FileProgress:
    """Reports how far one file has come. Not shared between threads; the reporter is."""

    def __init__(self, source: Source, report: Reporter) -> None:
        self._report = report
        self._key = f"{OVERALL}:{source.identity.hex}"
        self._shown = 0
        report(Started(self._key, source.location.rpartition("/")[2], source.size))

    def at(self, size: int, *, exactly: bool = False) -> None:
        """``size`` bytes are here. Small steps are held back unless ``exactly``."""
        step = size - self._shown
        if step and (exactly or abs(step) >= _STEP):
            self._shown = size
            self._report(Advanced(self._key, step))
            self._report(Advanced(OVERALL, step))

    def finish(self) -> None:
        """The file is here, or will not come."""
        self._report(Finished(self._key))
