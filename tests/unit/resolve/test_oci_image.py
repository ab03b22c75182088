"""What of an image goes into a lock, and what is chosen beside it."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lockbuild.errors import IntegrityError, ResolveError
from lockbuild.model.digest import Digest
from lockbuild.model.image import read_config, read_manifest
from lockbuild.model.lock import LockedTree
from lockbuild.model.platform import Platform
from lockbuild.resolve import TargetPython, target_of
from lockbuild.resolve.age import remarks
from lockbuild.resolve.context import Resolution, ResolveContext
from lockbuild.resolve.debian.index import PackageIndex
from lockbuild.resolve.debian.installed import Installed, additions
from lockbuild.resolve.oci_image import moved, variables_of
from tests.support.images import Layer, file, image

AMD = Platform.parse("linux/amd64")


def tree(**pins: str) -> LockedTree:
    return LockedTree(name="base", platform=AMD, unpack="oci-root", mount="/", pins=pins)


def test_variables_that_are_taken_and_left() -> None:
    env = [
        *("PATH=/a:/b", "JAVA_HOME=/opt/java", "EMPTY=", "GPG_KEY=0123"),
        *("HOME=/root", "HOSTNAME=x", "USER=me", "LANG=de_DE.UTF-8", "SOURCE_DATE_EPOCH=1", "TZ=Mars"),
        *(
            "https_proxy=http://p",
            "NO_PROXY=x",
            "GITHUB_TOKEN=x",
            "DB_PASSWORD=x",
            "AWS_SECRET=x",
            "MY_API_KEY=x",
        ),
        *("bad-name=1", "1st=2", "OUTER=$OUT/x"),
    ]
    made = image(Layer.of(file("a")), env=env)
    manifest = read_manifest(made.manifest, on="x")
    exports, left_out = variables_of(read_config(made.blobs[str(manifest.config.digest)], manifest, on="x"))
    assert exports == {"PATH": "/a:/b", "JAVA_HOME": "/opt/java", "EMPTY": "", "GPG_KEY": "0123"}
    assert left_out == [
        *("https_proxy", "NO_PROXY", "GITHUB_TOKEN", "DB_PASSWORD", "AWS_SECRET", "MY_API_KEY"),
        *("bad-name", "1st", "OUTER"),
    ]


def test_only_the_same_reference_can_have_moved() -> None:
    then = Resolution((tree(reference="r.example/a:1", digest="sha256:1"),), ())
    now = Resolution((tree(reference="r.example/a:1", digest="sha256:2"),), ())
    other = Resolution((tree(reference="r.example/a:2", digest="sha256:2"),), ())
    assert moved(then, then) == moved(then, other) == []
    assert moved(then, now) == ["base: r.example/a:1 was sha256:1 when it was locked, and is sha256:2 now"]


def test_python_and_glibc_from_pins() -> None:
    assert target_of([], AMD, [tree(python="3.12", glibc="2.36")]) == TargetPython((3, 12, 0), (2, 36))
    assert target_of([], AMD, [tree(python="3.12.4", glibc="unknown")]) == TargetPython((3, 12, 4), None)
    assert target_of([], Platform.parse("linux/arm64"), [tree(python="3.12")]) == TargetPython(None, None)


@pytest.mark.parametrize(
    ("pins", "told"),
    [
        ({"created": "2026-01-02T00:00:00Z"}, []),
        ({"created": "2026-03-04T00:00:00Z"}, ["base: the image r.example/a:1 was made on 2026-03-04"]),
        ({}, ["base: nobody says when the image r.example/a:1 was made"]),
    ],
)
def test_images_that_are_too_young(pins: dict[str, str], told: list[str]) -> None:
    context = cast(ResolveContext, SimpleNamespace(not_after=datetime(2026, 2, 1, tzinfo=UTC)))
    resolution = Resolution((tree(reference="r.example/a:1", **pins),), ())
    assert list(remarks("base", resolution, context)) == told


# Packages beside those that are there

STATUS = b"""\
Package: libc6
Status: install ok installed
Architecture: amd64
Multi-Arch: same
Version: 2.36-9
Breaks: nothing (any weird stuff)

Package: libc6
Status: install ok installed
Architecture: i386
Version: 2.30-1

