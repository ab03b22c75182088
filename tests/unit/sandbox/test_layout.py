"""Putting a sandbox's root together."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lockbuild.errors import SandboxError
from lockbuild.sandbox.layout import Mount, compose, read_only_paths


@pytest.fixture
def base(tmp_path: Path) -> Path:
    root = tmp_path / "base"
    for name in ("usr/bin", "usr/lib", "etc", "opt/vendor", "var/tmp", "tmp", "proc/odd", "dev"):
        (root / name).mkdir(parents=True)
    (root / "bin").symlink_to("usr/bin")
    (root / "odd").symlink_to("./usr/../usr/")
    (root / "top").write_text("#!/bin/sh\n")
    (root / "top").chmod(0o755)
    return root


def composed(base: Path, mounts: list[Mount]) -> tuple[list[str], list[str]]:
    """Mounts as ``target <- source`` below the test's directory, and what the skeleton holds."""
    here = base.parent
    made = compose(base, mounts, here / "skeleton")
    shown = [f"{mount.target} <- {mount.source.relative_to(here)}" for mount in made]
    skeleton = here / "skeleton"
    return shown, sorted(path.relative_to(skeleton).as_posix() for path in skeleton.rglob("*"))


def test_a_base_alone(base: Path) -> None:
    mounts, skeleton = composed(base, [])
    assert mounts == [
        *("/ <- skeleton", "/etc <- base/etc", "/opt <- base/opt", "/tmp <- base/tmp"),
        *("/usr <- base/usr", "/var <- base/var"),
    ]
    assert skeleton == ["bin", "dev", "etc", "odd", "opt", "proc", "sys", "tmp", "top", "usr", "var"]
    at = base.parent / "skeleton"
    assert os.readlink(at / "odd") == "./usr/../usr/"
    assert (at / "top").stat().st_mode & 0o777 == 0o755
    assert {path.lstat().st_mtime for path in [at, *at.rglob("*")]} == {0}


def test_mounts_where_the_base_has_no_directory(base: Path, tmp_path: Path) -> None:
    mounts, skeleton = composed(
        base,
        [
            Mount(tmp_path / "tool", "/opt/tool"),
            Mount(tmp_path / "b", "/build/build", writable=True),
            Mount(tmp_path / "t", "/tmp", writable=True),
            Mount(tmp_path / "v", "/var/tmp", writable=True),
        ],
    )
    assert mounts == [
        *("/ <- skeleton", "/etc <- base/etc", "/opt/vendor <- base/opt/vendor", "/usr <- base/usr"),
        *("/var <- base/var", "/build/build <- b", "/opt/tool <- tool", "/tmp <- t", "/var/tmp <- v"),
    ]
    assert [name for name in skeleton if "/" in name] == ["build/build", "opt/tool", "opt/vendor"]


def test_the_callers_umask_does_not_matter(base: Path, tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        composed(base, [Mount(tmp_path / "tool", "/opt/tool")])
    finally:
        os.umask(before)
    at = tmp_path / "skeleton"
    modes = {path.stat().st_mode & 0o777 for path in [at, *at.rglob("*")] if not path.is_symlink()}
    assert modes == {0o755}


def test_a_mount_inside_another(base: Path, tmp_path: Path) -> None:
    (tmp_path / "outer/there").mkdir(parents=True)
    (tmp_path / "put").mkdir()
    mounts, _ = composed(
        base,
        [
            Mount(tmp_path / "inner", "/build/outer/there"),
            Mount(tmp_path / "outer", "/build/outer"),
            Mount(tmp_path / "put", "/build/put", writable=True),
            Mount(tmp_path / "inner", "/build/put/new/deep"),
        ],
    )
    assert mounts[-4:] == [
        "/build/outer <- outer",
        "/build/outer/there <- inner",
        "/build/put <- put",
        "/build/put/new/deep <- inner",
    ]
    assert (tmp_path / "put/new/deep").is_dir()


@pytest.mark.parametrize("target", ["/", "relative", "/build/../etc"])
def test_no_place_for_a_mount(base: Path, tmp_path: Path, target: str) -> None:
    with pytest.raises(SandboxError, match="is not a place for a mount"):
        composed(base, [Mount(tmp_path, target)])


def test_a_mount_below_a_link_of_the_base(base: Path, tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match="/bin is a symbolic link in the base tree"):
        composed(base, [Mount(tmp_path, "/bin/tool")])


def test_a_mount_over_a_link_of_the_base(base: Path, tmp_path: Path) -> None:
    mounts, _ = composed(base, [Mount(tmp_path / "x", "/bin")])
    assert mounts[-1] == "/bin <- x"
    assert (tmp_path / "skeleton/bin").is_dir()
    assert not (tmp_path / "skeleton/bin").is_symlink()


def test_read_only_paths_cover_all_but_what_is_writable(base: Path, tmp_path: Path) -> None:
    tool = tmp_path / "tool"
    (tool / "opt/tool/bin").mkdir(parents=True)
    assert read_only_paths([base, tool], ["/build/build"]) == ["/etc", "/opt", "/tmp", "/usr", "/var"]
    assert read_only_paths([base, tool], ["/tmp", "/opt/derived", "/var/tmp"]) == [
        *("/etc", "/opt/tool", "/opt/vendor", "/usr")
    ]
