"""The images as a registry that can be pulled from: ``/v2/…``. OCI distribution specification 1.1.

Pulling, listing tags and the (empty) list of referrers; whatever would change something is UNSUPPORTED.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import parse_qs, quote

from lockbuild.model.digest import Digest
from lockbuild.serve.blobs import Blobs
from lockbuild.serve.images import INDEX_TYPE, Document, Images, ServedRepository
from lockbuild.serve.library import Library
from lockbuild.serve.message import Answer, Content, Data, Request, as_json

_MOST = 1000


class Registry:
    """Answers below ``/v2``. Thread-safe."""

    def __init__(self, images: Images, blobs: Blobs) -> None:
        self._images = images
        self._blobs = blobs

    def names(self, library: Library) -> list[str]:
        """The repositories that there are, sorted."""
        return sorted(known.name for known in library.locks if self._images.repository(known) is not None)

    def answer(self, library: Library, segments: Sequence[str], request: Request) -> Answer:
        """A document, a blob or a list."""
        answer = self._answer(library, segments, request)
        return answer.having(Docker_Distribution_Api_Version="registry/2.0")

    def _answer(self, library: Library, segments: Sequence[str], request: Request) -> Answer:
        if request.method not in ("GET", "HEAD"):
            return _error(405, "UNSUPPORTED", "this registry can only be read").having(Allow="GET, HEAD")
        match list(segments):
            case [] | [""]:
                return as_json({})
            case ["_catalog"]:
                return _listed(request, "_catalog", "repositories", self.names(library), {})
        if len(segments) < 3:
            return _error(404, "NAME_UNKNOWN", "there is no such repository")
        *name, kind, wanted = segments
        known = next((known for known in library.locks if known.name == "/".join(name)), None)
        repository = None if known is None else self._images.repository(known)
        if known is None or repository is None:
            return _error(
                404, "NAME_UNKNOWN", "no known lock's image is called so, or the store lacks its layers"
            )
        match kind, wanted:
            case "tags", "list":
                return _listed(request, "list", "tags", sorted(repository.tags), {"name": known.name})
            case "manifests", reference:
                return _manifest(repository, reference)
            case "blobs", digest:
                return self._blob(repository, digest, request)
            case "referrers", _:
                empty = {"manifests": [], "mediaType": INDEX_TYPE, "schemaVersion": 2}
                return as_json(empty, INDEX_TYPE)
        return _error(404, "UNSUPPORTED", "there is no such thing here")

    def _blob(self, repository: ServedRepository, wanted: str, request: Request) -> Answer:
        try:
            digest = Digest.parse(wanted)
        except ValueError:
            return _error(400, "DIGEST_INVALID", "that is no SHA-256 digest")
        config = repository.configs.get(digest)
        if config is not None:
            return _document(config, Data(config.data))
        answer: Answer | None = None
        if digest in repository.trees:
            answer = self._blobs.tree_answer(digest)
        elif digest in repository.blobs:
            answer = self._blobs.answer(digest)
        if answer is None:
            return _error(404, "BLOB_UNKNOWN", "no image of this repository has it")
        return answer.having(Docker_Content_Digest=str(digest))


def _manifest(repository: ServedRepository, reference: str) -> Answer:
    document = repository.tags.get(reference)
    if ":" in reference:
        try:
            document = repository.manifests.get(Digest.parse(reference))
        except ValueError:
            return _error(400, "DIGEST_INVALID", "that is no SHA-256 digest")
    if document is None:
        return _error(404, "MANIFEST_UNKNOWN", "no image of this repository is called so")
    return _document(document, Data(document.data))


def _document(document: Document, content: Content) -> Answer:
    answer = Answer(content, document.media_type, etag=document.digest.hex)
    return answer.having(Docker_Content_Digest=str(document.digest))


def _listed(request: Request, place: str, key: str, items: Sequence[str], more: dict[str, str]) -> Answer:
    """A part of a list, as ``n`` and ``last`` ask for it, with a link to the next one."""
    try:
        query = parse_qs(request.query, max_num_fields=10)
    except ValueError:
        return _error(400, "UNSUPPORTED", "that is no query of a list")
    last = query.get("last", [""])[0]
    wanted = query.get("n", [""])[0]
    most = min(int(wanted), _MOST) if wanted.isascii() and wanted.isdecimal() and len(wanted) < 10 else _MOST
    rest = [item for item in items if item > last]
    answer = as_json({**more, key: rest[:most]})
    if most and len(rest) > most:
        return answer.having(Link=f'<{place}?n={most}&last={quote(rest[most - 1])}>; rel="next"')
    return answer


def _error(status: int, code: str, message: str) -> Answer:
    import json

    value = {"errors": [{"code": code, "message": message}]}
    return Answer(Data(json.dumps(value).encode()), "application/json", status)