Package: shell
Status: install ok triggers-pending
Architecture: all
Version: 1:5.0
Provides: sh, posix-shell (= 7)
Conflicts: shell-ng
Description: with
 several lines

Package: gone
Status: deinstall ok config-files
Architecture: all
Version: 1
"""


def suite(*stanzas: str) -> bytes:
    parts = []
    for number, stanza in enumerate(stanzas):
        name, _, rest = stanza.partition(" ")
        version, _, fields = rest.partition(" ")
        lines = "".join(f"{field.strip()}\n" for field in fields.split(";") if field.strip())
        parts.append(
            f"Package: {name}\nVersion: {version}\nArchitecture: amd64\n{lines}"
            f"Filename: pool/{number}.deb\nSize: 1\nSHA256: {Digest.of(stanza.encode()).hex}\n"
        )
    return "\n".join(parts).encode()


def added(index: bytes, *requested: str, status: bytes = STATUS) -> list[str]:
    there = Installed(status, "amd64", on="the image")
    packages = PackageIndex([index, there.index], "amd64", on="index")
    return [str(package) for package in additions(packages, there.versions, requested, "amd64", on="base")]


def test_what_is_installed() -> None:
    assert Installed(STATUS, "amd64", on="x").versions == {"libc6": "2.36-9", "shell": "1:5.0"}


def test_older_than_the_suite_is_good_enough() -> None:
    """A package of the image that the suite has in a newer version only is used, and not replaced."""
    index = suite("libc6 2.41-1", "make 4.4 Depends: libc6 (>= 2.34), sh, posix-shell (>= 6)")
    assert added(index, "make", "libc6", "shell") == ["make 4.4"]


def test_the_image_decides_between_alternatives() -> None:
    index = suite("dash 1", "zsh 1", "make 4.4 Depends: dash | shell, zsh | gone")
    assert added(index, "make") == ["make 4.4", "zsh 1"]


def test_nothing_of_what_the_image_has_is_asked_for_more() -> None:
    """Its packages are not looked at for what they need or whether they go together."""
    status = STATUS + b"\nPackage: shell-ng\nStatus: install ok installed\nArchitecture: all\nVersion: 1\n"
    assert added(suite("shell 1:5.0 Depends: missing", "cow 1"), "cow", status=status) == ["cow 1"]


@pytest.mark.parametrize(
    ("stanzas", "requested", "told"),
    [
        (
            ["libc6 2.41", "make 4.4 Depends: libc6 (>= 2.38)"],
            "make",
            "make cannot be installed: make 4.4 needs libc6 (>= 2.38), but the base has libc6 2.36-9",
        ),
        (["make 4.4 Conflicts: shell (<< 2:0)"], "make", "make 4.4 conflicts with shell"),
        (["make 4.4 Conflicts: sh"], "make", "make 4.4 conflicts with sh, which shell provides"),
        (["shell-ng 1"], "shell-ng", "shell 1:5.0 conflicts with shell-ng"),
        (["make 4.4"], "shell=1:6.0", "the image has shell 1:5.0, not 1:6.0"),
    ],
)
def test_packages_that_do_not_go_with_it(stanzas: list[str], requested: str, told: str) -> None:
    with pytest.raises(ResolveError) as caught:
        added(suite(*stanzas), requested)
    assert told in caught.value.what
    assert "stay as they are" in (caught.value.hint or "")


@pytest.mark.parametrize(
    "status",
    [
        b"Package: a\nStatus: install ok installed\nArchitecture: all\n",
        b"Package: a\nStatus: install ok installed\nArchitecture: all\nVersion: not a version!\n",
        b"no stanza at all\n",
    ],
)
def test_a_list_that_is_none(status: bytes) -> None:
    with pytest.raises(IntegrityError) as caught:
        Installed(status, "amd64", on="the image")
    assert caught.value.on == "the image"


def test_many_installed_packages_take_moments() -> None:
    status = b"\n".join(
        b"Package: p%d\nStatus: install ok installed\nArchitecture: all\nVersion: 1\nBreaks: q%d\n" % (n, n)
        for n in range(400)
    )
    index = suite("make 1 Depends: " + ", ".join(f"p{n}" for n in range(400)))
    found: list[Any] = added(index, "make", status=status)
    assert found == ["make 1"]
