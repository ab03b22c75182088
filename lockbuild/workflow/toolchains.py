"""Finding and reading toolchain manifests: those that are shipped, those of a project, and what they extend."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lockbuild
from lockbuild.errors import InvalidFileError, Problem, UsageError
from lockbuild.model.manifest import SCHEMA, Toolchain
from lockbuild.model.overlay import Origin, Overlay, unfounded
from lockbuild.model.overrides import Overrides
from lockbuild.model.read import parse_toml, validate
from lockbuild.reading import read_regular

_WHOLE = {"tools": ("from",), "derive": ("steps",)}
"""What a table must have to be a new tool, and not a change of one that is there."""


@dataclass(frozen=True, slots=True)
class ToolchainFiles:
    """A toolchain as its files say it, the one that extends the others last; not checked as a whole yet."""

    overlay: Overlay
    files: tuple[Path, ...]

    def toolchain(self) -> Toolchain:
        """The toolchain; InvalidFileError, which names the file of each problem."""
        try:
            return validate(Toolchain, self.overlay.data, self.overlay.origins[""].file)
        except InvalidFileError as error:
            raise self.overlay.told(error) from None

    def overridden(self, overrides: Overrides, file: Path) -> ToolchainFiles:
        """With the ``[overrides]`` of the project manifest ``file`` on top."""
        over = overrides.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        return ToolchainFiles(_over(self.overlay, over, Origin(str(file), "overrides")), self.files)


def read_toolchain(name: str, directory: Path, *, on: Path, key: str) -> ToolchainFiles:
    """The toolchain called ``name``, or at that path from ``directory``, with all that it extends.

    ``on`` and ``key`` say who asks for it. UsageError where it is not there, or extends itself.
    """
    return _read(toolchain_file(name, directory, on=on, key=key), ())


def read_toolchain_file(file: Path) -> ToolchainFiles:
    """The toolchain that stands in ``file``, with all that it extends."""
    return _read(file, ())


def _read(file: Path, extending: tuple[Path, ...]) -> ToolchainFiles:
    data = read_tables(file)
    origin = Origin(str(file))
    _check_schema(data, file)
    wanted = data.pop("extends", None)
    if wanted is None:
        return ToolchainFiles(Overlay.of(data, origin), (file,))
    if not isinstance(wanted, str) or not wanted:
        raise InvalidFileError(str(file), [Problem("extends", "must be the name or path of a toolchain")])
    if "name" not in data:
        raise InvalidFileError(str(file), [Problem("name", "is required")])
    below = toolchain_file(wanted, file.parent, on=file, key="extends")
    chain = (*extending, file)
    same = [known for known in chain if known.resolve() == below.resolve()]
    if same:
        round_ = " -> ".join(path.name for path in (*chain[chain.index(same[0]) :], below))
        raise InvalidFileError(str(file), [Problem("extends", f"a toolchain cannot extend itself: {round_}")])
    found = _read(below, chain)
    merged = _over(found.overlay, data, origin)
    return ToolchainFiles(Overlay(merged.data, {**merged.origins, "": origin}), (*found.files, file))


def _over(under: Overlay, over: Mapping[str, Any], origin: Origin) -> Overlay:
    if wrong := list(unfounded(under.data, over, _WHOLE)):
        raise InvalidFileError(
            origin.file, [Problem(origin.key(problem.key), problem.message) for problem in wrong]
        )
    return under.extended(over, origin)


def _check_schema(data: Mapping[str, Any], file: Path) -> None:
    """Each file says for itself which version of the format it is in."""
    found = data.get("schema")
    if found == SCHEMA and not isinstance(found, bool):
        return
    what = "is required" if found is None else f"must be {SCHEMA}, not {found!r}"
    raise InvalidFileError(str(file), [Problem("schema", what)])


def shipped_toolchains() -> dict[str, Path]:
    """The toolchain manifests that come with lockbuild, by name."""
    package = Path(lockbuild.__file__).parent
    for directory in (package / "data" / "toolchains", package.parent / "toolchains"):
        if directory.is_dir():
            return {file.stem: file for file in sorted(directory.glob("*.toml"))}
    return {}


def toolchain_file(name: str, directory: Path, *, on: Path | None, key: str) -> Path:
    """Where the toolchain called ``name`` stands: a path from ``directory``, or a shipped one."""
    if "/" in name or name.endswith(".toml"):
        file = directory / name
        if not file.exists():
            raise UsageError(
                f"{key}: there is no file {name!r}",
                on=None if on is None else str(on),
                hint=f"make it at {file}, or name a shipped toolchain: {', '.join(shipped_toolchains())}",
            )
        return file
    shipped = shipped_toolchains()
    if name in shipped:
        return shipped[name]
    close = difflib.get_close_matches(name, shipped, n=1)
    meant = f"did you mean {close[0]!r}? " if close else ""
    raise UsageError(
        f"{key}: there is no toolchain {name!r} (shipped: {', '.join(shipped) or 'none'})",
        on=None if on is None else str(on),
        hint=f"{meant}A toolchain of your own is named by its path, as ./toolchain.toml",
    )


def read_tables(file: Path) -> dict[str, Any]:
    """The tables of a TOML file; UsageError where it is not there or not UTF-8 text."""
    text = read_text(file)
    if text is None:
        raise UsageError("there is no such file", on=str(file))
    return parse_toml(text, str(file))


def read_text(file: Path) -> str | None:
    """The text of a UTF-8 file; None where there is none."""
    try:
        return read_regular(file).decode("utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise UsageError(f"it is not UTF-8 text (byte {error.start})", on=str(file)) from None
    except OSError as error:
        raise UsageError(f"it cannot be read: {error.strerror}", on=str(file)) from None
