"""Archives trusted on first use, parts of them, and patches of the project, from manifest to build."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.support.tiny import TinyWorld, tiny_world

PATCH = "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-upstream\n+patched\n"


def tarball(files: Mapping[str, str]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text.encode()))
    return gzip.compress(out.getvalue(), mtime=0)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[TinyWorld]:
    """The tiny world with a source whose archive nobody publishes a digest of."""
    with tiny_world(tmp_path) as made:
        url = made.server.add("/lib-1.tar.gz", tarball({"lib-1/src/f": "upstream\n", "lib-1/other": ""}))
        made.edit(
            "lockbuild.toml",
            'outputs = ["out.txt", "lib/*.txt"]\n',
            'outputs = ["out.txt", "lib/*.txt"]\n\n[sources.lib]\nfrom = "archive"\n'
            f'url = "{url}"\ntrust = "first-use"\nsubdirectory = "src"\npatches = ["fix.patch"]\n',
        )
        made.edit("lockbuild.toml", "cat $WORDS $SOURCE/main.txt", "cat /build/sources/lib/f")
        (made.project / "fix.patch").write_text(PATCH)
        yield made


def lock_text(world: TinyWorld) -> str:
    return (world.project / "lockbuild.lock").read_text()


def test_from_manifest_to_build(world: TinyWorld, tmp_path: Path) -> None:
    said = world.run("lock", "--materialise").err
    assert "nobody publishes a digest of http://127.0.0.1" in said
    text = lock_text(world)
    assert 'trust = "first-use"' in text
    assert 'parameters = { subdirectory = "src" }' in text
    world.run("build")
    assert (world.project / "dist/out.txt").read_text() == "patched\n"
    assert world.run("sync", "--json", store=tmp_path / "other").value["made"]
    world.run("lock")
    assert lock_text(world) == text


def test_what_was_trusted_binds_from_then_on(world: TinyWorld, tmp_path: Path) -> None:
    world.run("lock")
    world.server.files["/lib-1.tar.gz"] = tarball({"lib-1/src/f": "evil\n"})
    failed = world.run("sync", store=tmp_path / "other", status=5)
    assert "lib-1.tar.gz" in failed.err
    world.run("lock")
    failed = world.run("sync", store=tmp_path / "other", status=5)
    world.run("lock", "--upgrade", "lib")
    failed = world.run("sync", store=tmp_path / "other", status=2)
    assert "the patch does not fit" in failed.err
    assert "fix.patch: f" in failed.err


def test_a_changed_patch_makes_the_lock_stale(world: TinyWorld) -> None:
    world.run("lock", "--materialise")
    world.run("sync")
    before = lock_text(world)
    (world.project / "fix.patch").write_text(PATCH.replace("patched", "better"))
    for command in (["sync"], ["build"], ["lock", "--check"]):
        failed = world.run(*command, status=1)
        assert "fix.patch" in failed.err + failed.out, failed
    # What was trusted is not asked for again: only the patch changed.
    world.server.files.pop("/lib-1.tar.gz")
    world.run("lock", "--materialise")
    assert lock_text(world) != before
    world.run("build")
    assert (world.project / "dist/out.txt").read_text() == "better\n"
    (world.project / "fix.patch").unlink()
    assert "fix.patch (sources.lib) is gone" in world.run("sync", status=1).err


def test_another_key_does_not_make_it_trust_again(world: TinyWorld) -> None:
    world.run("lock")
    world.server.files["/lib-1.tar.gz"] = tarball({"lib-1/src/f": "evil\n"})
    asked = len(world.server.paths())
    world.edit("lockbuild.toml", 'patches = ["fix.patch"]\n', "")
    world.run("lock")
    assert "/lib-1.tar.gz" not in world.server.paths()[asked:]
    world.run("build")
    assert (world.project / "dist/out.txt").read_text() == "upstream\n"
