"""The plan of a build: everything that decides its outputs, as one value. Pure.

The digest of its canonical JSON is the *input digest* that recorded outputs stand beside: it names trees by
digest and mount, never a path of a machine, a back-end or a person.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lockbuild.build.maps import compiler_flags, prefix_maps
from lockbuild.model.digest import Digest
from lockbuild.model.environment import BUILD_DIR, HOSTNAME, SOURCE_DIR, SOURCES_DIR, UID, Environment

if TYPE_CHECKING:
    from lockbuild.model.manifest import Derive

PROTOCOL = 1
"""Raised when the same plan would run differently: another shell, other fixed variables, other users."""


@dataclass(frozen=True, slots=True)
class TargetSteps:
    """A target of a manifest (`lockbuild.model.manifest.Target`, which says what each means), as it is built."""

    source: str
    steps: tuple[str, ...]
    outputs: tuple[str, ...]
    env: Mapping[str, str]
    sources: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class Plan:
    """What runs (``steps``, each by ``/bin/sh -e -c`` in ``directory``), in what, and what is kept.

    ``trees`` are (mount, digest) of the environment, ``inputs`` those of read-only inputs; ``variables`` is
    the whole environment of each process; ``outputs`` are patterns below ``directory``.
    """

    name: str
    platform: str
    trees: tuple[tuple[str, Digest], ...]
    inputs: tuple[tuple[str, Digest], ...]
    variables: Mapping[str, str]
    directory: str
    steps: tuple[str, ...]
    outputs: tuple[str, ...]

    def canonical(self) -> bytes:
        """The canonical JSON: sorted keys, no white space, UTF-8."""
        value = {
            "protocol": PROTOCOL,
            "platform": self.platform,
            "trees": [[mount, str(digest)] for mount, digest in self.trees],
            "inputs": sorted([mount, str(digest)] for mount, digest in self.inputs),
            "variables": dict(self.variables),
            "directory": self.directory,
            "steps": list(self.steps),
            "outputs": sorted(self.outputs),
            "user": UID,
            "hostname": HOSTNAME,
        }
        return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()

    def digest(self) -> Digest:
        """The input digest."""
        return Digest.of(self.canonical())


def plan_target(
    name: str, target: TargetSteps, environment: Environment, source: Digest, sources: Mapping[str, Digest]
) -> Plan:
    """The plan of a target. ``source`` is its source tree; ``sources`` maps names of [sources] to trees."""
    inputs = {SOURCE_DIR: source, **{f"{SOURCES_DIR}/{key}": digest for key, digest in sources.items()}}
    directories = {"SOURCE": SOURCE_DIR, "BUILD": BUILD_DIR}
    maps = compiler_flags(prefix_maps(environment, inputs))
    own = _expanded(target.env, directories)
    flags = f"{maps} {own['EMCC_CFLAGS']}" if "EMCC_CFLAGS" in own else maps
    return Plan(
        name=name,
        platform=str(environment.platform),
        trees=tuple((tree.mount, tree.digest) for tree in environment.trees),
        inputs=tuple(sorted(inputs.items())),
        variables={**environment.variables, **directories, **own, "EMCC_CFLAGS": flags},
        directory=BUILD_DIR,
        steps=target.steps,
        outputs=target.outputs,
    )


def plan_derive(name: str, derive: Derive, environment: Environment, mount: str) -> Plan:
    """The plan of a derived tool: it writes to ``$OUT``, which is the path where it will be mounted.

    No prefix maps: the result stays at that path for ever, and Emscripten maps its own libraries.
    """
    directories = {"OUT": mount, "BUILD": BUILD_DIR}
    return Plan(
        name=name,
        platform=str(environment.platform),
        trees=tuple((tree.mount, tree.digest) for tree in environment.trees),
        inputs=(),
        variables={**environment.variables, **directories, **_expanded(derive.env, directories)},
        directory=BUILD_DIR,
        steps=derive.all_steps,
        outputs=(mount,),
    )


_VARIABLE = re.compile(r"\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)\})")


def _expanded(variables: Mapping[str, str], directories: Mapping[str, str]) -> dict[str, str]:
    """``$SOURCE``, ``$BUILD`` and ``$OUT`` in values of ``env``, with or without braces; any other ``$`` stays as it
    is."""
    return {
        key: _VARIABLE.sub(lambda found: directories.get(found[1] or found[2], found[0]), value)
        for key, value in variables.items()
    }
