"""What git is told of a server: the same credentials and authorities that the HTTP client has."""

from __future__ import annotations

import base64
import subprocess
from pathlib import Path
from typing import Any

import pytest

from lockbuild.config import Config
from lockbuild.errors import UsageError
from lockbuild.transport.git_access import GitAccess
from tests.support import http_server as serve

TOKEN = "s3cret-t0ken"


def access(directory: Path, environ: dict[str, str] | None = None, **tables: Any) -> GitAccess:
    return GitAccess(Config.model_validate(tables), environ or {"HOME": str(directory)}, directory / "git")


def basic(user: str, secret: str) -> str:
    return "Authorization: Basic " + base64.b64encode(f"{user}:{secret}".encode()).decode()


def test_without_anything_to_show_git_is_told_nothing(tmp_path: Path) -> None:
    made = access(tmp_path)
    for url in ("https://git.test/a", "http://git.test/a", "ssh://git@git.test/a", "file:///srv/a.git"):
        assert made.settings(url) == {}


def test_a_token_is_a_password_and_goes_to_its_host_only(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "CORP_TOKEN": TOKEN}
    made = access(tmp_path, environ, hosts=[{"host": "git.test:8443", "token-env": "CORP_TOKEN"}])
    settings = made.settings("https://git.test:8443/a")
    assert settings["http.extraHeader"] == basic("x-access-token", TOKEN)
    assert settings["http.followRedirects"] == "false", "git would take the header along"
    for url in ("https://git.test/a", "http://git.test:8443/a", "https://other.test:8443/a"):
        assert made.settings(url) == {}


def test_what_stands_in_a_url_is_no_argument(tmp_path: Path) -> None:
    made = access(tmp_path)
    url = f"https://anna:{TOKEN}@git.test/a"
    assert made.plain(url) == "https://git.test/a"
    assert made.settings(url)["http.extraHeader"] == basic("anna", TOKEN)
    assert made.plain("ssh://git@git.test/a") == "ssh://git@git.test/a"


def test_netrc(tmp_path: Path) -> None:
    (tmp_path / ".netrc").write_text(
        f"machine git.test login anna password {TOKEN}\ndefault login x password y\n"
    )
    made = access(tmp_path)
    assert made.settings("https://git.test/a")["http.extraHeader"] == basic("anna", TOKEN)
    assert made.settings("https://other.test/a") == {}


def test_client_certificates(tmp_path: Path) -> None:
    host = {"host": "git.test", "client-cert": "/c.pem", "client-key": "/k.pem"}
    settings = access(tmp_path, hosts=[host]).settings("https://git.test/a")
    assert (settings["http.sslCert"], settings["http.sslKey"]) == ("/c.pem", "/k.pem")
    assert settings["http.followRedirects"] == "false"
    both = access(tmp_path, hosts=[{"host": "git.test", "client-cert": "/c.pem"}]).settings(
        "https://git.test/a"
    )
    assert both["http.sslKey"] == "/c.pem"


def test_authorities_are_one_file_with_those_that_are_trusted_anyway(tmp_path: Path) -> None:
    own = serve.make_certificate(tmp_path / "own").parent / "certificate.pem"
    usual = serve.make_certificate(tmp_path / "usual").parent / "certificate.pem"
    environ = {"HOME": str(tmp_path), "SSL_CERT_FILE": str(usual)}
    assert access(tmp_path, environ).settings("https://git.test/a") == {"http.sslCAInfo": str(usual)}
    settings = access(tmp_path, environ, network={"ca": [str(own)]}).settings("https://git.test/a")
    bundle = Path(settings["http.sslCAInfo"])
    assert settings["http.proxySSLCAInfo"] == str(bundle)
    assert own.read_text() in bundle.read_text()
    assert usual.read_text() in bundle.read_text()
    # Without a bundle in the environment the system's is in it.
    settings = access(tmp_path, network={"ca": [str(own)]}).settings("https://git.test/a")
    assert len(Path(settings["http.sslCAInfo"]).read_bytes()) > len(own.read_bytes())


def test_an_authority_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"absent\.pem: cannot be read"):
        access(tmp_path, network={"ca": [str(tmp_path / "absent.pem")]}).settings("https://git.test/a")


def test_git_itself_takes_them(tmp_path: Path) -> None:
    """Over TLS with an authority of its own and a password: git asks for the references and shows both."""
    certificate = serve.make_certificate(tmp_path / "tls")
    with serve.serving(certificate=certificate) as server:
        server.credentials = ("x-access-token", TOKEN)
        environ = {"HOME": str(tmp_path), "CORP_TOKEN": TOKEN}
        made = access(
            tmp_path,
            environ,
            network={"ca": [str(certificate.parent / "certificate.pem")]},
            hosts=[{"host": server.url.removeprefix("https://"), "token-env": "CORP_TOKEN"}],
        )
        url = f"{server.url}/a.git"
        settings = made.settings(url)
        variables = {"GIT_CONFIG_COUNT": str(len(settings))}
        for number, (key, value) in enumerate(settings.items()):
            variables |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
        commit = "a" * 40
        server.add("/a.git/info/refs", f"{commit}\trefs/heads/main\n".encode(), "text/plain")
        done = subprocess.run(
            ["git", "ls-remote", "--", url],
            env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "GIT_TERMINAL_PROMPT": "0", **variables},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stdout == f"{commit}\trefs/heads/main\n", done.stderr
        assert server.shown() == {server.authorization}
