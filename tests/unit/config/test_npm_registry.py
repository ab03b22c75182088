"""The registry that npm is configured for, from files and variables as npm reads them, and what npm has built in."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from lockbuild.config import Config, NpmConfig
from lockbuild.config.npm import registry, tokens
from lockbuild.errors import UsageError


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path / "home"), "PATH": "/nonexistent"}


def test_the_users_file_goes_before_the_global_one(tmp_path: Path, environ: dict[str, str]) -> None:
    write(tmp_path / "etc/npmrc", "registry = https://global.test/npm/\n")
    assert registry("a", environ, root=tmp_path) == "https://global.test/npm"
    write(tmp_path / "home/.npmrc", '; a comment\n# another\nregistry="https://user.test/npm/"\n')
    assert registry("a", environ, root=tmp_path) == "https://user.test/npm"


@pytest.mark.parametrize("name", ["npm_config_registry", "NPM_CONFIG_REGISTRY"])
def test_a_variable_goes_before_files(tmp_path: Path, environ: dict[str, str], name: str) -> None:
    write(tmp_path / "home/.npmrc", "registry=https://user.test\n")
    assert (
        registry("a", {**environ, name: "https://variable.test/"}, root=tmp_path) == "https://variable.test"
    )
    assert registry("a", {**environ, name: ""}, root=tmp_path) == "https://user.test"


def test_other_files_that_are_named(tmp_path: Path, environ: dict[str, str]) -> None:
    write(tmp_path / "prefix/etc/npmrc", "registry=https://prefix.test\n")
    user = write(tmp_path / "mine", "registry=https://mine.test\n")
    everyone = write(tmp_path / "everyone", "registry=https://everyone.test\n")
    named = {**environ, "npm_config_prefix": str(tmp_path / "prefix")}
    assert registry("a", named, root=tmp_path) == "https://prefix.test"
    named["npm_config_globalconfig"] = str(everyone)
    assert registry("a", named, root=tmp_path) == "https://everyone.test"
    named["npm_config_userconfig"] = str(user)
    assert registry("a", named, root=tmp_path) == "https://mine.test"


def test_scopes_have_registries_of_their_own(tmp_path: Path, environ: dict[str, str]) -> None:
    write(tmp_path / "home/.npmrc", "registry=https://user.test\n@corp:registry=https://corp.test/npm/\n")
    assert registry("@corp/a", environ, root=tmp_path) == "https://corp.test/npm"
    assert registry("@other/a", environ, root=tmp_path) == "https://user.test"


def test_variables_in_values(tmp_path: Path, environ: dict[str, str]) -> None:
    write(tmp_path / "home/.npmrc", "registry=https://${NPM_HOST}/npm\n")
    assert registry("a", {**environ, "NPM_HOST": "h.test"}, root=tmp_path) == "https://h.test/npm"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("registry=https://r.test/npm/\n//r.test/npm/:_authToken=t1", {"https://r.test/npm/": "t1"}),
        ("registry=https://r.test/npm\n//r.test/:_authToken=t1", {"https://r.test/": "t1"}),
        ("registry=http://r.test:8080\n//r.test:8080/:_authToken=t1", {"http://r.test:8080/": "t1"}),
        (
            "registry=https://r.test\n@c:registry=https://c.test/a/\n//r.test/:_authToken=t1\n//c.test/a/:_authToken=t2",
            {"https://r.test/": "t1", "https://c.test/a/": "t2"},
        ),
        (
            "registry=https://r.test/npm/\n//r.test/:_authToken=t1\n//r.test/npm/:_authToken=t2",
            {"https://r.test/npm/": "t2", "https://r.test/": "t1"},
        ),
        ("registry=https://r.test\n//r.test/:_authToken=${NPM_TOKEN}", {"https://r.test/": "of a variable"}),
        ("registry=https://r.test\n//r.test/:_authToken=${UNSET}", {}),
        ("registry=https://r.test\n//r.test.evil.test/:_authToken=t1\n//r.tes:_authToken=t1", {}),
        ("registry=https://r.test/npm\n//r.test/npmx/:_authToken=t1\n//other.test/:_authToken=t2", {}),
        ("registry=https://r.test\n_authToken=t1\n//r.test/:_password=t1", {}),
    ],
)
def test_tokens_are_for_the_registries_in_use(
    tmp_path: Path, environ: dict[str, str], text: str, found: dict[str, str]
) -> None:
    write(tmp_path / "home/.npmrc", f"{text}\n")
    environ |= {"NPM_TOKEN": "of a variable"}
    assert list(tokens(None, environ, root=tmp_path)) == list(found.items())


def test_tokens_for_a_registry_that_lockbuild_is_told_and_for_the_built_in_one(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    write(tmp_path / "home/.npmrc", "//r.test/:_authToken=t1\n//built.test/:_authToken=t2\n")
    assert list(tokens("https://r.test/npm/", environ, root=tmp_path)) == [("https://r.test/", "t1")]
    assert list(tokens(None, environ, root=tmp_path)) == []  # there is no npm that has one
    script = '#!/bin/sh\n[ "$*" = "config get registry" ] && echo https://built.test/\n'
    write(tmp_path / "bin/npm", script).chmod(0o755)
    environ["PATH"] = f"{tmp_path / 'bin'}:/usr/bin:/bin"
    assert list(tokens(None, environ, root=tmp_path)) == [("https://built.test/", "t2")]


def test_without_npm_and_setting_it_is_told(tmp_path: Path, environ: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="no npm registry is configured") as caught:
        registry("a", environ, root=tmp_path)
    assert "[npm] registry" in str(caught.value)


@pytest.mark.parametrize(
    "files",
    [
        {"npmrc": "registry=https://built.test/\n"},
        {
            "node_modules/@npmcli/config/lib/definitions/definitions.js": (
                "  access: new Definition('access', {\n    default: null,\n  }),\n"
                "  registry: new Definition('registry', {\n    default: 'https://built.test/',\n"
            )
        },
        {"lib/utils/config/definitions.js": 'define("registry", {\n  default: `https://built.test/`,\n'},
    ],
)
def test_the_built_in_registry_is_read_from_npms_own_files(
    tmp_path: Path, environ: dict[str, str], files: dict[str, str]
) -> None:
    package = tmp_path / "lib/node_modules/npm"
    for name, text in files.items():
        write(package / name, text)
    write(package / "bin/npm-cli.js", "#!/bin/sh\nexit 9\n").chmod(0o755)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/npm").symlink_to(package / "bin/npm-cli.js")
    assert registry("a", {**environ, "PATH": str(tmp_path / "bin")}, root=tmp_path) == "https://built.test"


def test_an_npm_that_keeps_it_elsewhere_is_asked(tmp_path: Path, environ: dict[str, str]) -> None:
    script = '#!/bin/sh\n[ "$*" = "config get registry" ] && [ "$PWD" = / ] && echo https://asked.test/\n'
    write(tmp_path / "bin/npm", script).chmod(0o755)
    path = f"{tmp_path / 'bin'}:/usr/bin:/bin"
    assert registry("a", {**environ, "PATH": path}, root=tmp_path) == "https://asked.test"


@pytest.mark.skipif(shutil.which("npm") is None, reason="there is no npm")
def test_it_is_what_npm_itself_says() -> None:
    done = subprocess.run(
        ["npm", "config", "get", "registry"], cwd="/", capture_output=True, text=True, check=True
    )
    assert registry("left-pad") == done.stdout.strip().rstrip("/")


def test_the_configuration_goes_before_npms(tmp_path: Path) -> None:
    config = Config(npm=NpmConfig(registry="https://mine.test/npm/"))
    assert config.npm_registry("@corp/a") == "https://mine.test/npm"
