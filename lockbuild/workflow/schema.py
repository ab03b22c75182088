"""JSON Schemas of the file formats, for editors; made from the models that read the files."""

from __future__ import annotations

import json
from typing import Literal

from pydantic import BaseModel

Format = Literal["manifest", "toolchain", "lock", "config"]


def json_schema(name: Format) -> str:
    """The JSON Schema (2020-12) of a file format, as text that ends with a newline."""
    from lockbuild.config import Config
    from lockbuild.model.lock import Lock
    from lockbuild.model.manifest import ProjectFile, Toolchain

    models: dict[Format, type[BaseModel]] = {
        "manifest": ProjectFile,
        "toolchain": Toolchain,
        "lock": Lock,
        "config": Config,
    }
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **models[name].model_json_schema(by_alias=True),
        "title": f"lockbuild {name}",
    }
    return json.dumps(schema, indent=2, ensure_ascii=False, sort_keys=True) + "\n"
