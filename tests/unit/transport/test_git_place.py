"""Which URLs git is given, and what its messages mean."""

from __future__ import annotations

from pathlib import Path

import pytest

from lockbuild.config import Config
from lockbuild.transport.failures import (
    NotFoundError,
    RefusedError,
    TransferError,
    UnavailableError,
    UnreachableError,
)
from lockbuild.transport.git.place import Surroundings, fault_of, full_disk
from lockbuild.transport.git.process import GitFailedError


@pytest.mark.parametrize(
    "url",
    [
        "https://example.org/a/b",
        "http://127.0.0.1:8080/a.git",
        "http://[::1]:8080/a.git",
        "ssh://git@example.org/a/b.git",
        "ssh://git@example.org:2222/~me/b.git",
        "file:///srv/git/a.git",
        "https://example.org/a%20b",
    ],
)
def test_urls_of_repositories(url: str) -> None:
    assert fault_of(url) is None


@pytest.mark.parametrize(
    "url",
    [
        "ext::sh -c touch% /tmp/x",
        "ext::sh",
        "fd::17",
        "--upload-pack=touch /tmp/x",
        "-oProxyCommand=x",
        "ssh://-oProxyCommand=touch${IFS}x/a",
        "ssh://-oProxyCommand=x@example.org/a",
        "ssh://example.org",
        "https://",
        "https:///a",
        "git://example.org/a",
        "ftp://example.org/a",
        "file://other-host/a",
        "file://",
        "/srv/git/a",
        "example.org:a",
        "https://example.org/a b",
        "https://example.org/a\nhttps://b",
        "https://example.org:port/a",
        "https://exa$(mple).org/a",
        "https://[::1/a",
        "",
    ],
)
def test_urls_that_git_must_not_be_given(url: str) -> None:
    assert fault_of(url)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("fatal: remote error: upload-pack: not our ref 0123", NotFoundError),
        ("fatal: couldn't find remote ref refs/x", NotFoundError),
        ("error: Server does not allow request for unadvertised object 0123", NotFoundError),
        ("fatal: repository 'https://example.org/a/' not found", NotFoundError),
        ("fatal: could not read Username for 'https://x': terminal prompts disabled", RefusedError),
        ("fatal: unable to access 'https://x/': The requested URL returned error: 403", RefusedError),
        ("fatal: unable to access 'https://x/': The requested URL returned error: 301", RefusedError),
        ("fatal: transport 'ext' not allowed", RefusedError),
        ("fatal: unable to access 'https://x/': The requested URL returned error: 503", UnavailableError),
        ("fatal: unable to access 'https://x/': Could not resolve host: x", UnreachableError),
        (
            "fatal: unable to access 'http://x/': Failed to connect to x port 1: Connection refused",
            UnreachableError,
        ),
        ("fatal: early EOF", UnreachableError),
        ("fatal: something new", TransferError),
    ],
)
def test_what_messages_mean(text: str, kind: type[TransferError], tmp_path: Path) -> None:
    surroundings = Surroundings(Config(), tmp_path)
    error = surroundings.failure("https://user:secret@example.org/a", GitFailedError(f"noise\n{text}\n", 128))
    assert type(error) is kind
    assert error.on == "https://example.org/a"
    assert "secret" not in str(error)
    assert text.partition(": ")[2][:20] in error.what


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("Host key verification failed.", "connect to it with ssh once"),
        ("git@h.test: Permission denied (publickey).", "by ssh-agent, or in your ~/.ssh/config"),
    ],
)
def test_what_ssh_says_is_shown(text: str, hint: str, tmp_path: Path) -> None:
    said = GitFailedError(f"{text}\nfatal: Could not read from remote repository.\n\nPlease make sure\n", 128)
    error = Surroundings(Config(), tmp_path).failure("ssh://git@h.test/a", said)
    assert type(error) is RefusedError
    assert text.partition("(")[0] in error.what
    assert hint in (error.hint or "")


def test_credentials_in_messages_are_not_shown(tmp_path: Path) -> None:
    text = "fatal: unable to access 'https://user:secret@example.org/a/': something"
    error = Surroundings(Config(), tmp_path).failure("https://example.org/a", GitFailedError(text, 128))
    assert "secret" not in str(error)


def test_a_full_disk_is_told_from_the_network() -> None:
    assert (
        full_disk(GitFailedError("fatal: write error: No space left on device", 128), Path("/x")) is not None
    )
    assert full_disk(GitFailedError("fatal: early EOF", 128), Path("/x")) is None
