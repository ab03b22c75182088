"""The ways in which a transfer fails, so that a caller can try another place or go on where it broke off."""

from __future__ import annotations

from lockbuild.errors import FetchError


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


class TooLargeError(TransferError):
    """The response is larger than the caller allows."""


class OfflineError(TransferError):
    """The network would be needed and must not be used."""
