"""What goes into a bundle: the contents that a lock and the options come to, and the layers and images of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from lockbuild.amounts import amount, count
from lockbuild.errors import FetchError, UsageError
from lockbuild.events import Note
from lockbuild.model.belonging import tree_names
from lockbuild.model.digest import Digest
from lockbuild.model.lock import Lock, Source
from lockbuild.model.lockfile import dumps, loads
from lockbuild.model.platform import Platform
from lockbuild.oci.bundle.contents import (
    Blob,
    BundledImage,
    BundledSource,
    BundledTree,
    Contents,
    Document,
    Purpose,
    image_manifest,
)
from lockbuild.oci.encoders import Compression, encoder
from lockbuild.oci.layers import EncodedLayer, encode
from lockbuild.oci.sizes import layer_size
from lockbuild.store.sources import source_blob
from lockbuild.workflow.bundle.needs import Needs, With, needs
from lockbuild.workflow.image import compressed_image
from lockbuild.workflow.project import Project
from lockbuild.workflow.sync import Synced
from lockbuild.workflow.toolchains import read_text
from lockbuild.workflow.workspace import Workspace

if TYPE_CHECKING:
    from lockbuild.store import Store

_SHRINKS = {"none": 1.0, "gzip": 0.33, "zstd": 0.3}
"""What layers of toolchains come to, for the forecast."""


@dataclass(frozen=True, slots=True)
class BundleOptions:
    """``platforms`` is by default this machine's. ``since`` is a lock or a bundle, what that has is left out.
    ``image`` insists on the image of each platform, in a ``compression`` that is not given as every engine reads it.
    ``split`` is in bytes."""

    purpose: Purpose = "offline-sync"
    what: With = "trees"
    platforms: tuple[Platform, ...] = ()
    chosen_compression: Compression | None = None
    since: Path | None = None
    image: bool = False
    signatures: bool = False
    split: int | None = None

    @property
    def compression(self) -> Compression:
        """Of the layers: Docker before 23 does not know zstd."""
        return self.chosen_compression or ("gzip" if self.image else "zstd")


@dataclass(frozen=True, slots=True)
class Base:
    """What the other site has: the digest of its lock, and those of what that needs."""

    lock: Digest
    trees: frozenset[Digest]
    sources: frozenset[Digest]
    documents: frozenset[Digest] = frozenset()


def contents_of(
    workspace: Workspace,
    project: Project,
    lock: Lock,
    platforms: Sequence[Platform],
    needed: Needs,
    base: Base | None,
    synced: dict[Platform, Synced],
    options: BundleOptions,
) -> tuple[Contents, dict[Platform, bytes], dict[Digest, EncodedLayer]]:
    """The contents, with the configurations of its images, and the layers that it holds by their trees.

    Everything ``needed`` is in the store. What ``base`` has is left out.
    """
    store = workspace.store
    have = frozenset() if base is None else base.trees
    sizes = {digest: layer_size(digest, store.tree_path(digest)) for digest in needed.trees}
    sources = _sources(store, needed.sources, frozenset() if base is None else base.sources)
    _forecast(workspace, [sizes[d] for d in needed.trees if d not in have], sources, options.compression)
    layers = {
        digest: encode(
            store,
            digest,
            store.tree_path(digest),
            options.compression,
            name=names[0],
            report=workspace.report,
        )
        for digest, names in needed.trees.items()
        if digest not in have
    }
    trees = [
        BundledTree(
            names=names,
            digest=digest,
            size=sizes[digest],
            layer=Blob(digest=layers[digest].digest, size=layers[digest].size) if digest in layers else None,
        )
        for digest, names in needed.trees.items()
    ]
    text = dumps(lock).encode()
    contents = Contents(
        for_=options.purpose,
        platforms=list(platforms),
        compression=options.compression,
        encoder=encoder(options.compression),
        lock=Blob(digest=Digest.of(text), size=len(text)),
        since=None if base is None else base.lock,
        trees=trees,
        sources=sources,
        signatures=_signatures(store, lock) if options.signatures else [],
        documents=_documents(
            workspace, project, lock, platforms, frozenset() if base is None else base.documents
        )
        if options.purpose == "offline-lock"
        else [],
    )
    configs = _images(workspace, project, lock, synced, layers, options.compression)
    if options.image and set(configs) != set(platforms):
        raise UsageError(
            "the lock does not record the image of every platform",
            on=str(project.paths.lock),
            hint="run `lockbuild lock --materialise`",
        )
    images = []
    for platform, config in sorted(configs.items()):
        data = image_manifest(contents, config)
        images.append(
            BundledImage(
                platform=platform,
                config=Blob(digest=Digest.of(config), size=len(config)),
                manifest=Blob(digest=Digest.of(data), size=len(data)),
            )
        )
    return contents.model_copy(update={"images": images}), configs, layers


def _images(
    workspace: Workspace,
    project: Project,
    lock: Lock,
    synced: dict[Platform, Synced],
    layers: dict[Digest, EncodedLayer],
    compression: Compression,
) -> dict[Platform, bytes]:
    """The configurations of the images that the lock records and whose layers are all there."""
    return {
        platform: compressed_image(workspace, project, lock, made.environment, compression).config
        for platform, made in sorted(synced.items())
        if str(platform) in lock.environments
        and all(tree.digest in layers for tree in made.environment.trees)
    }


def _sources(store: Store, sources: Iterable[Source], have: frozenset[Digest]) -> list[BundledSource]:
    purls: dict[Digest, set[str]] = {}
    for source in sources:
        purls.setdefault(source_blob(store, source), set()).add(source.purl)
    return [
        BundledSource(
            purls=sorted(purls[digest]),
            digest=digest,
            size=store.blob_path(digest).stat().st_size,
            held=digest not in have,
        )
        for digest in sorted(purls)
    ]


def _signatures(store: Store, lock: Lock) -> list[Blob]:
    found = []
    for digest in sorted({suite.inrelease for suite in lock.suites}):
        if not store.has_blob(digest):
            (suite, *_) = [suite for suite in lock.suites if suite.inrelease == digest]
            raise FetchError(
                f"the store does not have the signed index of {suite.name} of {suite.date}",
                on=str(digest),
                hint="it is where the lock was made: make the bundle there, or without --signatures",
            )
        found.append(Blob(digest=digest, size=store.blob_path(digest).stat().st_size))
    return found


def _documents(
    workspace: Workspace,
    project: Project,
    lock: Lock,
    platforms: Sequence[Platform],
    have: frozenset[Digest],
) -> list[Document]:
    """What is read to resolve all of the manifest, as it is today. What nobody publishes a digest of stays as it is
    locked."""
    from lockbuild.transport.git.kept import RecordingRepositories
    from lockbuild.workflow.consistency import check_consistency
    from lockbuild.workflow.documents import RecordedDocuments
    from lockbuild.workflow.resolving import LockOptions, resolve_all

    recorder = RecordedDocuments(workspace.store)
    recording = replace(workspace, recorder=recorder)
    workspace.report(Note("reading everything that resolving needs"))
    options = LockOptions(allow_expired=any(suite.expired is not None for suite in lock.suites))
    try:
        names = [name for name in tree_names(project.manifest) if not name.startswith("derive.")]
        resolved = resolve_all(recording, project, options, lock, names, platforms)
        check_consistency(recording, project, resolved)
        if isinstance(recording.git, RecordingRepositories):
            recording.git.note_objects()
    finally:
        recording.close()
    return [
        Document(name=name, digest=digest, size=size, held=digest not in have)
        for name, (digest, size) in recorder.noted.items()
    ]


def _forecast(
    workspace: Workspace, trees: Sequence[int], sources: Sequence[BundledSource], compression: Compression
) -> None:
    held = [source.size for source in sources if source.held]
    expected = sum(trees) * _SHRINKS[compression] + sum(held)
    workspace.report(
        Note(
            f"{count(len(trees), 'tree')} of {amount(sum(trees))}, {count(len(held), 'source')} of "
            f"{amount(sum(held))}: the bundle will have about {amount(int(expected))}"
        )
    )


def base_of(file: Path, platforms: Sequence[Platform], what: With) -> Base:
    """What whoever has the lock or the bundle ``file`` has."""
    from lockbuild.workflow.bundle.files import is_bundle, read_bundle

    if is_bundle(file):
        with read_bundle([file], head_only=True) as reader:
            contents = reader.contents
        return Base(
            contents.lock.digest,
            frozenset(tree.digest for tree in contents.trees),
            frozenset(source.digest for source in contents.sources),
            frozenset(document.digest for document in contents.documents),
        )
    text = read_text(file)
    if text is None:
        raise UsageError("there is no such lock or bundle", on=str(file))
    try:
        lock = loads(text, str(file))
    except UsageError as error:
        raise UsageError(
            f"is neither a lock nor a bundle that can be read: {error.what}",
            on=f"--since {file}",
            hint=error.hint or "name the lockbuild.lock, or the bundle, that the other site has",
        ) from None
    found = needs(lock, platforms, what)
    return Base(
        Digest.of(text.encode()),
        frozenset(found.trees),
        frozenset(source.sha256 for source in found.sources if source.sha256 is not None),
    )
