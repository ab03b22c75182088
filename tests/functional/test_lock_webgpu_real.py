"""The shipped toolchains against the real repositories of emsdk, Emscripten and Dawn, where these are at hand.

LOCKBUILD_TEST_EMSDK, LOCKBUILD_TEST_EMSCRIPTEN and LOCKBUILD_TEST_DAWN name bare repositories on this machine.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.command import lockbuild

REPOSITORIES = {
    "LOCKBUILD_TEST_EMSDK": "https://github.com/emscripten-core/emsdk",
    "LOCKBUILD_TEST_EMSCRIPTEN": "https://github.com/emscripten-core/emscripten",
    "LOCKBUILD_TEST_DAWN": "https://dawn.googlesource.com/dawn",
}
pytestmark = [
    pytest.mark.slow,
    pytest.mark.network,
    pytest.mark.skipif(
        not all(name in os.environ for name in REPOSITORIES), reason=f"{', '.join(REPOSITORIES)} are not set"
    ),
]


def run(directory: Path, *arguments: str | Path) -> None:
    config = directory / "config.toml"
    config.write_text(
        "".join(
            f'[[mirrors]]\nprefix = "{url}"\nto = ["file://{os.environ[name]}"]\n'
            for name, url in REPOSITORIES.items()
        )
    )
    environ = {"LOCKBUILD_CONFIG": str(config)}
    lockbuild("--store", directory / "store", *arguments, environ=environ, cwd=directory)


def test_executorch_is_locked_without_downloading_an_archive(tmp_path: Path) -> None:
    lock = tmp_path / "executorch.lock"
    arguments = ("lock", "--allow-expired", "--toolchain", "executorch-webgpu", "-o", lock)
    run(tmp_path, *arguments)
    text = lock.read_text()
    for known in (
        "8b01e2ec3f33e6b94842096d7312ce4ef5f33f6c",
        "sha256:f83aa5ee648a4591ddbfcbd19a3040056c9c5a846adb2b9c342b37f2dd557f82",
        "sha256:75c040b3463e58ba1fc15c18878327ef678a5f64621378cf2899aa4cf54c1dab",
        'version = "v20251002.162335"',
        "ed15672c2c495a77c764929e6979f4e155bf8b9c46dee5b0f234f3208a708bc2b846d89eef345b725d03454b56d549531f48fc8",
        "01940842b667a7812d0e4ca0ef4367fbec294241",
    ):
        assert known in text, known
    assert "file://" not in text
    assert 'trust = "first-use"' not in text
    lock.unlink()
    run(tmp_path, *arguments)
    assert lock.read_text() == text


def test_another_emscripten_brings_its_own_bindings(tmp_path: Path) -> None:
    (tmp_path / "newer.toml").write_text(
        'schema = 1\nname = "newer"\nextends = "executorch-webgpu"\n[tools.emscripten]\nversion = "6.0.5"\n'
    )
    lock = tmp_path / "newer.lock"
    run(tmp_path, "lock", "--allow-expired", "--toolchain", "./newer.toml", "-o", lock)
    text = lock.read_text()
    assert "dbd755b5da399329c2576f6e3dfa7f419f5d8409" in text
    assert 'version = "v20260423.175430"' in text
    assert 'dawn = "b975919d' in text


@pytest.mark.parametrize(
    ("asked", "tag", "commit"),
    [
        ("", "v20260423.175430", "b975919d"),
        ('version = "v20251002.162335"', "v20251002.162335", "01940842b667a7812d0e4ca0ef4367fbec294241"),
    ],
)
def test_dawn_without_the_port(tmp_path: Path, asked: str, tag: str, commit: str) -> None:
    (tmp_path / "t.toml").write_text(
        'schema = 1\nname = "t"\nplatforms = ["linux/amd64"]\n[base.debian]\nsuite = "forky"\n'
        'packages = ["python3"]\n[tools.sdk]\nfrom = "emsdk"\nversion = "6.0.5"\n'
        f'[tools.dawn]\nfrom = "dawn"\nexclude = ["third_party/gn/webgpu-cts"]\n{asked}\n'
    )
    lock = tmp_path / "t.lock"
    run(tmp_path, "lock", "--allow-expired", "--toolchain", "./t.toml", "-o", lock)
    text = lock.read_text()
    assert f'tag = "{tag}"' in text
    assert f'commit = "{commit}' in text
    assert 'exclude = ["third_party/gn/webgpu-cts"]' in text
