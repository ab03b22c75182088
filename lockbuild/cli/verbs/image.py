"""``lockbuild image``: the environment as a container image, for engines and registries."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lockbuild.amounts import amount, count
from lockbuild.cli.images import made_value, read_annotations, wanted_platforms
from lockbuild.errors import ExitStatus, UsageError
from lockbuild.escaping import one_line

if TYPE_CHECKING:
    from lockbuild.cli.call import Call
    from lockbuild.cli.grammar import Commands
    from lockbuild.oci.inspect import InspectedImage
    from lockbuild.workflow.images import ImageDigests

_COMPRESSIONS = ("none", "gzip", "zstd")


def define(commands: Commands) -> None:
    """Its grammar."""
    image = commands.group("image", "have the environment as a container image")
    digest = image.add("digest", "print the digests of the image, without an engine")
    _platforms(digest)
    _compression(digest)
    build = image.add("build", "write the image to a file that `docker load`, `podman load` and skopeo read")
    build.add_argument("-o", "--output", metavar="FILE", type=Path, required=True, help="the file")
    _platforms(build)
    _compression(build)
    build.add_argument("-t", "--tag", metavar="NAME:TAG", help="what the image is called")
    _annotation(build)
    load = image.add("load", "load the image into the engine that answers, but for what it has")
    load.add_argument("--platform", metavar="OS/ARCH", action="append", help="not this machine's")
    load.add_argument("-t", "--tag", metavar="NAME:TAG", help="what the image is to be called, too")
    push = image.add("push", "push the image to a registry, but for layers that it has")
    push.add_argument("reference", metavar="REF", help="registry/repository:tag (the tag by default: latest)")
    _platforms(push)
    _compression(push, default="gzip")
    _annotation(push)
    pull = image.add(
        "pull", "make the trees of the image in a registry, if it is the one that the lock records"
    )
    pull.add_argument("reference", metavar="REF", help="registry/repository, with :tag or @sha256:…")
    pull.add_argument("--platform", metavar="OS/ARCH", action="append", help="not this machine's")
    inspect = image.add("inspect", "list an image's layers and labels")
    inspect.add_argument(
        "file", metavar="FILE", nargs="?", type=Path, help="an image in a file; without, the project's"
    )
    _platforms(inspect)
    _compression(inspect)


def run(call: Call) -> ExitStatus:
    """Run it; the exit status."""
    verb = call.arguments.verb
    if verb in ("push", "pull"):
        from lockbuild.cli.verbs import image_registry

        return image_registry.push(call) if verb == "push" else image_registry.pull(call)
    verbs: dict[str, Callable[[Call], ExitStatus]] = {
        "digest": _digest,
        "build": _build,
        "load": _load,
        "inspect": _inspect,
    }
    return verbs[verb](call)


def _platforms(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--platform",
        metavar="OS/ARCH",
        action="append",
        help="for this platform, not this machine's; several make a multi-platform image",
    )


def _compression(parser: argparse.ArgumentParser, *, default: str = "none") -> None:
    parser.add_argument(
        "--compression", choices=_COMPRESSIONS, default=default, help=f"of the layers (default: {default})"
    )


def _annotation(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--annotation",
        metavar="KEY=VALUE",
        action="append",
        help="say this of the image in an index above it, whose digests stay: source, revision",
    )


def _digest(call: Call) -> ExitStatus:
    from lockbuild.workflow.images import image_digests, index_of

    images = image_digests(call.workspace, call.project(), wanted_platforms(call), call.arguments.compression)
    index = index_of(images) if len(images) > 1 else None
    call.progress.close()
    value: dict[str, Any] = {
        "compression": call.arguments.compression,
        "images": [_digests_value(image) for image in images],
        "index": None if index is None else str(index.digest),
    }
    lines = []
    for image in images:
        lines += [f"{image.platform}", f"  config    {image.config}", f"  manifest  {image.manifest}"]
    if index is not None:
        lines.append(f"index       {index.digest}")
    call.printer.say(value, "\n".join(lines))
    return ExitStatus.OK


def _digests_value(image: ImageDigests) -> dict[str, Any]:
    return {
        "platform": str(image.platform),
        "config": str(image.config),
        "manifest": str(image.manifest),
        "encoder": image.encoder,
        "recorded": image.recorded,
    }


def _build(call: Call) -> ExitStatus:
    from lockbuild.workflow.images import build_archive

    output = call.output_file()
    assert output is not None, "the grammar requires it"
    built = build_archive(
        call.workspace,
        call.project(),
        wanted_platforms(call),
        call.arguments.compression,
        output,
        reference=_tag(call.arguments.tag),
        annotations=read_annotations(call.arguments.annotation or ()),
    )
    call.progress.close()
    index = None if built.index is None else str(built.index.digest)
    value = {
        "file": str(output),
        "size": built.size,
        "reference": built.reference,
        "compression": call.arguments.compression,
        "images": [made_value(made) for made in built.images],
        "index": index,
    }
    lines = [f"{made.image.platform} {made.image.config_digest}" for made in built.images]
    lines += [f"index {index}"] if index else []
    lines.append(f"wrote {call.arguments.output}: {built.reference}, {amount(built.size)}")
    call.printer.say(value, "\n".join(lines))
    return ExitStatus.OK


def _load(call: Call) -> ExitStatus:
    from lockbuild.workflow.images import load_into_engine

    platforms = wanted_platforms(call)
    if len(platforms) > 1:
        raise UsageError("--platform: an engine is given one image at a time")
    reference = _tag(call.arguments.tag)
    made, loaded = load_into_engine(call.workspace, call.project(), platforms[0], reference=reference)
    call.progress.close()
    value = {
        **made_value(made),
        "id": str(loaded.identity),
        "reference": reference or loaded.reference,
        "sent": {"layers": loaded.layers, "bytes": loaded.size},
    }
    sent = f"sent {loaded.layers} of {count(len(made.image.layers), 'layer')}, {amount(loaded.size)}"
    call.printer.say(
        value,
        f"{loaded.identity}\n{reference or loaded.reference}: {'was there already' if loaded.before else sent}",
    )
    return ExitStatus.OK


def _inspect(call: Call) -> ExitStatus:
    from lockbuild.oci.inspect import inspect_archive, inspected

    index: str | None = None
    if call.arguments.file is not None:
        found = inspect_archive(call.arguments.file)
        images, index = found.images, None if found.index is None else str(found.index)
        encoder = None
    else:
        from lockbuild.oci.encoders import encoder as encoder_name
        from lockbuild.workflow.images import known_images

        encoder = encoder_name(call.arguments.compression)
        images = [
            inspected(image)
            for image in known_images(
                call.workspace, call.project(), wanted_platforms(call), call.arguments.compression
            )
        ]
    call.progress.close()
    value = {"images": [_inspected_value(image, encoder) for image in images], "index": index}
    lines = [line for image in images for line in _inspected_lines(image, encoder)]
    call.printer.say(value, "\n".join([*lines, *([f"index       {index}"] if index else [])]))
    return ExitStatus.OK


def _inspected_value(image: InspectedImage, encoder: str | None) -> dict[str, Any]:
    return {
        "platform": image.platform,
        "config": str(image.config),
        "manifest": str(image.manifest),
        "references": list(image.references),
        "labels": dict(image.labels),
        "encoder": encoder,
        "layers": [
            {
                "name": layer.name,
                "mount": layer.mount,
                "diff_id": str(layer.diff_id),
                "digest": str(layer.digest),
                "size": layer.size,
                "compression": layer.compression,
            }
            for layer in image.layers
        ],
    }


def _inspected_lines(image: InspectedImage, encoder: str | None) -> list[str]:
    lines = [one_line(image.platform), f"  config    {image.config}", f"  manifest  {image.manifest}"]
    lines += [f"  called    {one_line(reference)}" for reference in image.references]
    lines += [
        f"  label     {one_line(name)}={one_line(value)}" for name, value in sorted(image.labels.items())
    ]
    if encoder not in (None, "none"):
        lines.append(f"  encoder   {encoder}")
    names = [one_line(layer.name) for layer in image.layers]
    width = max(map(len, names), default=0)
    for name, layer in zip(names, image.layers, strict=True):
        packed = "" if layer.compression == "none" else f"  {layer.compression} {layer.digest}"
        lines.append(f"  {name:<{width}}  {amount(layer.size):>12}  {layer.diff_id}{packed}")
    return lines


def _tag(text: str | None) -> str | None:
    """--tag: what engines accept as a name, with a tag."""
    if text is None:
        return None
    from lockbuild.model.reference import Reference

    first, slash, _ = text.partition("/")
    named = slash and ("." in first or ":" in first or first == "localhost")
    try:
        reference = Reference.parse(text if named else f"localhost/{text}")
    except ValueError as error:
        raise UsageError(f"--tag: {error}") from None
    if reference.digest is not None:
        raise UsageError("--tag: a digest cannot be chosen, it follows from the lock")
    return text if reference.tag is not None else f"{text}:latest"
