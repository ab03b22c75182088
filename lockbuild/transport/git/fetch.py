"""Fetches from one place into a cached repository: references, a commit with its trees, files by their ids.

A server may know neither partial clones nor single objects by id: then more comes than was asked for, never less.
A transfer that breaks is tried again, one that comes to nothing for too long is ended.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from pathlib import Path

from lockbuild.config.urls import redact
from lockbuild.errors import IntegrityError
from lockbuild.events import Advanced, Finished, Note, Reporter, Started
from lockbuild.transport.failures import NotFoundError, UnreachableError
from lockbuild.transport.git.cache import COMMITS, CachedRepository
from lockbuild.transport.git.objects import absent
from lockbuild.transport.git.place import REMOTE, LimitedError, Surroundings, full_disk, local_path
from lockbuild.transport.git.process import Git, GitFailedError
from lockbuild.transport.git.refs import parse

_PAUSE = 0.5
_FETCH = (
    *("fetch", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance", "--no-recurse-submodules"),
    "--progress",
)
_EVERYTHING = ("+refs/heads/*:refs/all/heads/*", "+refs/tags/*:refs/all/tags/*")
_PROGRESS = re.compile(r"Receiving objects: +\d+% \((\d+)/(\d+)\)")
_UNSOUND = re.compile(
    r"(?:error|fatal): .*?(object [0-9a-f]{40}: .*|fsck error.*|invalid .*pack.*|pack .*corrupt.*)"
)


class GitFetch:
    """Fetches from ``place``; ``timeout`` in seconds, ``retries`` after the first attempt."""

    def __init__(
        self,
        git: Git,
        surroundings: Surroundings,
        place: str,
        *,
        timeout: float,
        retries: int,
        report: Reporter,
    ) -> None:
        self._git = git
        self._surroundings = surroundings
        self._place = place
        self._timeout = timeout
        self._retries = retries
        self._report = report

    def list(self, pattern: str | None = None) -> bytes:
        """What ``ls-remote`` says of tags and branches, or of the references that match ``pattern``."""
        which = ["--", REMOTE, pattern, f"{pattern}^{{}}"] if pattern else ["--heads", "--tags", "--", REMOTE]
        return self._run(["ls-remote", "--quiet", *which], None)

    def commit(self, repository: CachedRepository, commit: str) -> None:
        """The commit and its trees, and a reference to it; files too where the server cannot leave them out."""
        shallow = [*_FETCH, "--depth=1", "--filter=blob:none", "--", REMOTE]
        try:
            self._run([*shallow, f"+{commit}:{COMMITS}{commit}"], repository.path)
        except NotFoundError:
            # It is not there, or the server gives only what its references name.
            named = self._reference_to(commit)
            if named is not None:
                self._run([*shallow, f"+{named}:{COMMITS}{commit}"], repository.path)
            elif not self._among_all(repository.path, commit, ["--filter=blob:none"]):
                raise
        except LimitedError:
            if not self._among_all(repository.path, commit, []):
                raise
        self._confirm(repository, commit)

    def blobs(self, repository: CachedRepository, commit: str, object_ids: Sequence[str]) -> None:
        """Files by their ids; ``commit`` has them."""
        arguments = [*_FETCH, "--filter=blob:none", "--stdin", "--", REMOTE]
        wanted = "".join(f"{oid}\n" for oid in object_ids).encode()
        try:
            self._run(arguments, repository.path, stdin=wanted, more={"fetch.negotiationAlgorithm": "noop"})
        except NotFoundError as error:
            if "unadvertised" not in error.what:
                raise
            whole = ["--no-filter", "--refetch"]
            named = self._reference_to(commit)
            if named is not None:
                reference = f"+{named}:{COMMITS}{commit}"
                self._run([*_FETCH, *whole, "--depth=1", "--", REMOTE, reference], repository.path)
            elif not self._among_all(repository.path, commit, whole):
                raise

    def history(self, repository: CachedRepository, commit: str) -> None:
        """The commit with all before it, and every tag as it stands now; no trees where the server can do that."""
        without_trees = [*(word for word in _FETCH if word != "--no-tags"), "--prune", "--filter=tree:0"]
        tags = "+refs/tags/*:refs/tags/*"
        # Old commits of honest repositories have faults that git of today would not make. They are not unpacked.
        more = {f"remote.{REMOTE}.partialclonefilter": "tree:0", "fetch.fsckObjects": "false"}
        reference = f"+{commit}:{COMMITS}{commit}"
        try:
            self._run([*without_trees, "--", REMOTE, reference, tags], repository.path, more=more)
        except (NotFoundError, LimitedError):
            arguments = [*without_trees, "--", REMOTE, "+refs/heads/*:refs/all/heads/*", tags]
            self._run(arguments, repository.path, more=more)
            if not self._refer(repository.path, commit):
                raise
        self._confirm(repository, commit)

    def _among_all(self, path: Path, commit: str, options: Sequence[str]) -> bool:
        """Fetch all branches and tags, for a server that gives nothing else; whether the commit is among that."""
        try:
            self._run([*_FETCH, *options, "--", REMOTE, *_EVERYTHING], path)
        except NotFoundError:
            return False
        return self._refer(path, commit)

    def _refer(self, path: Path, commit: str) -> bool:
        if absent(self._git, path, [commit]):
            return False
        self._git.run(["update-ref", "--no-deref", f"{COMMITS}{commit}", commit], repository=path)
        return True

    def _reference_to(self, commit: str) -> str | None:
        refs = parse(self.list(), redact(self._place))
        return next((name for name in sorted(refs) if refs[name] == commit), None)

    def _confirm(self, repository: CachedRepository, commit: str) -> None:
        """The reference is to the commit that was asked for, whatever the server calls what it sent."""
        reference = repository.path / COMMITS / commit
        try:
            found = reference.read_text().strip()
        except OSError:
            found = "nothing"
        if found != commit:
            reference.unlink(missing_ok=True)
            raise IntegrityError(
                f"the server sent {found} in the place of the commit {commit}", on=redact(self._place)
            )

    def _run(
        self,
        arguments: Sequence[str],
        repository: Path | None,
        *,
        stdin: bytes = b"",
        more: dict[str, str] | None = None,
    ) -> bytes:
        local = local_path(self._place)
        if local is not None and not local.exists():
            raise NotFoundError("there is no such repository", on=redact(self._place))
        settings = {
            **self._surroundings.settings(self._place),
            **(more or {}),
        }
        attempt = 0
        while True:
            progress = _Progress(self._place, self._report)
            try:
                return self._git.run(
                    arguments,
                    repository=repository,
                    settings=settings,
                    stdin=stdin,
                    patience=max(2 * self._timeout, 2.0),
                    said=progress.line,
                )
            except GitFailedError as failure:
                error = self._failed(failure, repository)
                if not isinstance(error, UnreachableError) or attempt >= self._retries:
                    raise error from None
                self._report(Note(f"{redact(self._place)}: {error.what}; trying again", level="debug"))
            finally:
                progress.finish()
            time.sleep(_PAUSE * 2**attempt)
            attempt += 1

    def _failed(self, failure: GitFailedError, repository: Path | None) -> Exception:
        if (unsound := _UNSOUND.search(failure.text)) and "not our ref" not in failure.text:
            return IntegrityError(
                f"what the repository sends is not sound: {unsound[1]}",
                on=redact(self._place),
                hint="do not use this repository; tell its publisher",
            )
        if repository is not None and (full := full_disk(failure, repository)):
            return full
        return self._surroundings.failure(self._place, failure)


class _Progress:
    """Turns git's progress into ours."""

    def __init__(self, place: str, report: Reporter) -> None:
        self._key = f"git:{place}"
        self._label = redact(place).rpartition("/")[2] or place
        self._report = report
        self._shown: int | None = None

    def line(self, text: str) -> None:
        found = _PROGRESS.search(text)
        if found is None:
            return
        done, total = int(found[1]), int(found[2])
        if self._shown is None:
            self._report(Started(self._key, f"fetching {self._label}", total, "items"))
            self._shown = 0
        if done > self._shown:
            self._report(Advanced(self._key, done - self._shown))
            self._shown = done

    def finish(self) -> None:
        if self._shown is not None:
            self._report(Finished(self._key))
            self._shown = None
