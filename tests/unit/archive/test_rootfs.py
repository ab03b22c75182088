from __future__ import annotations

from pathlib import Path

import pytest

from lockbuild.archive.rootfs import View, locate, mounted_directory, plain_directory
from lockbuild.errors import IntegrityError
from lockbuild.model.digest import Digest
from lockbuild.model.environment import MountedTree


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


def test_a_file_has_nothing_below_it(root: Path) -> None:
    assert locate(root, "/usr/bin/sh/.") == root / "usr/bin/sh"
    assert locate(root, "/usr/bin/sh/..") is None
    assert locate(root, "/" + "x" * 300) is None


def mounted(directory: Path, name: str, mount: str) -> MountedTree:
    return MountedTree(name, Digest.of(name.encode()), mount, directory)


@pytest.fixture
def trees(root: Path, tmp_path: Path) -> list[MountedTree]:
    """The root, and two tools; nothing of either stands at its name on the host."""
    words, other = tmp_path / "words", tmp_path / "other"
    (words / "opt/lb-words/real").mkdir(parents=True)
    (words / "opt/lb-words/real/tool").touch()
    (other / "opt/lb-other/lib").mkdir(parents=True)
    for link, target in {
        "words/opt/lb-words/bin": "/opt/lb-words/real",
        "words/opt/lb-words/sh": "/bin/sh",
        "words/opt/lb-words/lib": "../lb-other/lib",
        "words/opt/lb-words/passwd": "/etc/passwd",
        "root/tools": "/opt/lb-words",
    }.items():
        (tmp_path / link).symlink_to(target)
    (root / "opt").mkdir()
    return [
        mounted(root, "base", "/"),
        mounted(words, "w", "/opt/lb-words"),
        mounted(other, "o", "/opt/lb-other"),
    ]


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("/opt/lb-words/bin/tool", "words/opt/lb-words/real/tool"),
        ("/tools/bin", "words/opt/lb-words/real"),
        ("/opt/lb-words/sh", "root/usr/bin/sh"),
        ("/opt/lb-words/lib", "other/opt/lb-other/lib"),
        ("/opt/lb-words/../lb-other", "other/opt/lb-other"),
        ("/opt/lb-words/passwd", None),
        ("/opt/absent", None),
        ("/etc/passwd", None),
    ],
)
def test_names_are_resolved_among_what_is_mounted(
    trees: list[MountedTree], tmp_path: Path, name: str, found: str | None
) -> None:
    assert View(trees).locate(name) == (tmp_path / found if found else None)


def test_what_is_mounted_needs_no_directory_in_the_root(trees: list[MountedTree], tmp_path: Path) -> None:
    (tmp_path / "root/opt").rmdir()
    assert View(trees).locate("/opt/lb-words/bin") == tmp_path / "words/opt/lb-words/real"
    assert View(trees).locate("/opt") is None, "no directory of any tree"
    assert View(trees[1:]).locate("/opt/lb-words/lib") == tmp_path / "other/opt/lb-other/lib"
    assert View(trees[1:]).locate("/opt/lb-words/sh") is None


@pytest.mark.parametrize("link", ["opt/words", "opt"])
def test_a_mount_is_a_directory_to_which_no_link_leads(tmp_path: Path, link: str) -> None:
    (tmp_path / "secret/words").mkdir(parents=True)
    (tmp_path / "tree" / link).parent.mkdir(parents=True)
    (tmp_path / "tree" / link).symlink_to(tmp_path / "secret")
    assert plain_directory(tmp_path / "tree", "/opt/words") is None
    with pytest.raises(IntegrityError, match="has no directory /opt/words, or a link leads there"):
        mounted_directory(mounted(tmp_path / "tree", "derive.words", "/opt/words"))
    with pytest.raises(IntegrityError, match="has no directory /opt/words, or a link leads there"):
        View([mounted(tmp_path / "tree", "derive.words", "/opt/words")])


def test_a_plain_directory(root: Path) -> None:
    assert plain_directory(root, "/usr/bin") == root / "usr/bin"
    assert plain_directory(root, "/") == root
    for name in ("/bin", "/usr/bin/sh", "/absent", "/usr/../usr"):
        assert plain_directory(root, name) is None
