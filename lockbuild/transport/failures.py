"""The ways in which a transfer fails, so that a caller can try another place or go on where it broke off."""

from __future__ import annotations

from lockbuild.errors import FetchError


class NotFoundError(FetchError):
    """The place answers, and has no such file (404, 410, or no such local file)."""


class RefusedError(FetchError):
    """The server refuses, now and whenever it is asked again (other 4xx, a forbidden redirect)."""


class UnreachableError(FetchError):
    """There is no answer from the place, or none that makes sense, after every retry."""


class BrokenTransferError(FetchError):
    """The connection broke while bytes came; what came is good and can be gone on from."""


class TooLargeError(FetchError):
    """The response is larger than the caller allows."""


class OfflineError(FetchError):
    """The network would be needed and must not be used."""
