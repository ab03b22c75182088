"""JSON Schemas of the file formats, for editors; made from the models that read the files.

pydantic's schemas say what a value is, not what it is for, and speak of null, which TOML has not. So the text
behind each field (its docstring in the model's source) is added here, and what no TOML file can hold left out.
Reading the sources takes time that only this command can spare.
"""

from __future__ import annotations

import ast
import inspect
import json
import textwrap
import typing
from collections.abc import Iterator
from typing import Any, Literal

from pydantic import BaseModel

Format = Literal["manifest", "toolchain", "lock", "config"]


def json_schema(name: Format) -> str:
    """The JSON Schema (2020-12) of a file format, as text that ends with a newline."""
    model = _models()[name]
    schema = model.model_json_schema(by_alias=True)
    definitions = {found.__name__: found for found in reached_models(model)}
    for title, definition in [(model.__name__, schema), *schema.get("$defs", {}).items()]:
        _describe(definition, definitions[title])
    if name == "toolchain":
        _let_extend(schema)
    whole = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **_simplified(schema),
        "title": f"lockbuild {name}",
    }
    return json.dumps(whole, indent=2, ensure_ascii=False, sort_keys=True) + "\n"


def _let_extend(schema: dict[str, Any]) -> None:
    """A toolchain that extends another need not be whole, nor need its tables."""
    for name, key in (("BaseImage", "reference"), ("DebianBase", "suite"), ("Derive", "steps")):
        schema["$defs"][name]["required"].remove(key)
    whole = ["platforms", "base"]
    schema["required"] = [key for key in schema["required"] if key not in whole]
    tools = schema["properties"]["tools"]["patternProperties"]
    ((pattern, tool),) = tools.items()
    tools[pattern] = {"anyOf": [tool, {"type": "object", "not": {"required": ["from"]}}]}
    schema["if"] = {"not": {"required": ["extends"]}}
    schema["then"] = {
        "required": whole,
        "properties": {
            "base": {
                "properties": {"debian": {"required": ["suite"]}, "image": {"required": ["reference"]}},
                "anyOf": [{"required": ["debian"]}, {"required": ["image"]}],
            },
            "tools": {"additionalProperties": {"required": ["from"]}},
            "derive": {"additionalProperties": {"required": ["steps"]}},
        },
    }


def _models() -> dict[Format, type[BaseModel]]:
    from lockbuild.config import Config
    from lockbuild.model.lock import Lock
    from lockbuild.model.manifest import ProjectFile, Toolchain

    return {"manifest": ProjectFile, "toolchain": Toolchain, "lock": Lock, "config": Config}


def reached_models(model: type[BaseModel]) -> set[type[BaseModel]]:
    """``model`` and every model that stands in it."""
    found: set[type[BaseModel]] = set()
    open_: list[Any] = [model]
    while open_:
        annotation = open_.pop()
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            if annotation not in found:
                found.add(annotation)
                open_ += [field.annotation for field in annotation.model_fields.values()]
        else:
            open_ += typing.get_args(annotation)
    return found


def _describe(definition: dict[str, Any], model: type[BaseModel]) -> None:
    """Add what the model's source says of each field."""
    texts = {name: text for base in reversed(model.__mro__) for name, text in _field_texts(base)}
    for name, field in model.model_fields.items():
        definition["properties"][field.alias or name]["description"] = texts[name]
    if "description" in definition:
        definition["description"] = _plain(definition["description"].partition("\n\n")[0])


def _field_texts(model: type) -> Iterator[tuple[str, str]]:
    """The fields that ``model`` itself declares, each with the docstring below it."""
    if not issubclass(model, BaseModel) or model is BaseModel:
        return
    body = ast.parse(textwrap.dedent(inspect.getsource(model))).body[0]
    assert isinstance(body, ast.ClassDef)
    for statement, following in zip(body.body, body.body[1:], strict=False):
        if not (isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)):
            continue
        if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
            yield statement.target.id, _plain(inspect.cleandoc(str(following.value.value)))


def _plain(text: str) -> str:
    """Docstring markup as editors show it: one paragraph, Markdown's code marks."""
    return " ".join(text.replace("``", "`").split())


def _simplified(schema: Any) -> Any:
    """Without null, without titles that repeat the key, and with names of tables checked as such."""
    if isinstance(schema, list):
        return [_simplified(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    result = {
        key: {name: _simplified(inner) for name, inner in value.items()}
        if key in ("properties", "$defs")
        else _simplified(value)
        for key, value in schema.items()
        if key != "title" and not (key == "default" and _holds_null(value))
    }
    if "anyOf" in result:
        choices = [choice for choice in result.pop("anyOf") if choice != {"type": "null"}]
        result = {**choices[0], **result} if len(choices) == 1 else {**result, "anyOf": choices}
    if "patternProperties" in result:
        ((pattern, values),) = result.pop("patternProperties").items()
        result |= {"propertyNames": {"pattern": pattern}, "additionalProperties": values}
    return result


def _holds_null(value: Any) -> bool:
    return value is None or (isinstance(value, dict) and any(map(_holds_null, value.values())))
