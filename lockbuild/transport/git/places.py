"""Where a repository is asked: at its mirrors, at itself, at public copies, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from lockbuild.config import Config
from lockbuild.config.urls import redact
from lockbuild.errors import FetchError, IntegrityError, ResolveError
from lockbuild.transport.failures import ABSENT_HINT, NotFoundError, OfflineError, TransferError
from lockbuild.transport.git.objects import MissingObjectsError
from lockbuild.transport.git.place import fault_of

_COPIES: Mapping[str, tuple[str, ...]] = {
    # Its publisher keeps both alike; releases are tagged in the second.
    "https://dawn.googlesource.com/dawn": ("https://github.com/google/dawn",),
}
"""Public copies of repositories by their canonical URL: asked after it."""
_Result = TypeVar("_Result")


class GitPlaces:
    """The places of repositories. ``offline`` leaves only those that are file:// ones."""

    def __init__(self, config: Config, *, offline: bool) -> None:
        self._config = config
        self._offline = offline

    def of(self, url: str) -> Sequence[str]:
        """Where a repository is asked for, in order: what mirrors say of it or of public copies, else itself, them."""
        urls = [url, *_COPIES.get(key_of(url), ())]
        mirrored = [self._config.places(each) for each in urls]
        own = [places for each, places in zip(urls, mirrored, strict=True) if places != [each]]
        return tuple(dict.fromkeys(place for places in own or mirrored for place in places))

    def ask(self, url: str, ask: Callable[[str], _Result], commit: str | None = None) -> _Result:
        """What the first place says that has an answer; one error for all where none has.

        A place that sends what is not sound is passed over for the next one, too.
        """
        if fault := fault_of(url):
            raise ResolveError(f"the URL of the repository cannot be used: {fault}", on=redact(url))
        wanted = f"commit {commit}" if commit else "its references"
        failures: list[TransferError] = []
        wrong: list[IntegrityError] = []
        passed_over = False
        places = self.of(url)
        for place in places:
            if self._offline and not place.startswith("file://"):
                passed_over = True
                continue
            if fault := fault_of(place):
                failures.append(TransferError(f"the mirror cannot be used: {fault}", on=redact(place)))
                continue
            try:
                return ask(place)
            except MissingObjectsError as error:
                failures.append(NotFoundError(f"it lacks the object {error.object_ids[0]}", on=redact(place)))
            except TransferError as error:
                failures.append(error)
            except IntegrityError as error:
                wrong.append(error)
        if wrong:
            raise wrong[0]
        if passed_over and all(isinstance(failure, NotFoundError) for failure in failures):
            raise OfflineError(
                f"{wanted} would be fetched from {', '.join(map(redact, places))}, and the network must not be used",
                on=redact(url),
                hint=ABSENT_HINT,
            )
        raise _verdict(failures, wanted, url)


def key_of(url: str) -> str:
    """One name for the ways to write a URL."""
    return url.rstrip("/").removesuffix(".git")


def _verdict(failures: list[TransferError], wanted: str, url: str) -> FetchError:
    gone = all(isinstance(failure, NotFoundError) for failure in failures)
    if len(failures) == 1:
        said = failures[0].what
        if failures[0].on not in (None, redact(url)):
            said = f"{failures[0].on}: {said}"
    else:
        said = "; ".join(f"{failure.on}: {failure.what}" for failure in failures)
    hints = dict.fromkeys(failure.hint for failure in failures if failure.hint)
    what = f"{wanted} cannot be had: {said}" if gone else f"{wanted} could not be fetched: {said}"
    kind = type(failures[0]) if len({type(failure) for failure in failures}) == 1 else TransferError
    return kind(what, on=redact(url), hint="; ".join(hints) or None)
