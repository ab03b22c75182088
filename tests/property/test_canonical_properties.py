"""Laws of the canonical tar: what it depends on, what it does not, and who can read it."""

from __future__ import annotations

import io
import os
import random
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lockbuild.archive.canonical import tree_digest, write_canonical_tar
from lockbuild.archive.canonical_reader import read_canonical_tar
from lockbuild.archive.extract import unpack_tar
from lockbuild.archive.treewriter import TreeWriter
from lockbuild.errors import IntegrityError

# A tree: name -> bytes and x bit (a file), None (an empty directory), or a str (a link's target).
File = tuple[bytes, bool]
Tree = dict[bytes, "File | str | Tree"]

_letters = st.sampled_from(
    [b"a", b"b", b"-", b".", b"/"[:0], b"\xff", "é".encode(), b"\n", b" ", b"\\", b"A"]
)
_names = st.builds(b"".join, st.lists(_letters, min_size=1, max_size=6)) | st.integers(95, 105).map(
    lambda length: b"n" * length
)
_good_names = _names.filter(lambda name: name not in (b"", b".", b".."))
_leaves = st.tuples(st.binary(max_size=1500), st.booleans()) | st.sampled_from(["a", "b/../a", "n" * 101])
_trees = st.recursive(
    st.dictionaries(_good_names, _leaves, max_size=4),
    lambda inner: st.dictionaries(_good_names, _leaves | inner, max_size=4),
    max_leaves=12,
)
_settings = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def plant(tree: Tree, root: bytes, chance: random.Random | None = None) -> None:
    """Make the tree on disk; with ``chance`` in any order, with any times, modes and leftovers."""
    names = list(tree)
    if chance is not None:
        chance.shuffle(names)
        for number in range(chance.randrange(3)):  # leave holes in the directory
            os.mkdir(root + b"/.hole%d" % number)
            os.rmdir(root + b"/.hole%d" % number)
    for name in names:
        path = root + b"/" + name
        value = tree[name]
        if isinstance(value, str):
            os.symlink(value, path)
        elif isinstance(value, dict):
            os.mkdir(path)
            plant(value, path, chance)
            if chance is not None:
                os.chmod(path, chance.choice([0o700, 0o755, 0o777, 0o1777, 0o2755]))
        else:
            data, executable = value
            with open(path, "wb") as file:
                file.write(data)
            modes = (
                ([0o711, 0o755, 0o4755, 0o654] if executable else [0o600, 0o644, 0o666, 0o4644])
                if chance
                else []
            )
            os.chmod(path, chance.choice(modes) if chance else 0o755 if executable else 0o644)
        if chance is not None:
            when = chance.randrange(10**18)
            os.utime(path, ns=(when, when), follow_symlinks=False)
            if os.geteuid() == 0:
                os.chown(path, chance.randrange(5), chance.randrange(5), follow_symlinks=False)


def flat(tree: Tree, prefix: bytes = b"") -> dict[bytes, object]:
    """Path -> value, directories as None."""
    found: dict[bytes, object] = {}
    for name, value in tree.items():
        found[prefix + name] = None if isinstance(value, dict) else value
        if isinstance(value, dict):
            found |= flat(value, prefix + name + b"/")
    return found


def read(root: Path) -> dict[bytes, object]:
    """What stands on disk, in the same form."""
    found: dict[bytes, object] = {}
    base = os.fsencode(root)
    for parent, directories, files in os.walk(base):
        for name in directories + files:
            path = os.path.join(parent, name)
            relative = os.path.relpath(path, base)
            if os.path.islink(path):
                found[relative] = os.readlink(path).decode()
            elif os.path.isdir(path):
                found[relative] = None
            else:
                with open(path, "rb") as file:
                    found[relative] = (file.read(), bool(os.stat(path).st_mode & 0o100))
    return found


def tar_of(root: Path) -> bytes:
    out = io.BytesIO()
    write_canonical_tar(root, out)
    return out.getvalue()


@_settings
@given(tree=_trees, seed=st.integers())
def test_depends_on_names_contents_targets_and_x_alone(tree: Tree, seed: int) -> None:
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        plant(tree, os.fsencode(one))
        plant(tree, os.fsencode(other), random.Random(seed))
        assert tar_of(Path(one)) == tar_of(Path(other))


