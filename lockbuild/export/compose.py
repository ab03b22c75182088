"""A Compose file (the Compose specification, compose-spec.io) with an environment as a service."""

from __future__ import annotations

import json
import re

from lockbuild.export.subject import TMPFS, Subject, about_image, origin
from lockbuild.model.environment import BUILD_DIR, GID, HOME_DIR, HOSTNAME, SOURCE_DIR, TMP_DIR, UID

_UNPRINTABLE = re.compile(
    r"[^\x09\x0a\x0d\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
)


def render(subject: Subject) -> str:
    """One service, ``environment``, as near to a sandbox as Compose can say: no network, nothing but the project
    and a build directory that is gone afterwards."""
    lines = [
        *(f"# {line}".rstrip() for line in [*origin("compose"), *about_image(subject)]),
        "# docker compose run --rm environment sh -c 'ls $SOURCE'",
        "services:",
        "  environment:",
        f"    image: {_text(subject.image.reference)}",
        *(["    pull_policy: never"] if subject.image.local else []),
        f"    user: {_text(f'{UID}:{GID}')}",
        f"    hostname: {HOSTNAME}",
        f"    working_dir: {BUILD_DIR}",
        "    network_mode: none",
        "    cap_drop: [ALL]",
        "    security_opt: [no-new-privileges]",
        "    volumes:",
        f"      - {_text(f'.:{SOURCE_DIR}:ro')}",
        "    tmpfs:",
        *(f"      - {_text(f'{place}:{TMPFS}')}" for place in (BUILD_DIR, HOME_DIR, TMP_DIR)),
        "    environment:",
        *(f"      {_text(name)}: {_text(value)}" for name, value in sorted(subject.added.items())),
    ]
    return "\n".join(lines) + "\n"


def _text(value: str) -> str:
    """A double-quoted scalar (YAML 1.2, 5.1 and 7.3.1); ``$`` is Compose's own sign of a variable."""
    return _UNPRINTABLE.sub(
        lambda match: f"\\U{ord(match[0]):08x}", json.dumps(value.replace("$", "$$"), ensure_ascii=False)
    )
