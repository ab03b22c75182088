"""What a run that failed tells: every source that is missing, by what they have in common.

Hundreds of sources fail for one cause mostly, so that is said once, with what it concerns below it. Sources that are
missing offline are all named, since somebody has to bring them. Of many that failed alike the text names some; all of
them are `LockbuildError.sources`, and told as notes for whoever asks to hear more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from lockbuild.errors import FailedSource, FetchError, IntegrityError, LockbuildError
from lockbuild.events import Note, Reporter
from lockbuild.fetch.download import Failure
from lockbuild.fetch.places import Expectation
from lockbuild.model.lock import Source
from lockbuild.transport.failures import (
    BrokenTransferError,
    NotFoundError,
    OfflineError,
    UnavailableError,
)

_SHOWN = 10
"""Sources with one cause, and causes, that a text names at most."""


@dataclass(frozen=True, slots=True)
class Failed:
    """A source, where it should have been, and the ``error`` that says why it is not there."""

    source: Source
    expectation: Expectation
    error: LockbuildError
    cause: str
    """The same for all that failed alike."""

    @property
    def size(self) -> str:
        """For people, in parentheses, where it is known."""
        return "" if self.source.size is None else f" ({self.source.size:,} bytes)"


def failed(source: Source, expectation: Expectation, failures: Sequence[Failure], hint: str) -> Failed:
    """Why ``source`` could not be fetched, from what each place did wrong: wrong bytes weigh most.

    ``hint`` is for a source that its place does not have any more.
    """
    wrong = [failure for failure in failures if isinstance(failure, IntegrityError)]
    if len(failures) == 1 and wrong:
        return Failed(source, expectation, wrong[0], str(wrong[0]))
    once: dict[tuple[str, str], Failure] = {}
    for failure in failures:
        once.setdefault((_host(failure), failure.what), failure)
    tried = "; ".join(f"{failure.on}: {failure.what}" for failure in once.values())
    told = "; ".join(f"{host}: {what}" for host, what in once)
    hints = [failure.hint for failure in failures if failure.hint]
    if wrong:
        what = "no place has what was locked ({})"
        error: LockbuildError = IntegrityError(what.format(tried), on=source.purl, hint=_joined(hints))
        return Failed(source, expectation, error, what.format(told))
    gone = [failure for failure in failures if isinstance(failure, NotFoundError)]
    if not failures or isinstance(failures[0], NotFoundError):
        hints.append(hint)  # the place that should have it; those of old states come after it
    elif any(isinstance(failure, UnavailableError | BrokenTransferError) for failure in failures):
        hints.append("try again later; what has come is kept")
    if len(gone) == len(failures):
        what = "no place has it any more ({})" if tried else "no place is known to have it"
    else:
        what = "could not be fetched ({})"
    error = FetchError(what.format(tried), on=source.purl, hint=_joined(hints))
    return Failed(source, expectation, error, what.format(told))


def absent(source: Source, expectation: Expectation) -> Failed:
    """A source that only the network has, which must not be used."""
    error = OfflineError(f"would come from {expectation}", on=source.purl)
    return Failed(source, expectation, error, f"would come from {expectation.place}")


def untried(source: Source, expectation: Expectation) -> Failed:
    """A source that nobody was asked for, since nobody answers."""
    what = "not tried, since no place answered before"
    return Failed(source, expectation, FetchError(what, on=source.purl), what)


def verdict(all_failed: Sequence[Failed], report: Reporter) -> LockbuildError:
    """One error for everything that failed, in the lock's order. ``report`` is told what the error leaves out."""
    wrong = [each for each in all_failed if isinstance(each.error, IntegrityError)]
    told = wrong or all_failed
    error = _told(told, report, IntegrityError if wrong else FetchError)
    error.sources = tuple(
        FailedSource(each.source.purl, each.source.size, each.error.what) for each in all_failed
    )
    return error


def _told(told: Sequence[Failed], report: Reporter, kind: Callable[..., LockbuildError]) -> LockbuildError:
    count = len(told)
    if all(isinstance(each.error, OfflineError) for each in told):
        what = f"{count} source{'s are' if count != 1 else ' is'} not in the store, and the network must not be used"
        groups = _grouped(told)
        return OfflineError(
            what + "".join(_group(cause, each, len(each)) for cause, each in groups.items()) + _total(told),
            hint="run once without --offline, or load a bundle of this lock (`lockbuild bundle load`)",
        )
    if count == 1:
        return told[0].error
    for each in told:
        report(Note(f"{each.error.on}: {each.error.what}", "debug"))
    groups = _grouped(told)
    lines = [
        f"\n  {each[0].error.on}: {each[0].error.what}" if len(each) == 1 else _group(cause, each, _SHOWN)
        for cause, each in groups.items()
    ]
    more = f"\n  … and {len(lines) - _SHOWN} more (--verbose lists them)" if len(lines) > _SHOWN else ""
    hints = [each.error.hint for each in told if each.error.hint]
    return kind(
        f"{count} sources could not be fetched{''.join(lines[:_SHOWN])}{more}{_total(told)}",
        hint=_joined(hints),
    )


def _grouped(told: Iterable[Failed]) -> dict[str, list[Failed]]:
    groups: dict[str, list[Failed]] = {}
    for each in told:
        groups.setdefault(each.cause, []).append(each)
    return groups


def _group(cause: str, members: Sequence[Failed], shown: int) -> str:
    if len(members) == 1:
        return f"\n  {members[0].error.what}{members[0].size}"
    more = len(members) - shown
    rest = f"\n    … and {more} more (--verbose lists them)" if more > 0 else ""
    return (
        f"\n  {cause}:"
        + "".join(f"\n    {each.expectation.item}{each.size}" for each in members[:shown])
        + rest
    )


def _total(told: Sequence[Failed]) -> str:
    if len(told) == 1:
        return ""
    sizes = [each.source.size for each in told if each.source.size is not None]
    unknown = len(told) - len(sizes)
    return f"\n  in all {len(told)} files, {sum(sizes):,} bytes" + (
        f" and the {unknown} whose size the lock does not know" if unknown else ""
    )


def _host(failure: Failure) -> str:
    parts = urlsplit(failure.on or "")
    return f"{parts.scheme}://{parts.netloc}" if parts.netloc else failure.on or ""


def _joined(hints: Iterable[str]) -> str | None:
    return "; ".join(dict.fromkeys(hints)) or None
