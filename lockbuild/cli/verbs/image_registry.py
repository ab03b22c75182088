"""``lockbuild image push`` and ``pull``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockbuild.amounts import amount, count
from lockbuild.cli.images import made_value, read_annotations, wanted_platforms
from lockbuild.errors import ExitStatus, UsageError

if TYPE_CHECKING:
    from lockbuild.cli.call import Call
    from lockbuild.model.reference import Reference


def push(call: Call) -> ExitStatus:
    """Run push; the exit status."""
    from lockbuild.workflow.image_registry import push_image

    pushed = push_image(
        call.workspace,
        call.project(),
        wanted_platforms(call),
        call.arguments.compression,
        _reference(call),
        annotations=read_annotations(call.arguments.annotation or ()),
    )
    call.progress.close()
    value = {
        "reference": str(pushed.reference),
        "tag": pushed.tag,
        "compression": call.arguments.compression,
        "images": [made_value(made) for made in pushed.images],
        "index": None if pushed.index is None else str(pushed.index.digest),
        "sent": {"layers": pushed.layers, "bytes": pushed.size},
    }
    total = len({layer.digest for made in pushed.images for layer in made.image.layers})
    sent = f"sent {pushed.layers} of {count(total, 'layer')}, {amount(pushed.size)}"
    call.printer.say(value, f"{pushed.reference}\n{pushed.tag}: {sent}")
    return ExitStatus.OK


def pull(call: Call) -> ExitStatus:
    """Run pull; the exit status."""
    from lockbuild.workflow.image_registry import pull_image

    platforms = wanted_platforms(call)
    if len(platforms) > 1:
        raise UsageError("--platform: one image is pulled at a time")
    pulled = pull_image(call.workspace, call.project(), platforms[0], _reference(call))
    call.progress.close()
    value = {
        "reference": str(pulled.reference),
        "platform": str(pulled.platform),
        "config": str(pulled.image.image),
        "made": list(pulled.made),
        "unchanged": pulled.unchanged,
    }
    made = f"made {', '.join(pulled.made)}" if pulled.made else "nothing to do"
    call.printer.say(value, f"{pulled.reference}\n{pulled.platform} {pulled.image.image}: {made}")
    return ExitStatus.OK


def _reference(call: Call) -> Reference:
    from lockbuild.model.reference import Reference

    try:
        return Reference.parse(call.arguments.reference)
    except ValueError as error:
        raise UsageError(str(error)) from None
