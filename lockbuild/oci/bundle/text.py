"""The index of a bundle that a person reads: ``INDEX.txt``. It follows from the lock and the contents alone."""

from __future__ import annotations

from collections.abc import Iterator

from lockbuild.amounts import amount
from lockbuild.escaping import one_line
from lockbuild.model.lock import Lock
from lockbuild.oci.bundle.contents import Contents

_TITLE = {
    "offline-sync": "what `lockbuild sync` and `reproduce` need where there is no network",
    "offline-lock": "what `lockbuild lock`, `sync` and `reproduce` need where there is no network",
}


def index_text(contents: Contents, lock: Lock) -> str:
    """The text, which ends with a line feed."""
    return "".join(f"{line}\n" for line in _lines(contents, lock))


def total(contents: Contents) -> int:
    """The bytes of all blobs that it holds beside the lock."""
    return sum(blob.size for _, blob in contents.held())


def _lines(contents: Contents, lock: Lock) -> Iterator[str]:
    name = one_line(str(lock.manifest.inputs.get("name", "")))
    yield f"lockbuild bundle: {_TITLE[contents.for_]}"
    yield ""
    yield f"toolchain    {name}"
    yield f"platforms    {', '.join(map(str, contents.platforms))}"
    yield f"lock         {contents.lock.digest}"
    if contents.since is not None:
        yield f"goes on from {contents.since}  (a lock; what that needs is left out)"
    yield f"holds        {amount(total(contents))}, layers made by {one_line(contents.encoder)}"
    yield ""
    yield "To use it: `lockbuild bundle load FILE`, then `lockbuild sync --offline` in the project."
    if contents.images:
        yield ""
        yield "Images"
        for image in contents.images:
            yield f"  {image.platform!s:14} {image.config.digest}"
    if contents.trees:
        yield ""
        yield "Trees"
        yield from _trees(contents, lock)
    if contents.sources:
        yield ""
        yield "Sources"
        for source in sorted(contents.sources, key=lambda source: source.purls):
            left_out = "" if source.held else "  (left out)"
            yield f"  {source.digest.short}  {amount(source.size):>10}  {one_line(source.purls[0])}{left_out}"
            for purl in source.purls[1:]:
                yield f"  {'':12}  {'':>10}  {one_line(purl)}"
    if contents.signatures:
        yield ""
        yield "Signed indexes"
        named = {suite.inrelease: f"{suite.name} of {suite.date}" for suite in lock.suites}
        for blob in contents.signatures:
            yield f"  {blob.digest.short}  {amount(blob.size):>10}  InRelease, {one_line(named.get(blob.digest, '?'))}"
    if contents.documents:
        yield ""
        yield "Documents for resolving"
        for document in contents.documents:
            left_out = "" if document.held else "  (left out)"
            yield f"  {document.digest.short}  {amount(document.size):>10}  {one_line(document.name)}{left_out}"


def _trees(contents: Contents, lock: Lock) -> Iterator[str]:
    known = {tree.id: tree for tree in lock.trees}
    for bundled in sorted(contents.trees, key=lambda tree: tree.names):
        held = amount(bundled.layer.size) if bundled.layer is not None else "left out"
        for name in bundled.names:
            yield f"  {bundled.digest.short}  {held:>10}  {one_line(name)}"
            tree = known.get(name)
            if tree is None:
                continue
            if tree.pins:
                pins = ", ".join(f"{key} {value}" for key, value in sorted(tree.pins.items()))
                yield f"  {'':12}  {'':>10}    {one_line(pins)}"
            if tree.unpack == "derive":
                for key in ("steps", "extra-steps"):
                    steps = lock.manifest.inputs.get(f"{tree.name}.{key}", [])
                    for step in steps if isinstance(steps, list) else [str(steps)]:
                        yield f"  {'':12}  {'':>10}    $ {one_line(step)}"
            held = ""
