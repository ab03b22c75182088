"""Leads each request to the module that answers it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from lockbuild.events import Reporter
from lockbuild.serve.blobs import Blobs
from lockbuild.serve.by_digest import digest_answer, file_answer, url_answer
from lockbuild.serve.debian import DebianArchive
from lockbuild.serve.git_http import GitService
from lockbuild.serve.git_view import GitViews
from lockbuild.serve.images import Images
from lockbuild.serve.library import Library
from lockbuild.serve.message import Answer, Request, absent, text
from lockbuild.serve.page import Offer, page
from lockbuild.serve.pypi import PythonIndex
from lockbuild.serve.registry import Registry
from lockbuild.store import Store


class Site:
    """Everything that is served: what the ``library`` of the moment names, out of ``store``.

    ``scratch`` is a directory of its own, for the views of git repositories. Thread-safe.
    """

    def __init__(self, library: Callable[[], Library], store: Store, scratch: Path, report: Reporter) -> None:
        self._library = library
        self._blobs = Blobs(store, report)
        self._debian = DebianArchive(self._blobs)
        self._views = GitViews(store.root / "git", scratch, report)
        self._git = GitService(self._views, report)
        self._index = PythonIndex(self._blobs)
        self._registry = Registry(Images(store, report), self._blobs)

    def answer(self, request: Request) -> Answer:
        """The answer to a request."""
        library = self._library()
        first, *rest = request.segments
        if first in ("url", "git"):
            answer = self._by_url(library, tuple(rest), request, any_scheme=first == "git")
        elif first == "v2":
            return self._registry.answer(library, rest, request)
        else:
            answer = None
        if answer is not None:
            return answer
        if request.method == "POST":
            return text("only reading is possible here", 405).having(Allow="GET, HEAD")
        match [first, *rest]:
            case [""]:
                return page(self.offer(library), request.base)
            case ["healthz"]:
                return text("ok").having(Cache_Control="no-store")
            case ["sha256" | "sha512" as algorithm, name] | ["blobs", "sha256" | "sha512" as algorithm, name]:
                return digest_answer(library, self._blobs, algorithm, name)
            case ["url", *where]:
                return url_answer(library, self._blobs, tuple(where), request)
            case ["npm", *where]:
                return file_answer(self._blobs, library.npm.get("/".join(where)))
            case ["pypi", *where]:
                return self._index.answer(library, where, request)
            case ["debian", *where]:
                return self._debian.answer(library, where)
        return absent("there is no such place; / says what there is")

    def offer(self, library: Library) -> Offer:
        """What there is, for the page."""
        return Offer(
            library=library,
            missing=sum(not self._blobs.has(digest) for digest in library.by_sha256),
            images=tuple(self._registry.names(library)),
            signed=tuple(
                sorted(name for name, suite in self._debian.signed_suites(library).items() if suite.usable)
            ),
            commits={
                repository.url: (tuple(self._views.present(repository)), len(repository.commits))
                for _, repository in sorted(library.repositories.items())
            },
        )

    def stop(self) -> None:
        """End what was started for requests."""
        self._views.stop()

    def _by_url(
        self, library: Library, rest: tuple[str, ...], request: Request, *, any_scheme: bool
    ) -> Answer | None:
        if not any_scheme:
            return self._git.answer(library, rest, request)
        for scheme in ("https", "http"):
            answer = self._git.answer(library, (scheme, *rest), request)
            if answer is not None:
                return answer
        return absent("no known lock names a commit of that repository")
