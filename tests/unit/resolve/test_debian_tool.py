"""Debian packages apart from the base: what the base has is left out, and both must agree."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from lockbuild.errors import ResolveError
from lockbuild.model.digest import Digest
from lockbuild.model.lock import LockedTree, Source
from lockbuild.model.platform import Platform
from lockbuild.resolve import Resolution
from lockbuild.resolve.debian.closure import closure
from lockbuild.resolve.debian.index import Package, PackageIndex
from lockbuild.resolve.debian.tool import exports, missing, packages_of

AMD64, ARM64 = Platform.parse("linux/amd64"), Platform.parse("linux/arm64")


def index(packages: Mapping[str, str]) -> PackageIndex:
    """``name version`` to the relations of the package, as lines of its stanza."""
    stanzas = []
    for key, fields in packages.items():
        name, version = key.split()
        digest = Digest.of(key.encode()).hex
        stanza = (
            f"Package: {name}\nVersion: {version}\nArchitecture: amd64\nFilename: pool/{name}_{version}.deb\n"
        )
        stanzas.append(f"{stanza}Size: 1\nSHA256: {digest}\n{fields}".rstrip("\n"))
    return PackageIndex(["\n\n".join(stanzas).encode()], "amd64", on="the index")


SUITE = {
    "libc6 2": "",
    "shell 1": "Essential: yes\nDepends: libc6",
    "mawk 1": "Provides: awk\nDepends: libc6",
    "gawk 1": "Provides: awk\nDepends: libc6, libread",
    "libread 8": "Depends: libc6",
    "tool 3": "Depends: libtool1 (= 3), libc6 (>= 2), awk",
    "libtool1 3": "Depends: libc6, gawk | mawk",
    "picky 1": "Depends: libc6 (= 2), shell (<< 1)",
}
BASE = {"libc6": "2", "shell": "1", "mawk": "1"}


def found(requested: list[str], there: Mapping[str, str], suite: Mapping[str, str] = SUITE) -> list[str]:
    return [str(package) for package in missing(index(suite), requested, there, "amd64", on="tools.x")]


def test_what_the_base_has_is_left_out() -> None:
    assert found(["tool"], BASE) == ["libtool1 3", "tool 3"]
    assert found(["tool"], {}) == ["gawk 1", "libc6 2", "libread 8", "libtool1 3", "tool 3"]


def test_what_the_base_has_is_preferred_to_what_would_come_first() -> None:
    assert "gawk 1" not in found(["tool"], BASE)
    assert "mawk 1" not in found(["tool"], {**BASE, "gawk": "1", "libread": "8"} | {})
    assert found(["tool"], {"libc6": "2", "shell": "1", "gawk": "1"}) == ["libtool1 3", "tool 3"]


def test_nothing_is_asked_of_what_is_there() -> None:
    """gawk needs libread, which this base has not; that is the base's own affair."""
    assert "libread 8" not in found(["tool"], {"libc6": "2", "gawk": "1"})


def test_essential_packages_are_not_added() -> None:
    assert found(["libread"], {"libc6": "2"}) == ["libread 8"]


def test_a_shared_package_in_another_version() -> None:
    with pytest.raises(ResolveError) as caught:
        found(["tool"], {**BASE, "libc6": "1.9"})
    assert caught.value.on == "tools.x"
    assert "libc6 is needed (" in caught.value.what
    assert "needs libc6" in caught.value.what
    assert "the base has 1.9, the suite 2" in caught.value.what
    assert "one snapshot for both" in str(caught.value.hint)


def test_another_version_of_what_is_not_needed_does_not_matter() -> None:
    assert found(["libread"], {"libc6": "2", "mawk": "0.5"}) == ["libread 8"]


def test_the_version_of_the_base_counts_where_the_suite_has_several() -> None:
    suite = {**SUITE, "libc6 3": "", "new 1": "Depends: libc6 (>= 3)"}
    assert found(["tool"], BASE, suite) == ["libtool1 3", "tool 3"]
    with pytest.raises(ResolveError, match="new cannot be installed"):
        found(["new"], BASE, suite)


def test_what_cannot_be_installed_beside_the_base() -> None:
    with pytest.raises(ResolveError, match="picky cannot be installed"):
        found(["picky"], BASE)


def test_a_package_that_the_base_has() -> None:
    with pytest.raises(ResolveError, match="the base has all of its packages already"):
        found(["mawk", "shell"], BASE)
    assert found(["mawk", "libread"], BASE) == ["libread 8"]


def test_unknown_packages_and_versions() -> None:
    with pytest.raises(ResolveError, match="no package 'tol'") as caught:
        found(["tol"], BASE)
    assert caught.value.hint == "did you mean tool?"
    with pytest.raises(ResolveError, match="the suite has tool 3, not 4"):
        found(["tool=4"], BASE)


def test_the_packages_of_a_base_by_platform() -> None:
    trees = tuple(
        LockedTree(name="base", platform=platform, unpack="debian-root", mount="/")
        for platform in (AMD64, ARM64)
    )

    def source(purl: str, *platforms: Platform) -> Source:
        ids = [f"{platform}:base" for platform in platforms]
        return Source(purl=purl, path="pool/x", sha256=Digest.of(purl.encode()), trees=ids)

    base = Resolution(
        trees,
        (
            source("pkg:deb/debian/procps@2%3A4.0.7-1?arch=amd64&distro=forky", AMD64),
            source("pkg:deb/debian/procps@2%3A4.0.6-1?arch=arm64&distro=forky", ARM64),
            source("pkg:deb/debian/libstdc%2B%2B6@16-3?arch=all&distro=forky", AMD64, ARM64),
        ),
    )
    assert packages_of(base, AMD64) == {"procps": "2:4.0.7-1", "libstdc++6": "16-3"}
    assert packages_of(base, ARM64) == {"procps": "2:4.0.6-1", "libstdc++6": "16-3"}


def test_where_programs_and_libraries_are() -> None:
    def packages(*names: str) -> list[Package]:
        known = index({f"{name} 1": "" for name in names})
        return [known.packages(name)[0] for name in names]

    assert exports(packages("tool"), AMD64) == {"PATH": "$OUT/usr/bin:$OUT/usr/sbin"}
    assert exports(packages("libx1", "tool"), AMD64)["LD_LIBRARY_PATH"] == (
        "$OUT/usr/lib/x86_64-linux-gnu:$OUT/usr/lib"
    )
    assert "aarch64-linux-gnu" in exports(packages("libx1"), ARM64)["LD_LIBRARY_PATH"]


def test_a_conflict_of_an_essential_package_that_is_asked_for_as_well() -> None:
    """It used to count twice when looking for what is missing, and then something that was there was."""
    suite = {
        "pa 1": "Essential: yes",
        "pb 1": "Essential: yes\nDepends: pa, pf\nConflicts: pa",
        "pf 1": "Depends: pa:i386",
        "pf 2": "",
    }
    with pytest.raises(ResolveError, match="cannot be installed together: .*pb"):
        closure(index(suite), ["pb"], "amd64", on="base")
