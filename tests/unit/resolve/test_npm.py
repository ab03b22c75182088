"""Locking what a package-lock.json names, and refusing what of it cannot be locked."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from packageurl import PackageURL

from lockbuild.config import Config
from lockbuild.errors import IntegrityError, InvalidFileError, ResolveError, UsageError
from lockbuild.model.digest import Digest
from lockbuild.model.platform import Platform
from lockbuild.model.requests import NpmTool
from lockbuild.resolve import Resolution, ResolveContext, resolve
from lockbuild.store import Store
from lockbuild.transport.http import Http
from tests.support.npm import integrity, npm_package, package_lock

AMD64, ARM64 = Platform.parse("linux/amd64"), Platform.parse("linux/arm64")
LEFT, ODD = npm_package("left"), npm_package("@corp/odd", "2.1.0-rc.1")
REGISTRY = "https://registry.test"


def locked(
    directory: Path, text: str | bytes, platforms: tuple[Platform, ...] = (AMD64, ARM64), **request: Any
) -> Resolution:
    (directory / "web").mkdir(exist_ok=True)
    file = directory / "web" / "package-lock.json"
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    values = {"from": "npm", "lockfile": "web/package-lock.json", **request}
    with Http(Config(), offline=True) as http:
        context = ResolveContext(http, Config(), Store(directory / "store"), datetime.now(UTC), directory)
        return resolve("tools.web", NpmTool.model_validate(values), platforms, context)


def problems(directory: Path, entry: dict[str, Any], place: str = "x") -> str:
    with pytest.raises(InvalidFileError) as caught:
        locked(directory, package_lock({"left": LEFT.locked(REGISTRY), place: entry}))
    assert caught.value.on == str(directory / "web" / "package-lock.json")
    assert [problem.key for problem in caught.value.problems] == [f'packages."node_modules/{place}"']
    return str(caught.value)


@pytest.mark.parametrize("version", [2, 3])
def test_every_package_is_a_source_by_its_sha512(tmp_path: Path, version: int) -> None:
    text = package_lock({"left": LEFT.locked(REGISTRY), "@corp/odd": ODD.locked(REGISTRY)}, version=version)
    resolution = locked(tmp_path, text, exports={"NODE_ENV": "test"})
    (tree,) = resolution.trees
    assert (tree.id, tree.unpack, tree.mount) == ("any:tools.web", "npm", "/opt/web")
    assert tree.pins == {"lockfile": str(Digest.of(text.encode()))}
    assert tree.exports["npm_config_cache"] == "$OUT/cache"
    assert tree.exports["npm_config_offline"] == "true"
    assert tree.exports["NODE_ENV"] == "test"
    odd, left = resolution.sources
    assert odd.purl == "pkg:npm/%40corp/odd@2.1.0-rc.1"
    assert PackageURL.from_string(odd.purl).namespace == "@corp"
    assert (odd.path, odd.url) == ("@corp/odd/-/odd-2.1.0-rc.1.tgz", None)
    assert (left.purl, left.path) == ("pkg:npm/left@1.0.0", "left/-/left-1.0.0.tgz")
    assert odd.sha512 is not None
    assert integrity(ODD.data) == "sha512-" + _base64(odd.sha512)
    assert odd.sha256 is None
    assert odd.trees == left.trees == ["any:tools.web"]


def _base64(digits: str) -> str:
    import base64

    return base64.b64encode(bytes.fromhex(digits)).decode()


@pytest.mark.parametrize(
    "base",
    [
        "https://registry.test",
        "http://registry.test:8081/repository/npm",
        "https://u.test/artifactory/api/npm/npm-remote",
        None,
    ],
)
def test_the_host_that_the_file_names_does_not_matter(tmp_path: Path, base: str | None) -> None:
    resolution = locked(tmp_path, package_lock({"@corp/odd": ODD.locked(base)}))
    assert resolution.sources == locked(tmp_path, package_lock({"@corp/odd": ODD.locked(REGISTRY)})).sources


def test_an_escaped_scope_is_the_usual_place(tmp_path: Path) -> None:
    entry = ODD.locked(None, resolved="https://registry.test/@corp%2fodd/-/odd-2.1.0-rc.1.tgz")
    (source,) = locked(tmp_path, package_lock({"@corp/odd": entry})).sources
    assert source.path == ODD.path


def test_a_tarball_elsewhere_keeps_its_url(tmp_path: Path) -> None:
    url = "https://files.test/download/left/1.0.0/4a5b"
    (source,) = locked(tmp_path, package_lock({"left": LEFT.locked(None, resolved=url)})).sources
    assert (source.path, source.url) == (None, url)


def test_an_alias_is_the_package_that_it_is(tmp_path: Path) -> None:
    text = package_lock({"other": LEFT.locked(REGISTRY, name="left")})
    (source,) = locked(tmp_path, text).sources
    assert (source.purl, source.path) == ("pkg:npm/left@1.0.0", "left/-/left-1.0.0.tgz")


def test_a_package_at_several_places_is_one_source(tmp_path: Path) -> None:
    nested = {"left": LEFT.locked(REGISTRY), "@corp/odd/node_modules/left": LEFT.locked(REGISTRY)}
    resolution = locked(tmp_path, package_lock({**nested, "@corp/odd": ODD.locked(REGISTRY)}))
    assert [source.purl for source in resolution.sources] == [
        "pkg:npm/%40corp/odd@2.1.0-rc.1",
        "pkg:npm/left@1.0.0",
    ]
    nested["left"] = LEFT.locked(REGISTRY, integrity=integrity(b"other"))
    with pytest.raises(IntegrityError, match="different digests at different places") as caught:
        locked(tmp_path, package_lock(nested))
    assert caught.value.on == "pkg:npm/left@1.0.0"


def test_what_is_packed_into_another_package_needs_no_source(tmp_path: Path) -> None:
    packed = {"version": "3.0.0", "inBundle": True}
    text = package_lock({"left": LEFT.locked(REGISTRY), "left/node_modules/in": packed})
    assert [source.purl for source in locked(tmp_path, text).sources] == ["pkg:npm/left@1.0.0"]


def test_the_strongest_of_several_hashes_counts(tmp_path: Path) -> None:
    both = f"{integrity(LEFT.data, 'sha1')} {integrity(LEFT.data)}?opt"
    text = package_lock({"left": LEFT.locked(REGISTRY, integrity=both)})
    assert (
        locked(tmp_path, text).sources
        == locked(tmp_path, package_lock({"left": LEFT.locked(REGISTRY)})).sources
    )


# Systems


@pytest.mark.parametrize(
    ("systems", "on_amd64", "on_arm64"),
    [
        ({"os": ["linux"]}, True, True),
        ({"os": ["darwin"]}, False, False),
        ({"os": "linux"}, True, True),
        ({"os": ["any"]}, True, True),
        ({"os": ["!win32"]}, True, True),
        ({"os": ["!linux"]}, False, False),
        ({"os": ["!win32", "darwin"]}, False, False),
        ({"cpu": ["x64"]}, True, False),
        ({"cpu": ["arm64"]}, False, True),
        ({"cpu": ["!arm64"]}, True, False),
        ({"os": ["linux"], "cpu": ["x64"], "libc": ["glibc"]}, True, False),
        ({"os": ["linux"], "cpu": ["x64"], "libc": ["musl"]}, False, False),
        ({"libc": []}, True, True),
    ],
)
def test_optional_packages_for_other_systems_are_left_out(
    tmp_path: Path, systems: dict[str, Any], on_amd64: bool, on_arm64: bool
) -> None:
    text = package_lock(
        {"left": LEFT.locked(REGISTRY), "@corp/odd": ODD.locked(REGISTRY, optional=True, **systems)}
    )
    resolution = locked(tmp_path, text)
    has = {
        tree.platform: [s.purl for s in resolution.sources if tree.id in s.trees] for tree in resolution.trees
    }
    if on_amd64 == on_arm64:
        assert list(has) == ["any"]
        assert len(has["any"]) == 1 + on_amd64
    else:
        assert list(has) == [AMD64, ARM64]
        assert (len(has[AMD64]), len(has[ARM64])) == (1 + on_amd64, 1 + on_arm64)
        shared = [source for source in resolution.sources if "left" in source.purl]
        assert [source.trees for source in shared] == [["linux/amd64:tools.web", "linux/arm64:tools.web"]]


def test_one_platform_is_the_same_for_all(tmp_path: Path) -> None:
    text = package_lock({"left": LEFT.locked(REGISTRY, optional=True, cpu=["x64"])})
    assert [tree.platform for tree in locked(tmp_path, text, (AMD64,)).trees] == ["any"]
    with pytest.raises(ResolveError, match="it locks no package"):
        locked(tmp_path, text, (ARM64,))


def test_a_needed_package_for_another_system(tmp_path: Path) -> None:
    text = package_lock({"left": LEFT.locked(REGISTRY, cpu=["x64"])})
    with pytest.raises(ResolveError, match=r"left 1\.0\.0 is for cpu x64, and not for linux/arm64") as caught:
        locked(tmp_path, text)
    assert caught.value.on == 'tools.web: packages."node_modules/left"'


# Refused


def test_a_package_with_sha1_only_is_named(tmp_path: Path) -> None:
    text = problems(tmp_path, LEFT.locked(REGISTRY, integrity=integrity(LEFT.data, "sha1")))
    assert "x 1.0.0 has no valid SHA-512 in its integrity (it has sha1)" in text
    assert "hint: " in text


@pytest.mark.parametrize("bad", ["sha512-", "sha512-AAAA", "sha512-%%%%", "sha512", integrity(b"", "sha256")])
def test_no_valid_sha512(tmp_path: Path, bad: str) -> None:
    assert "has no valid SHA-512" in problems(tmp_path, LEFT.locked(REGISTRY, integrity=bad))


@pytest.mark.parametrize("bad", [None, "", 3, []])
def test_no_integrity(tmp_path: Path, bad: object) -> None:
    assert "x 1.0.0 has no integrity" in problems(tmp_path, LEFT.locked(REGISTRY, integrity=bad))


@pytest.mark.parametrize(
    ("resolved", "said"),
    [
        (
            "git+ssh://git@h.test/o/x.git#0123456789012345678901234567890123456789",
            "a git repository (git+ssh",
        ),
        ("git://h.test/o/x.git", "a git repository"),
        ("file:../x.tgz", "a file (file:"),
        ("git@h.test:o/x.git", "an unknown place (git@h.test:o/x.git)"),
        ("https://[x/x.tgz", "an unknown place (<malformed URL>)"),
        ("ftp://h.test/x.tgz", "ftp (ftp://h.test/x.tgz)"),
    ],
)
def test_packages_from_elsewhere_are_named(tmp_path: Path, resolved: str, said: str) -> None:
    text = problems(tmp_path, LEFT.locked(None, resolved=resolved))
    assert f"x comes from {said}" in text
    assert "hint: depend on a version from a registry" in text


def test_links_are_named(tmp_path: Path) -> None:
    text = problems(tmp_path, {"resolved": "../common", "link": True})
    assert "x is a link to the directory '../common'" in text


def test_everything_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    text = package_lock({"a": {"resolved": "a", "link": True}, "b": {"version": "1"}, "c": "no object"})
    with pytest.raises(InvalidFileError) as caught:
        locked(tmp_path, text)
    assert len(caught.value.problems) == 3


@pytest.mark.parametrize(
    "url", ["https://u:s3cret@h.test/download/left", "https://h.test/download/left?token=s3cret"]
)
def test_a_credential_is_not_locked(tmp_path: Path, url: str) -> None:
    text = problems(tmp_path, LEFT.locked(None, resolved=url))
    assert "holds a credential" in text
    assert "s3cret" not in text


def test_a_credential_is_no_part_of_a_path(tmp_path: Path) -> None:
    text = package_lock({"left": LEFT.locked("https://u:s3cret@h.test")})
    assert "s3cret" not in repr(locked(tmp_path, text))


@pytest.mark.parametrize("name", ["../x", "a/b", "@a", "@a/b/c", ".x", "a b", "@../x", ""])
def test_names_that_are_none(tmp_path: Path, name: str) -> None:
    assert "is not the name of a package" in problems(tmp_path, LEFT.locked(REGISTRY, name=name))


@pytest.mark.parametrize("version", ["", "../1", "1 2", None, 1])
def test_versions_that_are_none(tmp_path: Path, version: object) -> None:
    text = problems(tmp_path, LEFT.locked(REGISTRY, version=version))
    assert "is not the version of a package" in text


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"lockfileVersion": 1, "dependencies": {}}),
        json.dumps({"lockfileVersion": 4, "packages": {}}),
        json.dumps({"lockfileVersion": 3}),
        json.dumps({"lockfileVersion": 3, "packages": []}),
        json.dumps([]),
        "null",
    ],
)
def test_other_formats(tmp_path: Path, text: str) -> None:
    with pytest.raises(InvalidFileError, match="lockfileVersion: must be 2 or 3") as caught:
        locked(tmp_path, text)
    assert caught.value.hint is not None


@pytest.mark.parametrize("text", ["{", b"\xff\xfe", "[" * 100_000])
def test_no_json(tmp_path: Path, text: str | bytes) -> None:
    with pytest.raises(InvalidFileError, match="not JSON"):
        locked(tmp_path, text)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read: No such file") as caught:
        locked(tmp_path, package_lock({}), lockfile="other.json")
    assert caught.value.on == "tools.web.lockfile"


def test_an_empty_lock(tmp_path: Path) -> None:
    with pytest.raises(ResolveError, match="it locks no package"):
        locked(tmp_path, package_lock({}))
