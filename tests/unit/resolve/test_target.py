"""The environment's Python and glibc, and the tags that follow."""

from __future__ import annotations

import pytest
from packaging.markers import default_environment
from packaging.tags import Tag

from lockbuild.model.digest import Digest
from lockbuild.model.lock import Source
from lockbuild.model.platform import Platform
from lockbuild.resolve import TargetPython, target_of

AMD = Platform.parse("linux/amd64")
ARM = Platform.parse("linux/arm64")


def source(purl: str, tree: str) -> Source:
    return Source(purl=purl, path="pool/x", sha256=Digest.of(purl.encode()), trees=[tree])


SOURCES = [
    source("pkg:deb/debian/python3@3.14.7-3?arch=amd64&distro=forky", "linux/amd64:base"),
    source("pkg:deb/debian/python3-minimal@3.9.0-1?arch=amd64&distro=forky", "linux/amd64:base"),
    source("pkg:deb/debian/libc6@2.43-7?arch=amd64&distro=forky", "linux/amd64:base"),
    source("pkg:deb/debian/libc6-dev@2.1-7?arch=amd64&distro=forky", "linux/amd64:base"),
    source("pkg:deb/debian/python3@1%3A3.15.0~rc2-1?arch=arm64&distro=sid", "linux/arm64:base"),
]


def test_read_from_the_locked_packages_of_the_platform() -> None:
    assert target_of(SOURCES, AMD) == TargetPython((3, 14, 7), (2, 43))
    assert target_of(SOURCES, ARM) == TargetPython((3, 15, 0), None)
    assert target_of([], AMD) == TargetPython(None, None)


def test_platform_tags_reach_up_to_the_environments_glibc() -> None:
    tags = list(TargetPython((3, 14, 7), (2, 18)).platform_tags(AMD))
    assert tags[:4] == [
        "manylinux_2_18_x86_64",
        "manylinux_2_17_x86_64",
        "manylinux2014_x86_64",
        "manylinux_2_16_x86_64",
    ]
    assert tags[-3:] == ["manylinux_2_5_x86_64", "manylinux1_x86_64", "linux_x86_64"]
    assert list(TargetPython((3, 14, 7), (2, 18)).platform_tags(ARM)) == [
        "manylinux_2_18_aarch64",
        "manylinux_2_17_aarch64",
        "manylinux2014_aarch64",
        "linux_aarch64",
    ]
    assert list(TargetPython((3, 14, 7), None).platform_tags(AMD)) == []


@pytest.mark.parametrize("version", [(3, 9, 2), (3, 13, 0), (3, 15, 1)])
def test_tags_know_nothing_of_this_python(version: tuple[int, int, int]) -> None:
    short = f"{version[0]}{version[1]}"
    tags = list(TargetPython(version, (2, 41)).tags(AMD))
    assert tags[0] == Tag(f"cp{short}", f"cp{short}", "manylinux_2_41_x86_64")
    assert Tag("py3", "none", "any") in tags
    assert {tag.interpreter for tag in tags if tag.abi == f"cp{short}"} == {f"cp{short}"}
    newer = {f"cp3{minor}" for minor in range(version[1] + 1, 30)}
    assert not newer & {tag.interpreter for tag in tags}
    assert not [tag for tag in tags if "aarch64" in tag.platform or "manylinux_2_42" in tag.platform]


def test_markers_are_complete_so_that_nothing_of_the_host_shows_through() -> None:
    markers = TargetPython((3, 14, 7), (2, 41)).markers(ARM)
    assert set(markers) == set(default_environment())
    assert markers["python_full_version"] == "3.14.7"
    assert markers["python_version"] == "3.14"
    assert markers["platform_machine"] == "aarch64"
