"""What git is told of a server: the same credentials and authorities that the HTTP client has."""

from __future__ import annotations

import base64
import subprocess
from pathlib import Path
from typing import Any

import pytest

from lockbuild.config import Config
from lockbuild.errors import UsageError
from lockbuild.transport.git.access import GitAccess
from tests.support import http_server as serve
from tests.support.proxy import proxying

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
    assert access(tmp_path, environ).settings("https://git.test/a") == {
        "http.sslCAInfo": str(usual),
        "http.proxySSLCAInfo": str(usual),
    }
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


def ls_remote(made: GitAccess, url: str, home: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    settings = made.settings(url)
    variables = {"GIT_CONFIG_COUNT": str(len(settings))}
    for number, (key, value) in enumerate(settings.items()):
        variables |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return subprocess.run(
        ["git", "ls-remote", "--", url],
        env={"PATH": "/usr/bin:/bin", "HOME": str(home), "GIT_TERMINAL_PROMPT": "0", **variables, **environ},
        capture_output=True,
        text=True,
        check=False,
    )


REFS = f"{'a' * 40}\trefs/heads/main\n"


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.mark.parametrize("through", [None, "http", "https"])
def test_git_itself_takes_them(tmp_path: Path, through: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over TLS with an authority of its own and a password, also through a proxy with both."""
    certificate = serve.make_certificate(tmp_path / "tls")
    own = serve.make_certificate(tmp_path / "proxy")
    authorities = [str(place.parent / "certificate.pem") for place in (certificate, own)]
    with (
        serve.serving(certificate=certificate) as server,
        proxying(certificate=own if through == "https" else None, credentials=("paul", "p@ss:w/rd")) as proxy,
    ):
        server.credentials = ("x-access-token", TOKEN)
        server.add("/a.git/info/refs", REFS.encode(), "text/plain")
        environ = {"HOME": str(tmp_path), "CORP_TOKEN": TOKEN, "PROXY_PASSWORD": "p@ss:w/rd"}
        hosts = [
            {"host": server.url.removeprefix("https://"), "token-env": "CORP_TOKEN"},
            {"host": proxy.url, "username": "paul", "token-env": "PROXY_PASSWORD"},
        ]
        variables = {"https_proxy": proxy.url} if through else {}
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        made = access(tmp_path, environ, network={"ca": authorities}, hosts=hosts)
        done = ls_remote(made, f"{server.url}/a.git", tmp_path, **variables)
        assert done.stdout == REFS, done.stderr
        assert server.shown() == {server.authorization}
        assert all("proxy-authorization" not in request.headers for request in server.requests)
        assert bool(proxy.targets) == bool(through)
        assert all("authorization" not in headers for headers in proxy.headers)


def test_git_takes_no_credential_to_where_it_is_sent(tmp_path: Path) -> None:
    with serve.serving() as one, serve.serving(host="127.0.0.2") as two:
        two.add("/a.git/info/refs", REFS.encode(), "text/plain")
        one.script["/a.git/info/refs"] = [serve.redirect(f"{two.url}/a.git/info/refs")]
        environ = {"HOME": str(tmp_path), "CORP_TOKEN": TOKEN}
        made = access(
            tmp_path, environ, hosts=[{"host": one.url, "username": "u", "token-env": "CORP_TOKEN"}]
        )
        one.credentials = ("u", TOKEN)
        done = ls_remote(made, f"{one.url}/a.git", tmp_path)
        assert done.returncode
        assert one.shown() == {one.authorization}
        assert not two.requests
        assert TOKEN not in done.stderr