@_settings
@given(tree=_trees, other=_trees)
def test_different_trees_have_different_digests(tree: Tree, other: Tree) -> None:
    with tempfile.TemporaryDirectory() as here, tempfile.TemporaryDirectory() as there:
        plant(tree, os.fsencode(here))
        plant(other, os.fsencode(there))
        same = flat(tree) == flat(other)
        assert (tree_digest(Path(here)) == tree_digest(Path(there))) == same


@_settings
@given(tree=_trees)
def test_gnu_tar_and_tarfile_and_our_own_reader_give_the_tree_back(tree: Tree) -> None:
    with tempfile.TemporaryDirectory() as top:
        root, gnu, python, own = (Path(top, name) for name in ("root", "gnu", "python", "own"))
        for directory in (root, gnu, python, own):
            directory.mkdir()
        plant(tree, os.fsencode(root))
        data = tar_of(root)
        done = subprocess.run(
            ["tar", "-xf-", "-C", str(gnu), "--no-same-owner"], input=data, capture_output=True, check=True
        )
        assert done.stderr == b""
        with tarfile.open(fileobj=io.BytesIO(data), encoding="utf-8", errors="surrogateescape") as archive:
            archive.extractall(python, filter="fully_trusted")
        assert read(gnu) == read(python) == flat(tree)
        with TreeWriter(own, origin="own", rooted=True) as writer:  # the targets lead anywhere
            unpack_tar(io.BytesIO(data), writer)
        assert read(own) == flat(tree)
        assert tar_of(own) == data


@_settings
@given(tree=_trees)
def test_the_archive_lists_in_the_order_of_path_bytes(tree: Tree) -> None:
    with tempfile.TemporaryDirectory() as root:
        plant(tree, os.fsencode(root))
        stream = io.BytesIO(tar_of(Path(root)))
        with tarfile.open(fileobj=stream, encoding="utf-8", errors="surrogateescape") as archive:
            names = [member.name.encode("utf-8", "surrogateescape") for member in archive]
        assert names == sorted(flat(tree))


def test_hash_seed_umask_and_locale_do_not_matter(tmp_path: Path) -> None:
    tree: Tree = {
        b"b": {b"x": (b"1", True), b"\xff": (b"2", False)},
        b"a": "b",
        "é".encode() * 60: (b"", False),
    }
    plant(tree, os.fsencode(tmp_path))
    program = (
        "import os, sys; os.umask(int(sys.argv[2], 8))\n"
        "from pathlib import Path; from lockbuild.archive.canonical import tree_digest\n"
        "print(tree_digest(Path(sys.argv[1])))"
    )
    printed = {
        subprocess.run(
            [sys.executable, "-c", program, str(tmp_path), umask],
            env={**os.environ, "PYTHONHASHSEED": seed, "LC_ALL": locale, "TZ": zone},
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()
        for seed, umask, locale, zone in (
            ("0", "022", "C", "UTC"),
            ("1", "077", "C.UTF-8", "Asia/Kathmandu"),
            ("4242", "000", "POSIX", "America/Lima"),
        )
    }
    assert printed == {str(tree_digest(tmp_path))}


@_settings
@given(_trees, st.integers(1, 3000), st.data())
def test_reading_is_the_inverse_of_writing_and_takes_nothing_else(
    tree: Tree, size: int, data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        root, copy = Path(directory, "tree"), Path(directory, "copy")
        root.mkdir()
        copy.mkdir()
        plant(tree, os.fsencode(root))
        out = io.BytesIO()
        write_canonical_tar(root, out)
        tar = out.getvalue()
        read_canonical_tar((tar[at : at + size] for at in range(0, len(tar), size)), copy, name="x")
        assert tree_digest(copy) == tree_digest(root)

        # With any byte changed it is refused, or it is the tar of another tree.
        at = data.draw(st.integers(0, len(tar) - 1))
        changed = tar[:at] + bytes([tar[at] ^ data.draw(st.integers(1, 255))]) + tar[at + 1 :]
        other = Path(directory, "other")
        other.mkdir()
        try:
            read_canonical_tar(iter([changed]), other, name="x")
        except IntegrityError:
            return
        out = io.BytesIO()
        write_canonical_tar(other, out)
        assert out.getvalue() == changed
