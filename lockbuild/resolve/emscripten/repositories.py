"""Emscripten's own repositories, and reading files of them whose size is known to be small."""

from __future__ import annotations

from collections.abc import Iterable

from lockbuild.errors import ResolveError
from lockbuild.resolve.context import ResolveContext

EMSDK = "https://github.com/emscripten-core/emsdk"
EMSCRIPTEN = "https://github.com/emscripten-core/emscripten"
_BRANCHES = ("refs/heads/main", "refs/heads/master")


def newest(context: ResolveContext, url: str) -> str:
    """The newest commit of the repository's main branch."""
    refs = context.git.refs(url)
    for branch in _BRANCHES:
        if branch in refs:
            return refs[branch]
    raise ResolveError("it has no branch called main", on=url)


def tagged(context: ResolveContext, url: str, tag: str) -> str | None:
    """The commit of a tag; None where there is no such tag."""
    return context.git.refs(url).get(f"refs/tags/{tag}")


def read(context: ResolveContext, url: str, commit: str, paths: Iterable[str]) -> dict[str, bytes]:
    """Those of the files that the commit has."""
    return context.git.read_all(url, commit, paths)


def origin(url: str, commit: str, path: str) -> str:
    """What messages call a file of a commit."""
    return f"{url} {commit[:12]}: {path}"


def purl(url: str, commit: str) -> str:
    """The package URL of a commit of one of these repositories."""
    from packageurl import PackageURL

    namespace, name = url.rsplit("/", 2)[1:]
    return PackageURL(type="github", namespace=namespace, name=name, version=commit).to_string()


def archive_purl(name: str, version: str | None, url: str, checksum: str | None = None) -> str:
    """The package URL of an archive that is not a package of any registry."""
    from packageurl import PackageURL

    qualifiers = {"download_url": url} | ({"checksum": checksum} if checksum else {})
    return PackageURL(type="generic", name=name, version=version, qualifiers=qualifiers).to_string()
