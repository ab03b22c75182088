"""Reads the two texts of a bundle that decide the rest, its contents and its lock, from whoever wrote them.

Both are bounded in what reading them may cost: in time and memory, not only in bytes. Both must be as lockbuild
writes them, byte for byte.
"""

from __future__ import annotations

import json
import re

from lockbuild.errors import IntegrityError, InvalidFileError, UsageError
from lockbuild.model.lock import SCHEMA as LOCK_SCHEMA
from lockbuild.model.lock import Lock
from lockbuild.oci.bundle import contents as bundle
from lockbuild.oci.bundle.contents import Contents

_MOST_VALUES = 400_000
_MOST_DOTS = 8
_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"?')
"""Takes what follows a quotation mark, closed or not, so that no text makes it go back."""
_HINT = "it was damaged or changed on its way: get it again from whoever made it"


def refused(name: str, why: str) -> IntegrityError:
    """The error that says why the bundle is not taken."""
    return IntegrityError(f"the bundle is refused: {why}", on=name, hint=_HINT)


def parse_contents(data: bytes, name: str) -> Contents:
    from pydantic import ValidationError

    if data.count(b",") > _MOST_VALUES:
        raise refused(name, f"its list of contents has more than {_MOST_VALUES:,} values")
    try:
        value = json.loads(data)
        schema = value.get("schema") if isinstance(value, dict) else None
        if isinstance(schema, int) and schema > bundle.SCHEMA:
            raise UsageError(
                f"the bundle has schema {schema}, and this version of lockbuild reads schema {bundle.SCHEMA}",
                on=name,
                hint=f"use a version of lockbuild that knows bundle schema {schema}",
            )
        contents = Contents.model_validate(value)
        if contents.data() == data:
            return contents
    except (ValueError, RecursionError, ValidationError):
        pass
    raise refused(name, "its list of contents is not one that lockbuild writes")


def parse_lock(data: bytes, name: str) -> Lock:
    import tomllib

    from pydantic import ValidationError

    from lockbuild.model.lockfile import dumps, loads

    why = "its lock is not one that lockbuild writes"
    try:
        text = data.decode()
        if _is_tangled(text):
            raise refused(name, why)
        value = tomllib.loads(text)
        if value.get("schema") == LOCK_SCHEMA:
            Lock.model_validate(value)  # without a list of what may be a million problems
        lock = loads(text, "its lock")
        if dumps(lock) == text:
            return lock
    except InvalidFileError as error:
        why += f": {error.problems[0]}"
    except UsageError as error:
        raise UsageError(error.what, on=name, hint=error.hint) from None
    except (ValueError, RecursionError, ValidationError):
        pass
    raise refused(name, why)


def _is_tangled(text: str) -> bool:
    """Whether a line has more dots, outside of strings, than any of a lock. A key of many parts costs the reader of
    TOML the square of their number."""
    bare = _STRING.sub("", text)
    return any(line.count(".") > _MOST_DOTS for line in bare.split("\n"))
