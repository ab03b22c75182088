from __future__ import annotations

from pathlib import Path

import pytest

from lockbuild.environment.rootfs import locate


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    (root / "usr/bin").mkdir(parents=True)
    (root / "usr/bin/sh").touch()
    (root / "bin").symlink_to("usr/bin")
    (root / "absolute").symlink_to("/usr/bin/sh")
    (root / "up").symlink_to("../../../../usr/bin")
    (root / "circle").symlink_to("circle")
    (root / "dangling").symlink_to("/etc/passwd")
    (tmp_path / "outside").touch()
    (root / "out").symlink_to("../outside")
    return root


@pytest.mark.parametrize(
    "name", ["/usr/bin/sh", "/bin/sh", "/absolute", "/up/sh", "bin/../bin/sh", "/../usr/bin/sh"]
)
def test_names_are_resolved_inside(root: Path, name: str) -> None:
    assert locate(root, name) == root / "usr/bin/sh"


@pytest.mark.parametrize("name", ["/circle", "/dangling", "/out", "/usr/bin/sh/x", "/absent/x"])
def test_what_is_not_inside_is_nowhere(root: Path, name: str) -> None:
    assert locate(root, name) is None
