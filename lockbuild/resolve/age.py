"""What of a resolution may be younger than was asked for (``ResolveContext.not_after``), in words.

Where a provider can choose, it leaves out what is too young. This is about what it cannot choose: a commit that the
manifest names, the one state of a suite that a mirror has, an archive that nobody dates.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from lockbuild.model.lock import LockedTree, Suite
from lockbuild.resolve.context import Resolution, ResolveContext


def remarks(name: str, resolution: Resolution, context: ResolveContext) -> Iterator[str]:
    """A sentence for each part of what ``name`` was locked to that is too young, or whose age nobody knows."""
    limit = context.not_after
    if limit is None:
        return
    for suite in resolution.suites:
        if datetime.fromisoformat(suite.date) > limit:
            yield f"{name}: {_suite(suite, limit)}"
    for text in dict.fromkeys(_image(tree, limit) for tree in resolution.trees if tree.unpack == "oci-root"):
        if text:
            yield f"{name}: {text}"
    commits = {tree.id for tree in resolution.trees if tree.unpack == "git"}
    for source in resolution.sources:
        if source.commit is not None and source.url is not None and commits.intersection(source.trees):
            time = context.git.time(source.url, source.commit)
            if time > limit:
                yield f"{name}: {source.url} {source.commit[:12]} was committed on {time:%Y-%m-%d}"
        elif source.trust == "first-use":
            yield f"{name}: nobody says when {source.location} was published"


def _image(tree: LockedTree, limit: datetime) -> str | None:
    created = tree.pins.get("created")
    if created is None:
        return f"nobody says when the image {tree.pins['reference']} was made"
    if datetime.fromisoformat(created) <= limit:
        return None
    return f"the image {tree.pins['reference']} was made on {created[:10]}"


def _suite(suite: Suite, limit: datetime) -> str:
    text = f"the index of {suite.name} is of {suite.date}"
    if suite.snapshot is None:
        text += f'; snapshot = "{limit:%Y%m%dT%H%M%SZ}" reads the suite as it was then'
    return text
