"""What a port of Emscripten consists of: ``tools/ports/NAME.py``, read as a syntax tree and never run.

A port says where its archive is and what its SHA-512 is in one of two ways: a call of ``ports.fetch_project`` (or
``fetch_port_artifact``) in one of its functions, or for a remote port, whose port file is itself in the archive, the
constants ``EXTERNAL_PORT`` and ``SHA512``. Its dependencies are the constant ``deps`` and what functions append to
it, depending on settings.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from lockbuild.errors import ResolveError
from lockbuild.resolve.emscripten.constant import NotConstantError, Scope
from lockbuild.resolve.emscripten.syntax import parse_python
from lockbuild.resolve.emscripten.templates import Value

LIMIT = 1 << 20
"""Bytes; the largest real port file has 15 thousand."""
_FETCHES = ("fetch_project", "fetch_port_artifact")
_VERSIONS = ("_VERSION", "VERSION", "TAG")
_SHA512 = re.compile(r"[0-9a-f]{128}")
_PORT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
_URL = re.compile(r"https?://[^\s/]+/\S*[^\s/]")
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")


@dataclass(frozen=True, slots=True)
class PortArchive:
    """An archive that Emscripten unpacks as ``directory`` among its ports; ``sha512`` where it says so."""

    directory: str
    url: str
    sha512: str | None


@dataclass(frozen=True, slots=True)
class PortFile:
    """What a port file says.

    ``dependencies`` are all that it may need, whatever the settings. ``remote`` is the path of the real port file
    in the archive, for a remote port. ``inner`` is the one directory of the archive that it builds from, where
    that can be told.
    """

    name: str
    version: str | None
    archives: tuple[PortArchive, ...]
    dependencies: tuple[str, ...]
    remote: str | None
    inner: str | None


def parse(data: bytes, name: str, origin: str, *, version: str | None = None) -> PortFile:
    """Read the port ``name``; with ``version`` as it would read if that were the version in it.

    ResolveError, naming file and line, where what matters is not written down as a constant, or where the version
    cannot be replaced.
    """
    if len(data) > LIMIT:
        raise ResolveError(f"is larger than {LIMIT} bytes", on=origin, hint="look at what the mirror serves")
    module = parse_python(data, origin)
    try:
        port = _Port(module, name, origin, Scope(module)).read()
        if version is None:
            return port
        constant = _version_constant(module, origin)
        replaced = Scope(module, replacements={constant: version})
        return _Port(module, name, origin, replaced).read()
    except NotConstantError as error:
        raise ResolveError(
            f"cannot be read as data: {error.why}",
            on=f"{origin}:{error.line}",
            hint='name its archive yourself: from = "archive"',
        ) from None
    except RecursionError:
        raise ResolveError("cannot be read as data: it is nested too deeply", on=origin) from None


class _Port:
    def __init__(self, module: ast.Module, name: str, origin: str, scope: Scope) -> None:
        self._module = module
        self._name = name
        self._origin = origin
        self._scope = scope

    def read(self) -> PortFile:
        external = _assignment(self._module, "EXTERNAL_PORT")
        remote = None
        if external is not None:
            archives = [self._external(external)]
            port_file = _assignment(self._module, "PORT_FILE")
            remote = self._text(port_file, self._scope) if port_file is not None else None
        else:
            archives = [self._archive(call, scope) for call, scope in _fetches(self._module, self._scope)]
        return PortFile(
            name=self._name,
            version=self._version(),
            archives=tuple(dict.fromkeys(archives)),
            dependencies=tuple(dict.fromkeys(self._dependencies())),
            remote=remote,
            inner=self._inner(),
        )

    def _external(self, node: ast.expr) -> PortArchive:
        digest = _assignment(self._module, "SHA512")
        sha512 = self._digest(digest, self._scope) if digest is not None else None
        return PortArchive(self._name, self._url(node, self._scope), sha512)

    def _archive(self, call: ast.Call, scope: Scope) -> PortArchive:
        named = {keyword.arg: keyword.value for keyword in call.keywords}
        directory, url = (_argument(call, named, at, key) for at, key in enumerate(("name", "url")))
        digest = named.get("sha512hash")
        if digest is None and len(call.args) > 2:
            # Before the summer of 2021 the third was a directory; a digest cannot be taken for one.
            value = scope.value(call.args[2])
            digest = call.args[2] if isinstance(value, str) and _SHA512.fullmatch(value) else None
        text = self._text(directory, scope)
        if not _PORT.fullmatch(text):
            raise self._wrong(directory, f"{text!r} is not the name of a directory")
        return PortArchive(
            text, self._url(url, scope), self._digest(digest, scope) if digest is not None else None
        )

    def _url(self, node: ast.expr, scope: Scope) -> str:
        text = self._text(node, scope)
        if not _URL.fullmatch(text):
            raise self._wrong(node, f"{text!r} is not the URL of an archive")
        return text

    def _digest(self, node: ast.expr, scope: Scope) -> str | None:
        value = scope.value(node)
        if value is None:
            return None
        if not isinstance(value, str) or not _SHA512.fullmatch(value.lower()):
            raise self._wrong(node, f"{value!r} is not a SHA-512")
        return value.lower()

    def _text(self, node: ast.expr, scope: Scope) -> str:
        value = scope.value(node)
        if not isinstance(value, str):
            raise self._wrong(node, "a string is needed")
        return value

    def _version(self) -> str | None:
        for constant in _VERSIONS:
            node = _assignment(self._module, constant)
            if node is not None:
                return _written(self._scope.value(ast.Name(constant, ast.Load(), lineno=node.lineno)))
        return None

    def _dependencies(self) -> Iterator[str]:
        declared = _assignment(self._module, "deps")
        if declared is not None:
            yield from self._ports(declared, self._scope)
        for node, scope in _scoped(self._module, self._scope):
            match node:
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id="deps"), attr="append"), args=[one], keywords=[]
                ):
                    yield self._port(one, self._text(one, scope))
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id="deps"), attr="extend"), args=[many], keywords=[]
                ):
                    yield from self._ports(many, scope)
                case ast.AugAssign(target=ast.Name(id="deps"), op=ast.Add(), value=many):
                    yield from self._ports(many, scope)

    def _ports(self, node: ast.expr, scope: Scope) -> Iterator[str]:
        value = scope.value(node)
        if not isinstance(value, tuple):
            raise self._wrong(node, "a list of ports is needed")
        for item in value:
            yield self._port(node, item)

    def _port(self, node: ast.expr, value: Value) -> str:
        # A dependency may carry options: "sdl2_image:formats=jpg".
        name = value.partition(":")[0] if isinstance(value, str) else ""
        if not _PORT.fullmatch(name):
            raise self._wrong(node, f"{value!r} is not a port")
        return name

    def _inner(self) -> str | None:
        found: set[str] = set()
        for node, scope in _scoped(self._module, self._scope):
            match node:
                case ast.Call(func=ast.Attribute(attr="get_dir"), args=[first, second], keywords=[]):
                    try:
                        if scope.value(first) == self._name:
                            found.add(self._text(second, scope))
                    except (NotConstantError, ResolveError):
                        return None
        return found.pop() if len(found) == 1 else None

    def _wrong(self, node: ast.expr, what: str) -> ResolveError:
        return ResolveError(what, on=f"{self._origin}:{node.lineno}")


def _version_constant(module: ast.Module, origin: str) -> str:
    """The one constant that decides the URL; ResolveError where there is not one."""
    scope = Scope(module)
    external = _assignment(module, "EXTERNAL_PORT")
    urls = (
        [(external, scope)]
        if external is not None
        else [
            (_argument(call, {keyword.arg: keyword.value for keyword in call.keywords}, 1, "url"), inner)
            for call, inner in _fetches(module, scope)
        ]
    )
    constants = sorted({constant for node, inner in urls for constant in inner.literals(node)})
    if len(constants) != 1 or not isinstance(scope.value(ast.Name(constants[0], ast.Load(), lineno=0)), str):
        made = " and ".join(constants) or "no constant"
        raise ResolveError(
            f"the version of this port cannot be replaced: its URL is made of {made}",
            on=origin,
            hint='use the version that Emscripten pins, or name the archive yourself: from = "archive"',
        )
    return constants[0]


def is_version(text: str) -> bool:
    """Whether ``text`` can stand for a version in a URL."""
    return _VERSION.fullmatch(text) is not None


def _assignment(module: ast.Module, name: str) -> ast.expr | None:
    """What the module assigns to ``name`` (at its top, the first time)."""
    for statement in module.body:
        targets = statement.targets if isinstance(statement, ast.Assign) else ()
        if isinstance(statement, ast.AnnAssign):
            targets = [statement.target]
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            assert isinstance(statement, ast.Assign | ast.AnnAssign)
            return statement.value
    return None


def _fetches(module: ast.Module, scope: Scope) -> Iterator[tuple[ast.Call, Scope]]:
    for node, inner in _scoped(module, scope):
        match node:
            case ast.Call(func=ast.Attribute(attr=attribute)) if attribute in _FETCHES:
                yield node, inner


def _scoped(module: ast.Module, scope: Scope) -> Iterator[tuple[ast.AST, Scope]]:
    """Every node with the scope that it stands in, in the order of the file."""
    pending: list[tuple[ast.AST, Scope]] = [(module, scope)]
    while pending:
        node, around = pending.pop()
        yield node, around
        inner = Scope(node, around) if isinstance(node, ast.FunctionDef) else around
        pending.extend((child, inner) for child in reversed(list(ast.iter_child_nodes(node))))


def _argument(call: ast.Call, named: dict[str | None, ast.expr], at: int, key: str) -> ast.expr:
    if len(call.args) > at:
        return call.args[at]
    if key in named:
        return named[key]
    raise NotConstantError(call, f"the call of fetch_project says no {key}")


def _written(value: Value) -> str | None:
    """A version as people write it: ``(3, 39, 0)`` is 3.39.0."""
    if isinstance(value, tuple) and all(isinstance(part, str | int) for part in value):
        return ".".join(str(part) for part in value)
    return str(value) if isinstance(value, str | int) else None
