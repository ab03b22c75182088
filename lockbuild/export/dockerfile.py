"""A Dockerfile (Dockerfile reference, docs.docker.com) on an environment's image."""

from __future__ import annotations

import re

from lockbuild.errors import UsageError
from lockbuild.export.subject import Subject, about_image, origin
from lockbuild.model.environment import BUILD_DIR, GID, HOME_DIR, SOURCE_DIR, TMP_DIR, UID


def render(subject: Subject) -> str:
    """The image, with the directories that a sandbox has: those that can be written to belong to the build user."""
    comments = [*origin("dockerfile"), "", *about_image(subject)]
    lines = [
        *(f"# {line}".rstrip() for line in comments),
        f"FROM {subject.image.reference}",
        "",
        "# In the image everything belongs to root.",
        "USER 0:0",
        f"RUN mkdir -p {BUILD_DIR} {HOME_DIR} {SOURCE_DIR} \\",
        f"    && chown {UID}:{GID} {BUILD_DIR} {HOME_DIR} {SOURCE_DIR} \\",
        f"    && chmod 1777 {TMP_DIR}",
        "",
        *(f"ENV {name}={_quoted(value)}" for name, value in sorted(subject.added.items())),
        f"USER {UID}:{GID}",
        f"WORKDIR {BUILD_DIR}",
    ]
    return "\n".join(lines) + "\n"


def _quoted(value: str) -> str:
    """In double quotes, where backslash, quote and dollar are special."""
    if "\n" in value:
        raise UsageError(
            "one of the variables has a line feed, which a Dockerfile cannot hold",
            hint="export without --target",
        )
    return '"' + re.sub(r'([\\"$])', r"\\\1", value) + '"'
