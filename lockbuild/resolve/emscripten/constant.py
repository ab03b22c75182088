"""Values of expressions that are written down in a file, found without running any of it.

What is understood is what port files use to put a URL together: strings, numbers, tuples, lists and dictionaries of
such; f-strings, ``+``, ``%``, ``.format`` and a few other methods of strings; and names that are assigned exactly
once, where their scope begins. Anything else is no constant, and says so with its line.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping

from lockbuild.resolve.emscripten.templates import Value, braces, formatted, percent

_LIMIT = 1 << 16
"""Characters of a string that is put together."""
_DEPTH = 60
"""How deeply names and expressions may be nested."""
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


class NotConstantError(Exception):
    """The expression ``node`` is no constant, because of ``why``."""

    def __init__(self, node: ast.AST, why: str) -> None:
        super().__init__(why)
        self.line: int = getattr(node, "lineno", 0)
        self.why = why


class Scope:
    """The names of a module, or of a function in it (``outer`` being what it stands in).

    ``replacements`` gives names of this scope another value.
    """

    def __init__(
        self,
        node: ast.Module | ast.FunctionDef,
        outer: Scope | None = None,
        replacements: Mapping[str, Value] | None = None,
    ) -> None:
        self._outer = outer
        self._replacements = replacements or {}
        self._assigned: dict[str, ast.expr] = {}
        self._known: dict[str, Value] = {}
        self._bound: dict[str, int] = {}
        for name in _bindings(node):
            self._bound[name] = self._bound.get(name, 0) + 1
        for statement in node.body:
            target, value = _simple_assignment(statement)
            if target is not None and value is not None:
                self._assigned[target] = value
        if isinstance(node, ast.FunctionDef):
            for argument in ast.walk(node.args):
                if isinstance(argument, ast.arg):
                    self._bound[argument.arg] = 2

    def value(self, node: ast.expr, depth: int = 0) -> Value:
        """What ``node`` comes to in this scope; NotConstantError."""
        if depth > _DEPTH:
            raise NotConstantError(node, "it is nested too deeply")
        return _Evaluation(self, depth + 1).of(node)

    def name(self, node: ast.Name, depth: int = 0) -> Value:
        """The value of a name."""
        name = node.id
        if name in self._replacements:
            return self._replacements[name]
        count = self._bound.get(name, 0)
        if count == 0 and self._outer is not None:
            return self._outer.name(node, depth)
        if count == 0:
            raise NotConstantError(node, f"{name} is not assigned in this file")
        if count > 1 or name not in self._assigned:
            raise NotConstantError(node, f"{name} is not assigned once and for all")
        if name not in self._known:  # and not each time again: two uses in each of sixty names are 2**60
            self._known[name] = self.value(self._assigned[name], depth)
        return self._known[name]

    def literals(self, node: ast.expr) -> set[str]:
        """Names of the module that are written down as one value and that ``node`` is made of."""
        found: set[str] = set()
        seen: set[ast.expr] = set()
        pending: list[tuple[ast.expr, Scope]] = [(node, self)]
        while pending:
            expression, scope = pending.pop()
            seen.add(expression)
            for inner in ast.walk(expression):
                owner = scope._owner(inner.id) if isinstance(inner, ast.Name) else None
                if owner is None or not isinstance(inner, ast.Name) or inner.id not in owner._assigned:
                    continue
                written = owner._assigned[inner.id]
                if owner._outer is None and not any(isinstance(part, ast.Name) for part in ast.walk(written)):
                    found.add(inner.id)
                elif written not in seen:
                    pending.append((written, owner))
        return found

    def _owner(self, name: str) -> Scope | None:
        """The innermost scope that binds the name."""
        scope: Scope | None = self
        while scope is not None and not scope._bound.get(name):
            scope = scope._outer
        return scope


def _bindings(scope: ast.AST) -> Iterator[str]:
    """Every binding of a name in a scope, and for a module those that a function says to be of the module."""
    pending = list(ast.iter_child_nodes(scope))
    module = isinstance(scope, ast.Module)
    while pending:
        node = pending.pop()
        if isinstance(node, _SCOPES):
            if not isinstance(node, ast.Lambda):
                yield node.name
            for inner in ast.walk(node):
                if isinstance(inner, ast.Global if module else ast.Nonlocal):
                    yield from (name for name in inner.names for _ in range(2))
            continue
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, ast.alias):
            yield (node.asname or node.name).partition(".")[0]
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            yield node.name
        elif isinstance(node, ast.Global | ast.Nonlocal):
            yield from (name for name in node.names for _ in range(2))
        pending.extend(ast.iter_child_nodes(node))


def _simple_assignment(statement: ast.stmt) -> tuple[str | None, ast.expr | None]:
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target: ast.expr = statement.targets[0]
    elif isinstance(statement, ast.AnnAssign):
        target = statement.target
    else:
        return None, None
    return (target.id, statement.value) if isinstance(target, ast.Name) else (None, None)


class _Evaluation:
    """One expression in one scope."""

    def __init__(self, scope: Scope, depth: int) -> None:
        self._scope = scope
        self._depth = depth

    def of(self, node: ast.expr) -> Value:
        match node:
            case ast.Constant(value=str() | int() | None as value):
                return value
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(number))):
                return -number
            case ast.Name():
                return self._scope.name(node, self._depth)
            case ast.JoinedStr():
                return _bounded(node, "".join(self._piece(part) for part in node.values))
            case ast.Tuple() | ast.List():
                return tuple(self._inner(item) for item in node.elts)
            case ast.Dict():
                return self._dictionary(node)
            case ast.BinOp(op=ast.Add()):
                return self._sum(node)
            case ast.BinOp(op=ast.Mod()):
                return self._percent(node)
            case ast.Subscript():
                return self._item(node)
            case ast.Call(func=ast.Name(id="str"), args=[argument], keywords=[]):
                return self._text(argument)
            case ast.Call(func=ast.Attribute() as function):
                return self._method(node, function)
        raise NotConstantError(node, "it is not a constant")

    def _inner(self, node: ast.expr) -> Value:
        return self._scope.value(node, self._depth)

    def _string(self, node: ast.expr) -> str:
        value = self._inner(node)
        if not isinstance(value, str):
            raise NotConstantError(node, "a string is needed")
        return value

    def _text(self, node: ast.expr) -> str:
        value = self._inner(node)
        if not isinstance(value, str | int):
            raise NotConstantError(node, "a string or a number is needed")
        return str(value)

    def _piece(self, node: ast.expr) -> str:
        if not isinstance(node, ast.FormattedValue):
            return self._string(node)
        if node.conversion not in (-1, ord("s")):
            raise NotConstantError(node, "its conversion is not known")
        value = self._inner(node.value)
        form = self._string(node.format_spec) if node.format_spec is not None else ""
        return _filled(node, lambda: formatted(value, form))

    def _dictionary(self, node: ast.Dict) -> dict[str, Value]:
        found: dict[str, Value] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                raise NotConstantError(value, "it is not a constant")
            found[self._string(key)] = self._inner(value)
        return found

    def _sum(self, node: ast.BinOp) -> Value:
        left, right = self._inner(node.left), self._inner(node.right)
        if isinstance(left, str) and isinstance(right, str):
            return _bounded(node, left + right)
        if isinstance(left, tuple) and isinstance(right, tuple) and len(left) + len(right) < _LIMIT:
            return left + right
        raise NotConstantError(node, "it adds what are not two strings")

    def _percent(self, node: ast.BinOp) -> str:
        template, values = self._string(node.left), self._inner(node.right)
        return _bounded(node, _filled(node, lambda: percent(template, values)))

    def _item(self, node: ast.Subscript) -> Value:
        whole, key = self._inner(node.value), self._inner(node.slice)
        if isinstance(whole, dict) and isinstance(key, str) and key in whole:
            return whole[key]
        if isinstance(whole, tuple | str) and isinstance(key, int) and -len(whole) <= key < len(whole):
            return whole[key]
        raise NotConstantError(node, "there is no such item")

    def _method(self, node: ast.Call, function: ast.Attribute) -> Value:
        if any(keyword.arg is None for keyword in node.keywords):
            raise NotConstantError(node, "it is not a constant")
        text = self._string(function.value)
        if function.attr == "format":
            return self._format(node, text)
        given = [self._inner(argument) for argument in node.args]
        match function.attr, given, node.keywords:
            case "replace", [str(old), str(new)], [] if old:
                if text.count(old) * len(new) > _LIMIT:
                    raise NotConstantError(node, f"it is longer than {_LIMIT} characters")
                return _bounded(node, text.replace(old, new))
            case "split", [str(separator)], [] if separator:
                return tuple(text.split(separator))
            case "join", [tuple(parts)], [] if all(isinstance(part, str) for part in parts):
                joined = [str(part) for part in parts]
                if sum(len(part) + len(text) for part in joined) > 2 * _LIMIT:
                    raise NotConstantError(node, f"it is longer than {_LIMIT} characters")
                return _bounded(node, text.join(joined))
            case "lower", [], []:
                return text.lower()
            case "upper", [], []:
                return text.upper()
        raise NotConstantError(node, f"the call of .{function.attr} is not understood")

    def _format(self, node: ast.Call, template: str) -> str:
        given = [self._inner(argument) for argument in node.args]
        named = {str(keyword.arg): self._inner(keyword.value) for keyword in node.keywords}
        return _bounded(node, _filled(node, lambda: braces(template, given, named)))


def _filled(node: ast.AST, fill: Callable[[], str]) -> str:
    try:
        return fill()
    except ValueError as error:
        raise NotConstantError(node, str(error)) from None


def _bounded(node: ast.AST, text: str) -> str:
    if len(text) > _LIMIT:
        raise NotConstantError(node, f"it is longer than {_LIMIT} characters")
    return text
