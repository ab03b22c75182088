"""A repository of a registry as a cache: trees, source files and outputs in both directions, all verified.

What comes from it is bound by a digest that the lock has: so whoever may write to it can make a sync slower, and
nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from lockbuild.errors import IntegrityError
from lockbuild.events import Reporter
from lockbuild.model.digest import Digest
from lockbuild.model.image import Descriptor
from lockbuild.model.lock import Source
from lockbuild.model.outcome import BuiltFile
from lockbuild.model.reference import Reference
from lockbuild.oci.artefacts import (
    Artefact,
    only_layer,
    outputs_artefact,
    source_artefact,
    source_tag,
    tree_artefact,
    tree_tag,
)
from lockbuild.oci.image import MANIFEST_TYPE
from lockbuild.oci.layers import decode, encode, layer_chunks
from lockbuild.store.sources import source_blob
from lockbuild.transport.failures import NotFoundError
from lockbuild.transport.transfers import Transfers

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from lockbuild.store import Store
    from lockbuild.transport.registry.registries import Registries

_PIECE = 1 << 20


class CacheRepository:
    """The cache in the repository of ``reference``. Thread-safe. What the network does wrong is a TransferError.

    With ``replace`` what is pushed takes the place of what is there.
    """

    def __init__(
        self,
        registries: Registries,
        reference: Reference,
        store: Store,
        transfers: Transfers,
        report: Reporter,
        *,
        replace: bool = False,
    ) -> None:
        self.reference = reference
        self._replace = replace
        self._registries = registries
        self._store = store
        self._transfers = transfers
        self._report = report
        self._wrong: set[str] = set()

    def __str__(self) -> str:
        return self.reference.name

    def reach(self) -> bool:
        """True; UnreachableError where its registry does not answer at once."""
        self._registries.reach(self.reference)
        return True

    def has_credentials(self) -> bool:
        """Whether there are credentials for its registry."""
        return self._registries.has_credentials(self.reference)

    # Reading: False where the repository does not have it; IntegrityError where what it has is something else

    def fetch_tree(self, digest: Digest, name: str) -> bool:
        """Make the tree in the store. ``name`` is what progress and messages call it."""
        where = self.reference.at(tree_tag(digest))
        try:
            layer = only_layer(self._registries.manifest(where).body, on=str(where))
            chunks = self._registries.chunks(where, layer.digest, layer.size, transfers=self._transfers)
            decode(self._store, chunks, digest, name=name, report=self._report, size=layer.size)
        except NotFoundError:
            return False
        except IntegrityError as error:
            raise self._wrong_one(where, name, error) from error
        return True

    def fetch_source(self, source: Source) -> bool:
        """Bring the file of ``source`` into the store. What only a commit binds is no file that could be verified."""
        if source.sha256 is not None:
            return self.fetch_file(source.sha256, source.size, file_name(source))
        if source.sha512 is not None:
            return self._fetch_bound(source.identity, source.sha512, source.size)
        return False

    def fetch_file(self, digest: Digest, size: int | None, name: str) -> bool:
        """Bring the blob into the store; the registry is asked for it by its digest alone."""
        try:
            self._registries.fetch_blob(
                self.reference, digest, self._store, size=size, label=name, transfers=self._transfers
            )
        except NotFoundError:
            return False
        return True

    def _fetch_bound(self, identity: Digest, sha512: str, size: int | None) -> bool:
        """A file that the lock knows by its SHA-512 (hexadecimal digits)."""
        from lockbuild.store.partial import Binding

        where = self.reference.at(source_tag(identity))
        try:
            layer = only_layer(self._registries.manifest(where).body, on=str(where))
            if size is not None and layer.size != size:
                raise IntegrityError(f"has {layer.size} bytes, the lock says {size}", on=str(where))
            with self._store.partial(Binding(identity, layer.digest, sha512)) as partial:
                if not partial.complete:
                    partial.restart()
                    for chunk in self._registries.chunks(
                        where, layer.digest, layer.size, transfers=self._transfers
                    ):
                        partial.write(chunk)
                    partial.commit()
        except NotFoundError:
            return False
        except IntegrityError as error:
            raise self._wrong_one(where, identity.short, error) from error
        return True

    # Writing: whether anything had to be sent

    def push_tree(self, digest: Digest, root: Path, name: str) -> bool:
        """Let the cache have a tree."""
        if self._has(tree_tag(digest)):
            return False
        layer = encode(self._store, digest, root, "zstd", name=name, report=self._report)
        artefact = tree_artefact(layer)
        return self._push(artefact, lambda _: layer_chunks(self._store, layer, None, name=name), name)

    def push_source(self, source: Source) -> bool:
        """Let the cache have the file of ``source``, which the store must have."""
        digest = source_blob(self._store, source)
        size = self._store.blob_path(digest).stat().st_size
        name = file_name(source)
        artefact = source_artefact(source.sha256 or source.identity, digest, size, name)
        if self._has(artefact.tag):
            return False
        return self._push(artefact, lambda _: self._blob(digest), name)

    def push_outputs(
        self,
        input_digest: Digest,
        target: str,
        platform: str,
        files: Iterable[BuiltFile],
        directory: Path | None,
    ) -> bool:
        """Let the cache have a target's outputs, from ``directory`` or else from the store's blobs."""
        built = list(files)
        artefact = outputs_artefact(input_digest, target, platform, built)
        if self._has(artefact.tag):
            return False
        paths = {file.sha256: file.path for file in built}

        def chunks(layer: Descriptor) -> Iterable[Buffer]:
            if directory is None:
                return self._blob(layer.digest)
            return _pieces(directory / paths[layer.digest])

        return self._push(artefact, chunks, f"outputs of {target}")

    def _wrong_one(self, where: Reference, name: str, error: IntegrityError) -> IntegrityError:
        self._wrong.add(where.target)
        return IntegrityError(
            f"what it has for {name} is something else: {error.what}",
            on=str(where),
            hint="do without this cache, and tell whoever runs it; `lockbuild cache push --replace` mends it",
        )

    def _has(self, tag: str) -> bool:
        """Whether it has it already; what was found to be wrong is written anew."""
        if self._replace or tag in self._wrong:
            return False
        return self._registries.has_manifest(self.reference.at(tag))

    def _push(self, artefact: Artefact, chunks: Callable[[Descriptor], Iterable[Buffer]], name: str) -> bool:
        self._registries.push_blob(
            self.reference, Digest.of(artefact.config), len(artefact.config), lambda: [artefact.config]
        )
        for layer in artefact.layers:
            self._registries.push_blob(
                self.reference,
                layer.digest,
                layer.size,
                lambda layer=layer: self._watched(chunks(layer)),  # type: ignore[misc]
                label=f"push {name}",
            )
        self._registries.push_manifest(self.reference.at(artefact.tag), artefact.manifest, MANIFEST_TYPE)
        return True

    def _watched(self, chunks: Iterable[Buffer]) -> Iterable[Buffer]:
        for chunk in chunks:
            self._transfers.check()
            yield chunk

    def _blob(self, digest: Digest) -> Iterable[Buffer]:
        return _pieces(self._store.verified_blob(digest))


def file_name(source: Source) -> str:
    """What the file of ``source`` is called: the end of its place, or its commit."""
    if source.commit is not None:
        return f"{source.commit}.tar"
    return PurePosixPath(urlsplit(source.location).path).name or source.identity.hex


def _pieces(path: Path) -> Iterable[Buffer]:
    with path.open("rb", buffering=0) as file:
        while piece := file.read(_PIECE):
            yield piece
