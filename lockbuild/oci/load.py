"""Bringing an image into an engine, once, and proving that it is the one that was computed.

Docker Engine API 1.41: ``POST /images/load``, ``GET /images/{name}/json``, ``GET /images/json``,
``POST /images/{name}/tag``.
"""

from __future__ import annotations

import http.client
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from lockbuild.errors import IntegrityError, SandboxError
from lockbuild.events import Advanced, Finished, Note, Reporter, Started
from lockbuild.model.digest import Digest
from lockbuild.model.environment import Environment
from lockbuild.oci.archive import ImageArchive, chunks_of
from lockbuild.oci.image import Image
from lockbuild.transport.engine import API_VERSION, EngineEndpoint

if TYPE_CHECKING:
    from typing_extensions import Buffer

_REPOSITORY = "lockbuild"


def loaded(endpoint: EngineEndpoint, config: Digest, manifest: Digest) -> Digest | None:
    """The ID under which the engine has the image: one of its two digests, by the kind of its store. A quick
    question: needs no tree."""
    for digest in (config, manifest):
        response = endpoint.request("GET", f"/images/{digest}/json")
        if response.status == 200:
            identity = response.json()["Id"]
            if identity in (str(config), str(manifest)):
                return Digest.parse(identity)
    return None


@dataclass(frozen=True, slots=True)
class LoadedImage:
    """What became of an image in an engine: ``identity`` to run it by (`SandboxSpec.image`), its tag, whether it was
    there ``before``, else how many bytes of how many layers were sent."""

    identity: Digest
    reference: str
    before: bool
    layers: int
    size: int


def engine_tag(name: str, image: Digest) -> str:
    """What an image with that ID (config digest) is called in an engine."""
    return f"{_REPOSITORY}/{repository_name(name)}:{image.short}"


def ensure_loaded(
    image: Image,
    environment: Environment,
    endpoint: EngineEndpoint,
    report: Reporter,
    *,
    name: str = "environment",
) -> Digest:
    """As `load`; the ID to run the image by."""
    return load(image, environment, endpoint, report, name=name).identity


def load(
    image: Image,
    environment: Environment,
    endpoint: EngineEndpoint,
    report: Reporter,
    *,
    name: str = "environment",
) -> LoadedImage:
    """Load ``image``, whose layers are not compressed, where the engine does not have it.

    It gets the tag ``lockbuild/<name>:<digest's first digits>``, so that ``docker image prune`` keeps it.
    Layers that the engine has from an earlier environment are not sent again.
    IntegrityError where what the engine made of it is not that image; SandboxError where it refuses.
    """
    present = loaded(endpoint, image.config_digest, image.manifest_digest)
    reference = default_reference(name, image.config_digest)
    if present is not None:
        tag(endpoint, present, reference)
        return LoadedImage(present, reference, True, 0, 0)
    skip = _layers_present(endpoint, image)
    if skip:
        report(Note(f"the engine already has {skip} of {len(image.diff_ids)} layers", "debug"))
    try:
        _load(image, environment, endpoint, reference, report, skip)
    except SandboxError as error:
        if not skip:
            raise
        report(Note(f"sending all layers, because the engine did not do without: {error.what}", "debug"))
        skip = 0
        _load(image, environment, endpoint, reference, report, skip)
    present = loaded(endpoint, image.config_digest, image.manifest_digest)
    if present is None:
        answer = endpoint.request("GET", f"/images/{quote(reference)}/json")
        found = answer.json()["Id"] if answer.status == 200 else "nothing"
        raise IntegrityError(
            f"the engine made {found} of the image; it must be {image.config_digest}"
            f" (classic store) or {image.manifest_digest} (containerd store)",
            on=reference,
            hint="remove the image from the engine and run `lockbuild sync` again",
        )
    return LoadedImage(present, reference, False, len(image.layers) - skip, sum(image.sizes[skip:]))


