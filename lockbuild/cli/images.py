"""What the commands on images have in common: arguments that several take, and images as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockbuild.errors import UsageError

if TYPE_CHECKING:
    from lockbuild.cli.call import Call
    from lockbuild.model.platform import Platform
    from lockbuild.workflow.images import MadeImage


def made_value(made: MadeImage) -> dict[str, Any]:
    """An image that was made, in --json."""
    image = made.image
    return {
        "platform": str(image.platform),
        "config": str(image.config_digest),
        "manifest": str(image.manifest_digest),
    }


def wanted_platforms(call: Call) -> list[Platform]:
    """The platforms that --platform names, each once; else this machine's."""
    return list(dict.fromkeys(call.platforms())) or [call.workspace.platform]


def read_annotations(texts: list[str] | tuple[str, ...]) -> dict[str, str]:
    """--annotation: the keys and values."""
    found: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise UsageError(
                f"--annotation: {text!r} is no KEY=VALUE",
                hint='for instance: --annotation "org.opencontainers.image.revision=$(git rev-parse HEAD)"',
            )
        found[key] = value
    return found
