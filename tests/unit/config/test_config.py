"""The user's configuration: read, checked as a whole, and silent about credentials."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockbuild.config import CacheConfig, Config, DebianConfig, PypiConfig, load, mentions
from lockbuild.config.effective import effective
from lockbuild.config.urls import carries_secret, redact, redact_text
from lockbuild.errors import InvalidFileError, UsageError


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_without_a_file_all_is_default(tmp_path: Path) -> None:
    assert load({"HOME": str(tmp_path)}) == Config()


def test_the_named_file_goes_before_the_users(tmp_path: Path) -> None:
    write(tmp_path / ".config/lockbuild/config.toml", "[network]\nretries = 1\n")
    write(tmp_path / "xdg/lockbuild/config.toml", "[network]\nretries = 2\n")
    write(tmp_path / "own.toml", "[network]\nretries = 3\n")
    home = {"HOME": str(tmp_path)}
    assert load(home).network.retries == 1
    assert load({**home, "XDG_CONFIG_HOME": str(tmp_path / "xdg")}).network.retries == 2
    named = {**home, "XDG_CONFIG_HOME": str(tmp_path / "xdg"), "LOCKBUILD_CONFIG": "own.toml"}
    assert load(named, cwd=tmp_path).network.retries == 3


def test_a_named_file_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"absent\.toml: there is no such file") as caught:
        load({"LOCKBUILD_CONFIG": str(tmp_path / "absent.toml")})
    assert "LOCKBUILD_CONFIG" in str(caught.value)


def test_every_value(tmp_path: Path) -> None:
    file = write(
        tmp_path / "c.toml",
        """
        [debian]
        mirrors = ["https://one.test/debian", "file:///srv/mirror"]
        snapshot = "https://old.test/archive"
        keyring = "keys/archive.gpg"
        allow-expired = true
        [pypi]
        indexes = ["https://index.test/simple"]
        [network]
        timeout = 5
        retries = 0
        connections = 2
        """,
    )
    config = load({"LOCKBUILD_CONFIG": str(file)})
    assert config.debian_mirrors() == ["https://one.test/debian", "file:///srv/mirror"]
    assert config.snapshot_service() == "https://old.test/archive"
    assert config.debian_keyring() == tmp_path / "keys/archive.gpg"
    assert config.debian.allow_expired is True
    assert config.pypi_indexes() == ["https://index.test/simple"]
    assert (config.network.timeout, config.network.retries, config.network.connections) == (5, 0, 2)


def test_all_problems_are_said_at_once_and_no_secret_with_them(tmp_path: Path) -> None:
    file = write(
        tmp_path / "c.toml",
        """
        [debian]
        mirors = ["http://h"]
        snapshot = "ftp://anna:s3cret@h/x"
        allow-expired = "yes"
        [pypi]
        indexes = []
        [network]
        connections = 0
        [zebra]
        """,
    )
    with pytest.raises(InvalidFileError) as caught:
        load({"LOCKBUILD_CONFIG": str(file)})
    keys = {problem.key for problem in caught.value.problems}
    assert keys == {
        "debian.mirors",
        "debian.snapshot",
        "debian.allow-expired",
        "pypi.indexes",
        "network.connections",
        "zebra",
    }
    text = str(caught.value)
    assert "debian.mirors: unknown key; did you mean 'mirrors'?" in text
    assert "debian.snapshot: is not an http://, https:// or file:// URL" in text
    assert "s3cret" not in text


@pytest.mark.parametrize("text", ["[debian", "a = 'x"])
def test_what_is_not_toml(tmp_path: Path, text: str) -> None:
    file = write(tmp_path / "c.toml", text)
    with pytest.raises(InvalidFileError, match="not TOML"):
        load({"LOCKBUILD_CONFIG": str(file)})


def test_what_cannot_be_read(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match=r"is not UTF-8 text \(byte 0\)"):
        load({"LOCKBUILD_CONFIG": str(file)})


def test_credentials_are_in_no_representation() -> None:
    config = Config(
        debian=DebianConfig(mirrors=["http://anna:s3cret@h/debian"], snapshot="http://h/?access_token=t0ken"),
        pypi=PypiConfig(indexes=["https://__token__:s3cret@h/simple"]),
    )
    for text in (repr(config), str(config), repr(config.debian), f"{config.pypi}"):
        assert "s3cret" not in text
        assert "t0ken" not in text
    assert "http://h/debian" in repr(config)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://u:p@h:8080/a?b=1#c", "https://h:8080/a?b=1#c"),
        ("https://token@h/a", "https://h/a"),
        ("https://u:p@ss@h/a", "https://h/a"),
        ("https://h/a?X-Amz-Signature=abc&b=1&api_key=2", "https://h/a?X-Amz-Signature=***&b=1&api_key=***"),
        ("https://h/a?b=1", "https://h/a?b=1"),
        ("http://[broken", "<malformed URL>"),
    ],
)
def test_redacting(url: str, shown: str) -> None:
    assert redact(url) == shown
    assert carries_secret(url) == (url != shown)


@given(
    user=st.text(st.characters(categories=("L", "N")), min_size=8, max_size=12),
    password=st.text(
        st.characters(categories=("L", "N", "P"), exclude_characters="/?#[]\\"), min_size=8, max_size=12
    ),
    path=st.text(st.characters(codec="ascii", categories=("L", "N")), max_size=5),
)
def test_redacting_hides_userinfo_and_is_done_once(user: str, password: str, path: str) -> None:
    once = redact(f"https://{user}:{password}@host.test/{path}")
    assert once == f"https://host.test/{path}" or once == "<malformed URL>"
    assert redact(once) == once


def test_redacting_text() -> None:
    text = "tried 'http://u:p@h/x' and https://h/y?token=1, then gave up"
    assert redact_text(text) == "tried 'http://h/x' and https://h/y?token=*** then gave up"


def test_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    file = write(
        tmp_path / "c.toml",
        """
        [network]
        ca = ["ca.pem", "/etc/other.pem"]
        [[hosts]]
        host = "a.test"
        client-cert = "me.pem"
        client-key = "~/me.key"
        """,
    )
    config = load({"LOCKBUILD_CONFIG": str(file)})
    assert config.network.ca == [str(tmp_path / "ca.pem"), "/etc/other.pem"]
    assert config.hosts[0].client_cert == str(tmp_path / "me.pem")
    assert config.hosts[0].client_key == str(Path("~/me.key").expanduser())


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('host = "https://a.test/path"', "hosts[0].host: is not a host name"),
        ('host = "u:p@a.test"', "hosts[0].host: is not a host name"),
        ('host = "a.test:99999"', "hosts[0].host: is not a host name"),
        ('host = "ssh://a.test"', "hosts[0].host: is not a host name"),
        ('token-env = "X"', "hosts[0].host: is required"),
        ('host = "a.test"\ntoken = "s3cret"', "hosts[0].token: unknown key"),
        ('host = "a.test"\nclient-key = "k"', "client-key: goes with client-cert"),
        ('host = "http://a.test"\nclient-cert = "k"', "client-cert: is for https only"),
        (
            'host = "a.test"\n[[hosts]]\nhost = "https://A.test:443"',
            "hosts[1].host: https://A.test:443 is there twice",
        ),
    ],
)
def test_what_no_host_is(tmp_path: Path, text: str, problem: str) -> None:
    file = write(tmp_path / "c.toml", f"[[hosts]]\n{text}\n")
    with pytest.raises(InvalidFileError) as caught:
        load({"LOCKBUILD_CONFIG": str(file)})
    assert problem in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_another_program_is_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fetching asks for the mirrors of every package: hundreds of processes would take seconds."""
    script = write(tmp_path / "bin/apt-config", f"#!/bin/sh\necho asked >> {tmp_path}/log\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    config = Config()
    first = config.debian_mirrors()
    for _ in range(5):
        assert config.debian_mirrors() == first
    assert (tmp_path / "log").read_text() == "asked\n"
    first.append("http://mine.test")
    assert "http://mine.test" not in config.debian_mirrors()


@pytest.mark.parametrize(
    "text",
    [
        '[registries]\nplain-http = ["http://registry.example"]',
        '[registries]\nplain-http = ["registry.example/team"]',
        '[cache]\nread = ["registry.example"]',
        '[cache]\nread = ["team/cache"]',
        '[cache]\nwrite = "registry.example/team/cache:tag"',
        '[cache]\nwrite = ["registry.example/team/cache"]',
    ],
)
def test_registries_and_repositories_are_checked(tmp_path: Path, text: str) -> None:
    file = tmp_path / "config.toml"
    file.write_text(text)
    with pytest.raises(InvalidFileError):
        load({"LOCKBUILD_CONFIG": str(file)})


def test_a_quick_look_says_whether_a_table_can_be_there(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    environ = {"LOCKBUILD_CONFIG": str(file)}
    assert not mentions(environ, "cache")
    file.write_text('[pypi]\nindexes = ["https://a.example/simple"]\n')
    assert not mentions(environ, "cache")
    file.write_text('cache.read = ["registry.example/team/cache"]\n')
    assert mentions(environ, "cache")
    assert load(environ).cache.read == ["registry.example/team/cache"]


def test_registries_caches_and_the_login_are_shown(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"auths": {"registry.example": {"auth": "c2VjcmV0OnNlY3JldA=="}}}')
    config = Config(cache=CacheConfig(read=["registry.example/team/cache"]))
    shown = {
        s.key: (s.value, s.origin) for s in effective(config, {"DOCKER_CONFIG": str(tmp_path), "PATH": ""})
    }
    assert shown["cache.read"] == (["registry.example/team/cache"], "file")
    assert shown["cache.write"] == (None, "default")
    assert shown["registries.plain-http"] == ([], "default")
    assert shown["docker"] == (str(tmp_path / "config.json"), "environment")