def default_reference(name: str, digest: Digest) -> str:
    """What the image ``digest`` of a toolchain called ``name`` is tagged with."""
    return f"{_REPOSITORY}/{repository_name(name)}:{digest.short}"


def _load(
    image: Image,
    environment: Environment,
    endpoint: EngineEndpoint,
    reference: str,
    report: Reporter,
    skip: int,
) -> None:
    key = f"load:{image.config_digest}"
    archive = ImageArchive([image], [reference], reference, chunks_of(None, [environment]), skip=skip)
    left = sum(image.sizes[skip:])
    report(Started(key, f"load {reference}", left))
    # No time limit: the engine unpacks everything before it answers.
    connection = endpoint.connect(None)
    try:
        connection.putrequest("POST", f"/v{API_VERSION}/images/load?quiet=1")
        connection.putheader("Content-Type", "application/x-tar")
        connection.putheader("Transfer-Encoding", "chunked")
        connection.endheaders()

        def write(data: Buffer) -> None:
            nonlocal left
            size = memoryview(data).nbytes
            if size:
                connection.send(b"%x\r\n" % size)
                connection.send(data)
                connection.send(b"\r\n")
                # The headers between the layers are not in the total.
                report(Advanced(key, min(size, left)))
                left -= min(size, left)

        cut_off: OSError | None = None
        try:
            archive.write(write)
            connection.send(b"0\r\n\r\n")
        except OSError as error:
            # An engine that gives up early says why in its answer.
            cut_off = error
        _check_answer(connection, endpoint, cut_off)
    finally:
        connection.close()
        report(Finished(key))


def _check_answer(
    connection: http.client.HTTPConnection, endpoint: EngineEndpoint, cut_off: OSError | None
) -> None:
    try:
        response = connection.getresponse()
        body = response.read()
    except (OSError, http.client.HTTPException) as error:
        raise SandboxError(
            f"the container engine broke off while it loaded the image: {cut_off or error}",
            on=endpoint.url,
            hint="see the engine's log; is its disk full?",
        ) from error
    # A failure comes with status 200 when it happens after the answer has begun.
    failure = None if response.status == 200 else body.decode("utf-8", "replace")[:500]
    for line in body.splitlines():
        try:
            message = json.loads(line)
        except ValueError:
            continue
        if isinstance(message, dict):
            failure = message.get("error") or failure
    if failure is None and cut_off is not None:
        failure = str(cut_off)
    if failure is not None:
        raise SandboxError(
            f"the container engine could not load the image: {failure.strip()}", on=endpoint.url
        )


def _layers_present(endpoint: EngineEndpoint, image: Image) -> int:
    """How many of the image's first layers the engine has from images of ours, as the same chain.

    Docker (20.10 to 28, with both kinds of store) and Podman (4.3) do without the files of layers that they have.
    """
    filters = urlencode({"filters": json.dumps({"reference": [f"{_REPOSITORY}/*"]})})
    wanted = [str(diff_id) for diff_id in image.diff_ids]
    longest = 0
    for summary in endpoint.request("GET", f"/images/json?{filters}").json():
        answer = endpoint.request("GET", f"/images/{summary['Id']}/json")
        if answer.status != 200:
            continue
        layers = answer.json()["RootFS"].get("Layers") or []
        common = 0
        while common < min(len(layers), len(wanted)) and layers[common] == wanted[common]:
            common += 1
        longest = max(longest, common)
    return longest


def tag(endpoint: EngineEndpoint, identity: Digest, reference: str) -> None:
    """Have the image be called ``reference`` (``name:tag``), too."""
    repository, _, name = reference.rpartition(":")
    query = urlencode({"repo": repository, "tag": name})
    answer = endpoint.request("POST", f"/images/{identity}/tag?{query}")
    if answer.status not in (200, 201):
        raise SandboxError(f"the container engine refused a tag: {answer.body[:200]!r}", on=reference)


def repository_name(name: str) -> str:
    """``name`` in the grammar of repository names (distribution specification): lower case, single separators."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "environment"
