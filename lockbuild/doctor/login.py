"""The registries that caches are in: whether they let us in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from lockbuild.config import Config
from lockbuild.doctor.finding import Finding, ok, warning
from lockbuild.errors import LockbuildError
from lockbuild.model.reference import Reference
from lockbuild.transport.failures import NotFoundError
from lockbuild.transport.http import Http
from lockbuild.transport.registry.registries import Registries


def caches(config: Config) -> list[str]:
    """The references of the configured caches, each once."""
    write = config.cache.write
    return list(dict.fromkeys([*config.cache.read, *([write] if write else [])]))


def registry(reference: str, config: Config, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Ask the registry of ``reference`` for what it has there, with the credentials that are known for it."""
    http = Http(config)
    try:
        Registries(http, config, environ=environ).tags(Reference.parse(reference))
    except NotFoundError:
        yield ok("registry", "lets us read; nothing is there yet", subject=reference)
    except LockbuildError as error:
        yield warning("registry", error.what, subject=reference, remedy=error.hint)
    else:
        yield ok("registry", "lets us read", subject=reference)
    finally:
        http.close()
