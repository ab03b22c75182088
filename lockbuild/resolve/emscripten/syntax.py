"""From source text to a syntax tree, for files that are read as data and never run."""

from __future__ import annotations

import ast
import warnings

from lockbuild.errors import ResolveError


def parse_python(data: bytes, origin: str) -> ast.Module:
    """The syntax tree of Python (or Starlark that is Python, too); ResolveError where it is neither.

    Compiles nothing. ``origin`` is what messages call the file.
    """
    try:
        text = data.decode("utf-8")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about escapes in strings: not ours to mend
            return ast.parse(text)
    except SyntaxError as error:
        place = f"{origin}:{error.lineno}" if error.lineno else origin
        raise ResolveError(f"cannot be read: {error.msg}", on=place) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise ResolveError(f"cannot be read: {error or 'it is nested too deeply'}", on=origin) from None
