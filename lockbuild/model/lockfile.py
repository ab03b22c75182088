"""The lock as text: canonical TOML, so that write -> read -> write is byte-equal and a diff reads like a log.

Tables come in a fixed order and every list that is a set is sorted; LF only; no clock, no path of a machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lockbuild.errors import InvalidFileError, Problem, UsageError
from lockbuild.model.lock import SCHEMA, InputValue, Lock, LockedTree, OutputFile, Source
from lockbuild.model.read import parse_toml, validate
from lockbuild.model.soundness import problems

_HEADER = "# Made by `lockbuild lock`. Commit it; do not edit it.\n"
_DAMAGED = (
    "do not edit a lock by hand: restore it from version control, or remove it and run `lockbuild lock`, "
    "which resolves everything afresh"
)
_CONFLICT = (
    "resolve conflicts of manifests, then run `lockbuild lock`: it keeps the pins that fit and locks the rest"
)


def loads(text: str, file: str) -> Lock:
    """Read a lock, in canonical order. UsageError for an unknown schema, InvalidFileError naming every problem
    by its key."""
    data = parse_toml(text, file, conflict=_CONFLICT)
    schema = data.get("schema")
    if isinstance(schema, int) and not isinstance(schema, bool) and schema > SCHEMA:
        raise UsageError(
            f"it has schema {schema}, and this version of lockbuild reads schema {SCHEMA}",
            on=file,
            hint=f"use a version of lockbuild that knows lock schema {schema}",
        )
    if schema is None:
        raise InvalidFileError(file, [Problem("schema", "is required")], hint=_DAMAGED)
    lock = validate(Lock, data, file, hint=_DAMAGED)
    if found := list(problems(lock)):
        raise InvalidFileError(file, found, hint=_DAMAGED)
    return canonical(lock)


def canonical(lock: Lock) -> Lock:
    """The same lock in the order in which it is written."""
    return lock.model_copy(
        update={
            "suites": sorted(lock.suites, key=lambda suite: (suite.name, suite.date, suite.inrelease)),
            "trees": sorted(lock.trees, key=lambda tree: (tree.name, str(tree.platform))),
            "sources": sorted(
                (source.model_copy(update={"trees": sorted(source.trees)}) for source in lock.sources),
                key=lambda source: source.place,
            ),
        }
    )


def dumps(lock: Lock) -> str:
    """The canonical text of a lock."""
    lock = canonical(lock)
    blocks = [_HEADER + _pairs({"schema": lock.schema_})]
    blocks.append("[manifest]\n" + _pairs({"digest": str(lock.manifest.digest)}))
    if lock.manifest.inputs:
        blocks.append("[manifest.inputs]\n" + _pairs(dict(sorted(lock.manifest.inputs.items()))))
    for suite in lock.suites:
        blocks.append(
            "[[suites]]\n" + _pairs(suite.model_dump(mode="json", by_alias=True, exclude_none=True))
        )
    blocks.extend("[[trees]]\n" + _tree(tree) for tree in lock.trees)
    blocks.extend("[[sources]]\n" + _source(source) for source in lock.sources)
    for platform, environment in sorted(lock.environments.items()):
        table = f"environments.{_key(platform)}"
        image = environment.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"layers"})
        blocks.append(f"[{table}]\n" + _pairs(image))
        for compression, layers in sorted(environment.layers.items()):
            made = layers.model_dump(mode="json", by_alias=True)
            blocks.append(f"[{table}.layers.{_key(compression)}]\n" + _pairs(made))
    for target, claim in sorted(lock.claims.items()):
        blocks.append(f"[claims.{_key(target)}]\n" + _pairs({"by": claim.by}) + _files(claim.files))
    for target, outputs in sorted(lock.outputs.items()):
        about = _pairs({"input": str(outputs.input), "platform": str(outputs.platform)})
        blocks.append(f"[outputs.{_key(target)}]\n" + about + _files(outputs.files))
    return "\n".join(blocks)


def _tree(tree: LockedTree) -> str:
    data = tree.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_defaults=True)
    tables = {name: data.pop(name, {}) for name in ("parameters", "pins", "exports")}
    text = _pairs(
        {key: data[key] for key in ("name", "platform", "unpack", "mount", "strip", "digest") if key in data}
    )
    for name, table in tables.items():
        if table:
            inline = ", ".join(f"{_key(key)} = {_value(value)}" for key, value in sorted(table.items()))
            text += f"{name} = {{ {inline} }}\n"
    return text


def _files(files: Iterable[OutputFile]) -> str:
    lines = [
        f"    {{ path = {_value(f.path)}, size = {f.size}, sha256 = {_value(str(f.sha256))} }},\n"
        for f in sorted(files, key=lambda file: file.path)
    ]
    return "files = [\n" + "".join(lines) + "]\n"


def _source(source: Source) -> str:
    return _pairs(source.model_dump(mode="json", by_alias=True, exclude_none=True))


def _pairs(data: Mapping[str, InputValue]) -> str:
    return "".join(f"{_key(key)} = {_value(value)}\n" for key, value in data.items())


def _key(name: str) -> str:
    import tomlkit

    return tomlkit.key(name).as_string()


def _value(value: InputValue) -> str:
    import tomlkit

    if isinstance(value, list):
        return _list(value)
    return tomlkit.item(value).as_string()


def _list(values: Iterable[str]) -> str:
    items = [_value(value) for value in values]
    line = ", ".join(items)
    if len(line) <= 90:
        return f"[{line}]"
    return "[\n" + "".join(f"    {item},\n" for item in items) + "]"
