"""Read signed indexes of a suite from the first mirror that can be believed.

``dists/<suite>/InRelease`` is signed; it names every index by SHA-256, so an index is a blob of the
store and is downloaded once for all locks. ``by-hash`` (Debian's repository format, "indices
acquisition via hashsums") makes a download independent of a mirror that is being updated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from lockbuild.config.apt import snapshot_url
from lockbuild.config.urls import redact
from lockbuild.errors import FetchError, IntegrityError, LockbuildError, ResolveError
from lockbuild.events import Advanced, Finished, Note, Started
from lockbuild.model.digest import Digest
from lockbuild.model.lock import Suite
from lockbuild.model.requests import DebianBase, DebianSourceRequest
from lockbuild.resolve.context import ResolveContext
from lockbuild.resolve.debian.compression import SUFFIXES, decompress
from lockbuild.resolve.debian.release import IndexFile, Release, check_release, parse_release, timestamp
from lockbuild.resolve.debian.signature import require, verify
from lockbuild.transport.documents import kept_or_read
from lockbuild.transport.failures import ABSENT_HINT, NotFoundError

_LARGEST_RELEASE = 16 << 20
_LARGEST_INDEX = 256 << 20
_LARGEST_UNPACKED = 1 << 30
_MIRROR_HINT = 'set [debian] mirrors = ["https://…/debian"] in lockbuild\'s config.toml'


@dataclass(frozen=True, slots=True)
class Indexes:
    """A suite as it was believed: its ``release``, what the lock records of it, and the ``texts`` asked for."""

    release: Release
    suite: Suite
    texts: dict[str, bytes]


_KEPT = "what was kept of the Debian archive"
"""In the place of a mirror where its indexes are documents."""

Wanted = Callable[[Release], Sequence[str]]
"""The indexes to read, as paths below ``dists/<suite>/`` without a compression suffix; ResolveError where the
release cannot have them."""


def read_indexes(
    request: DebianBase | DebianSourceRequest,
    wanted: Wanted,
    context: ResolveContext,
    *,
    enough: Callable[[Suite], bool] = lambda suite: False,
) -> Indexes:
    """The signed indexes that ``wanted`` names for the suite of ``request``; none where the suite is ``enough``.

    Mirrors are tried in order; one that fails is reported as a warning. ResolveError where none is configured
    or the suite is expired; FetchError, IntegrityError as the last of them failed.
    """
    bases = (
        [_KEPT] if context.http.documents.find(_document(request)) is not None else _bases(request, context)
    )
    keyring = context.config.debian_keyring()
    require(keyring)  # no mirror can help where verifying is impossible
    failures: list[LockbuildError] = []
    for base in bases:
        try:
            return _read(base, request, wanted, enough, keyring, context)
        except (FetchError, IntegrityError, ResolveError) as error:
            failures.append(error)
            if len(bases) > 1:
                context.report(Note(f"{redact(base)} cannot be used: {error}", "warning"))
    # What the preferred mirror said is what its owner can mend; the others were warned about.
    raise failures[0]


def _document(request: DebianBase | DebianSourceRequest) -> str:
    """By this name the suite's signed index is kept; the indexes that it lists go by their digests."""
    return f"debian/{request.snapshot or 'now'}/dists/{request.suite}/InRelease"


def _bases(request: DebianBase | DebianSourceRequest, context: ResolveContext) -> list[str]:
    if request.snapshot is not None:
        service = context.config.snapshot_service()
        if service is None:
            raise ResolveError(
                f"no snapshot service is known, and the request wants the state of {request.snapshot}",
                on=request.suite,
                hint='set [debian] snapshot = "https://…/archive/debian" in lockbuild\'s config.toml',
            )
        return [snapshot_url(service, request.snapshot)]
    mirrors = context.config.debian_mirrors()
    if not mirrors:
        raise ResolveError("no mirror of the Debian archive is known", on=request.suite, hint=_MIRROR_HINT)
    return [mirror.rstrip("/") for mirror in mirrors]


