"""The ways in which a transfer fails, so that a caller can try another place or go on where it broke off."""

from __future__ import annotations

from collections.abc import Sequence

from lockbuild.config.urls import redact
from lockbuild.errors import FetchError, IntegrityError, LockbuildError


class TransferError(FetchError):
    """What the network or the other side did; a FetchError that is none of these is the local disk's."""


class NotFoundError(TransferError):
    """The place answers, and has no such file (404, 410, or no such local file)."""


class RefusedError(TransferError):
    """The server refuses, now and whenever it is asked again (other 4xx, a forbidden redirect)."""


class UnreachableError(TransferError):
    """There is no answer from the place after every retry."""


class UnavailableError(UnreachableError):
    """The server answers that it cannot for now (5xx, 429), after every retry."""


class MalformedError(TransferError):
    """The answer is not what was asked for: another range, not an index page."""


class BrokenTransferError(TransferError):
    """The connection broke while bytes came; what came is good and can be gone on from."""


class TooSlowError(TransferError):
    """Bytes come so slowly that waiting for all of them makes no sense."""


class TooLargeError(TransferError):
    """The response is larger than the caller allows."""


class OfflineError(TransferError):
    """The network would be needed and must not be used."""


ABSENT = "is neither in the store nor in a loaded bundle, and the network must not be used"
"""What an `OfflineError` says of a document that resolving needs."""
ABSENT_HINT = (
    "where there is a network run without --offline; where there is none, lock at a site that has one, and bring its "
    "lock over, or a new bundle (`lockbuild bundle create --for offline-lock` there, `lockbuild bundle load` here)"
)


def of_all_places(url: str, failures: Sequence[TransferError | IntegrityError]) -> LockbuildError:
    """One error for ``url`` from what each of its places did wrong.

    Wrong bytes weigh most. It is a NotFoundError or an OfflineError only where every place says so.
    """
    kind: type[LockbuildError] = OfflineError
    kinds = list(dict.fromkeys(type(failure) for failure in failures))
    if any(issubclass(one, IntegrityError) for one in kinds):
        kind = IntegrityError
    elif len(kinds) == 1:
        kind = kinds[0]
    else:
        kind = next((one for one in kinds if one not in (NotFoundError, OfflineError)), kind)
    lines = "".join(f"\n  {failure.on}: {failure.what}" for failure in failures)
    hints = dict.fromkeys(failure.hint for failure in failures if failure.hint)
    return kind(
        f"none of the places that the mirrors name for it will do{lines}",
        on=redact(url),
        hint="; ".join(hints) or None,
    )