def _read(
    base: str,
    request: DebianBase | DebianSourceRequest,
    wanted: Wanted,
    enough: Callable[[Suite], bool],
    keyring: Path,
    context: ResolveContext,
) -> Indexes:
    directory = f"{base}/dists/{request.suite}"
    on = f"{redact(directory)}/InRelease"
    signed = kept_or_read(
        context.http.documents,
        _document(request),
        lambda: _signed(directory, request.suite, context),
    )
    release = parse_release(verify(signed, keyring, on=on).text, on=on)
    moment, allow = context.now, context.allow_expired or request.allow_expired
    if request.snapshot is not None:
        # Whoever pins a moment wants what was valid at that moment, not today.
        moment = datetime.strptime(request.snapshot, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    expired = check_release(
        release,
        request.suite,
        at=moment,
        allow_expired=allow or context.config.accepts_expired(),
        on=on,
    )
    if expired and release.valid_until is not None:
        until = timestamp(release.valid_until)
        context.report(
            Note(
                f"{on} expired on {until}; accepted, because {_acceptance(context)} says so; the lock records it",
                "warning",
            )
        )
    suite = Suite(
        name=request.suite,
        codename=release.codename,
        date=timestamp(release.date),
        valid_until=timestamp(release.valid_until) if release.valid_until else None,
        expired="accepted" if expired else None,
        snapshot=request.snapshot,
        inrelease=context.store.add_blob(signed),
    )
    paths = [] if enough(suite) and not context.http.documents.recording else wanted(release)
    texts = {path: _index(directory, path, release, signed, context) for path in paths}
    return Indexes(release, suite, texts)


def _signed(directory: str, suite: str, context: ResolveContext) -> bytes:
    """Its signed index; NotFoundError, which says what that means, where the mirror has none."""
    try:
        return context.http.get(f"{directory}/InRelease", limit=_LARGEST_RELEASE)
    except NotFoundError as error:
        origin = context.config.setting_of(directory)
        raise NotFoundError(
            f"there is no suite {suite!r} there ({error.what})",
            on=error.on,
            hint="correct `suite` in the manifest, or name a mirror that has it"
            + (f" (this one is of {origin})" if origin else ""),
        ) from None


def _acceptance(context: ResolveContext) -> str:
    """Who says that an expired index is to be taken. What is said for all requests goes before one's own word."""
    if context.allow_expired:
        return "--allow-expired"
    if context.config.accepts_expired():
        own = context.config.debian.allow_expired is not None
        return (
            "[debian] allow-expired in lockbuild's config.toml"
            if own
            else "apt's configuration (Acquire::Check-Valid-Until)"
        )
    return "allow-expired in the request"


def _index(directory: str, path: str, release: Release, signed: bytes, context: ResolveContext) -> bytes:
    for suffix in SUFFIXES:
        listed = release.files.get(path + suffix)
        if listed is not None:
            break
    else:
        raise IntegrityError(f"it does not list {path}", on=f"{redact(directory)}/InRelease")
    on = f"{redact(directory)}/{path}{suffix}"
    data = _kept(listed, context)
    if data is None and directory.startswith(_KEPT):
        raise FetchError(
            f"{path}{suffix} was not kept with the signed index, and the network must not be used",
            on=directory,
            hint=f"the bundle was made of a manifest that did not need it: {ABSENT_HINT}",
        )
    if data is None:
        context.report(Started(on, f"index {release.codename} {path}", listed.size))
        try:
            data = _download(directory, path + suffix, listed, release, signed, context)
            context.report(Advanced(on, len(data)))
        finally:
            context.report(Finished(on))
        context.store.add_blob(data)
    context.http.documents.note(f"debian/index/{listed.sha256.hex}", data)
    plain = release.files.get(path)
    limit = min(plain.size if plain else _LARGEST_UNPACKED, _LARGEST_UNPACKED)
    text = decompress(data, suffix, limit=limit, on=on)
    if plain is not None and len(text) != plain.size:
        raise IntegrityError(f"it unpacks to {len(text)} bytes; the signed index says {plain.size}", on=on)
    return text


def _kept(listed: IndexFile, context: ResolveContext) -> bytes | None:
    if not context.store.has_blob(listed.sha256):
        return None
    try:
        return context.store.verified_blob(listed.sha256).read_bytes()
    except IntegrityError as error:
        context.report(Note(f"a kept index was damaged and is fetched again: {error.what}", "warning"))
        return None


def _download(
    directory: str, path: str, listed: IndexFile, release: Release, signed: bytes, context: ResolveContext
) -> bytes:
    """The bytes of the index at ``path``, which have the digest that the release lists."""
    if listed.size > _LARGEST_INDEX:
        raise IntegrityError(
            f"it has {listed.size} bytes; the most that is read is {_LARGEST_INDEX}",
            on=f"{redact(directory)}/{path}",
        )
    if release.by_hash:
        parent = path.rpartition("/")[0]
        url = f"{directory}/{parent}/by-hash/SHA256/{listed.sha256.hex}"
        try:
            return context.http.get(url, limit=listed.size, check=lambda data: _check(url, data, listed))
        except FetchError as error:
            # Mirrors made by copying often lack by-hash, whatever the release says.
            context.report(Note(f"no by-hash for {path}: {error.what}", "debug"))
    url = f"{directory}/{path}"
    sizes: list[int] = []

    def check(data: bytes) -> None:
        sizes.append(len(data))
        _check(url, data, listed)

    try:
        return context.http.get(url, limit=_LARGEST_INDEX, check=check)
    except IntegrityError:
        if sizes[-1] == listed.size and not _moved_on(directory, signed, context):
            raise
        raise _out_of_step(redact(url)) from None
    except FetchError:
        if _moved_on(directory, signed, context):
            raise _out_of_step(redact(url)) from None
        raise


def _check(url: str, data: bytes, listed: IndexFile) -> None:
    if Digest.of(data) != listed.sha256:
        raise _wrong_bytes(redact(url), data, listed)


def _moved_on(directory: str, signed: bytes, context: ResolveContext) -> bool:
    """Whether the mirror serves another InRelease by now."""
    try:
        return context.http.get(f"{directory}/InRelease", limit=_LARGEST_RELEASE) != signed
    except FetchError:
        return False


def _out_of_step(url: str) -> FetchError:
    return FetchError(
        "the mirror's index is not the one that its InRelease names: it is in the middle of an update",
        on=url,
        hint="try again in some minutes, or use another mirror",
    )


def _wrong_bytes(url: str, data: bytes, listed: IndexFile) -> IntegrityError:
    return IntegrityError(
        f"it has the digest {Digest.of(data)} ({len(data)} bytes); "
        f"the signed index says {listed.sha256} ({listed.size} bytes)",
        on=url,
        hint="the mirror, or a proxy before it, serves damaged files; use another one",
    )
