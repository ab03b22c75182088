"""What is shown to whom: two hosts with certificates of one's own authority, a proxy with a password, no leak."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lockbuild.config import Config
from lockbuild.errors import UsageError
from lockbuild.events import Event
from lockbuild.transport.failures import RefusedError, UnreachableError
from lockbuild.transport.http import Http
from tests.support import http_server as serve
from tests.support.http_server import Server, serving
from tests.support.proxy import proxying

DATA = b"what only some may read"
SECRET = "s3cret-t0ken"
PASSWORD = "p4ss-w0rd"
OTHER_HOST = "127.0.0.2"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return serve.make_certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def authority(certificate: Path) -> str:
    return str(certificate.parent / "certificate.pem")


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR", "NETRC"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def one(certificate: Path) -> Iterator[Server]:
    with serving(certificate=certificate) as server:
        server.add("/file", DATA)
        yield server


@pytest.fixture
def two(certificate: Path) -> Iterator[Server]:
    with serving(certificate=certificate, host=OTHER_HOST) as server:
        server.add("/file", DATA)
        yield server


class Bench:
    """A client with a configuration; everything that it says is kept."""

    def __init__(self, **tables: Any) -> None:
        network = {"retries": 0, "timeout": 5, **tables.pop("network", {})}
        self.events: list[Event] = []
        self.config = Config.model_validate({"network": network, **tables})

    def get(self, url: str) -> bytes:
        with Http(self.config, report=self.events.append, first_wait=0.01) as http:
            return http.get(url, limit=1000)

    def said(self) -> str:
        return f"{self.events!r} {self.config!r} {self.config}"


def host_of(server: Server) -> str:
    return server.url.removeprefix("https://")


def test_an_authority_of_ones_own_is_trusted_beside_the_system(
    one: Server, authority: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(UnreachableError, match="certificate is not trusted") as caught:
        Bench().get(f"{one.url}/file")
    assert "[network] ca" in str(caught.value.hint)
    assert Bench(network={"ca": [authority]}).get(f"{one.url}/file") == DATA
    other = serve.make_certificate(tmp_path / "other").parent / "certificate.pem"
    monkeypatch.setenv("SSL_CERT_FILE", str(other))
    assert Bench(network={"ca": [authority]}).get(f"{one.url}/file") == DATA


def test_authorities_that_are_none_are_told(one: Server, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        Bench(network={"ca": [str(tmp_path / "absent.pem")]}).get(f"{one.url}/file")
    (tmp_path / "bad.pem").write_text("no certificate")
    with pytest.raises(UsageError, match="is not a file of PEM certificates"):
        Bench(network={"ca": [str(tmp_path / "bad.pem")]}).get(f"{one.url}/file")


def test_a_bearer_token_goes_to_its_host_and_port_only(
    one: Server, two: Server, authority: str, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CORP_TOKEN", SECRET)
    one.token = SECRET
    bench = Bench(network={"ca": [authority]}, hosts=[{"host": host_of(one), "token-env": "CORP_TOKEN"}])
    assert bench.get(f"{one.url}/file") == DATA
    assert bench.get(f"{two.url}/file") == DATA
    with serving(certificate=certificate) as same_host_other_port:
        same_host_other_port.add("/file", DATA)
        assert bench.get(f"{same_host_other_port.url}/file") == DATA
        assert same_host_other_port.shown() == set()
    assert one.shown() == {f"Bearer {SECRET}"}
    assert two.shown() == set()
    assert SECRET not in bench.said()


@pytest.mark.parametrize("kind", ["token", "url", "netrc"])
def test_no_credential_follows_a_redirect_to_another_host(
    one: Server, two: Server, authority: str, monkeypatch: pytest.MonkeyPatch, home: Path, kind: str
) -> None:
    hosts = []
    url = f"{one.url}/moved"
    if kind == "token":
        monkeypatch.setenv("CORP_TOKEN", SECRET)
        hosts = [{"host": host_of(one), "username": "anna", "token-env": "CORP_TOKEN"}]
    elif kind == "url":
        url = url.replace("https://", f"https://anna:{SECRET}@")
    else:
        (home / ".netrc").write_text(f"machine 127.0.0.1 login anna password {SECRET}\n")
    one.credentials = ("anna", SECRET)
    one.script["/moved"] = [serve.redirect(f"{two.url}/file")]
    bench = Bench(network={"ca": [authority]}, hosts=hosts)
    assert bench.get(url) == DATA
    assert len(one.shown()) == 1
    assert two.shown() == set()

    two.token = "another"
    one.script["/moved"] = [serve.redirect(f"{two.url}/file")]
    with pytest.raises(
        RefusedError, match=f"redirected to {two.url}/file, where the server answers 401"
    ) as caught:
        bench.get(url)
    assert two.shown() == set()
    assert SECRET not in str(caught.value) + bench.said()


def test_a_redirect_back_is_shown_its_own_credential_again(
    one: Server, two: Server, authority: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CORP_TOKEN", SECRET)
    one.token = SECRET
    two.script["/away"] = [serve.redirect(f"{one.url}/file")]
    bench = Bench(network={"ca": [authority]}, hosts=[{"host": host_of(one), "token-env": "CORP_TOKEN"}])
    assert bench.get(f"{two.url}/away") == DATA
    assert one.shown() == {f"Bearer {SECRET}"}
    assert two.shown() == set()


def test_netrc_is_for_its_host_and_its_default_for_nobody(
    one: Server, two: Server, authority: str, home: Path
) -> None:
    (home / ".netrc").write_text(
        f"machine 127.0.0.1 login anna password {SECRET}\ndefault login bert password {PASSWORD}\n"
    )
    bench = Bench(network={"ca": [authority]})
    bench.get(f"{one.url}/file")
    bench.get(f"{two.url}/file")
    one.credentials = ("anna", SECRET)
    assert one.shown() == {one.authorization}
    assert two.shown() == set()


def test_npms_token_goes_to_its_registry_only(
    one: Server, two: Server, authority: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("npm_config_registry", "npm_config_userconfig"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    (home / ".npmrc").write_text(
        f"registry={one.url}/npm/\n//{host_of(one)}/npm/:_authToken={SECRET}\n//{host_of(two)}/:_authToken=x\n"
    )
    one.add("/npm/a", DATA)
    one.script["/npm/moved"] = [serve.redirect(f"{two.url}/file")]
    bench = Bench(network={"ca": [authority]})
    for url in (f"{one.url}/file", f"{two.url}/file", f"{one.url}/npm/moved"):
        assert bench.get(url) == DATA
    assert {request.path for request in one.requests if "authorization" in request.headers} == {"/npm/moved"}
    one.token = SECRET
    assert bench.get(f"{one.url}/npm/a") == DATA
    assert one.shown() == {f"Bearer {SECRET}"}
    assert two.shown() == set()
    assert SECRET not in bench.said()

    one.token = "another"
    with pytest.raises(RefusedError) as caught:
        bench.get(f"{one.url}/npm/a")
    assert SECRET not in str(caught.value)
    assert "check the user name, password or token" in str(caught.value.hint)
    # What [[hosts]] says goes before it.
    monkeypatch.setenv("CORP_TOKEN", "another")
    hosts = [{"host": host_of(one), "token-env": "CORP_TOKEN"}]
    assert Bench(network={"ca": [authority]}, hosts=hosts).get(f"{one.url}/npm/a") == DATA


def test_a_refusal_says_what_is_missing(
    one: Server, authority: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one.token = SECRET
    with pytest.raises(RefusedError, match="401") as caught:
        Bench(network={"ca": [authority]}).get(f"{one.url}/file")
    assert "~/.netrc" in str(caught.value.hint)

    hosts = [{"host": host_of(one), "token-env": "CORP_TOKEN"}]
    with pytest.raises(RefusedError) as caught:
        Bench(network={"ca": [authority]}, hosts=hosts).get(f"{one.url}/file")
    assert "CORP_TOKEN" in str(caught.value.hint)

    monkeypatch.setenv("CORP_TOKEN", "another-one")
    with pytest.raises(RefusedError) as caught:
        Bench(network={"ca": [authority]}, hosts=hosts).get(f"{one.url}/file")
    assert "check the user name, password or token" in str(caught.value.hint)
    assert "another-one" not in str(caught.value)

    (home / ".netrc").write_text(f"machine 127.0.0.1 login anna\n{SECRET}\n")
    with pytest.raises(RefusedError) as caught:
        Bench(network={"ca": [authority]}).get(f"{one.url}/file")
    assert f"correct {home}/.netrc (near line" in str(caught.value.hint)
    assert SECRET not in str(caught.value)


def test_a_token_that_would_break_the_header_is_refused_and_not_shown(
    one: Server, authority: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CORP_TOKEN", f"{SECRET}\r\nX-Other: 1")
    bench = Bench(network={"ca": [authority]}, hosts=[{"host": host_of(one), "token-env": "CORP_TOKEN"}])
    with pytest.raises(UsageError, match="characters that no bearer token has") as caught:
        bench.get(f"{one.url}/file")
    assert SECRET not in str(caught.value)
    assert not one.requests


def test_a_client_certificate_is_shown_to_its_host_only(
    certificate: Path, authority: str, tmp_path: Path
) -> None:
    mine = serve.make_certificate(tmp_path / "client").parent
    with (
        serving(certificate=certificate, clients=mine / "certificate.pem") as one,
        serving(certificate=certificate, clients=mine / "certificate.pem", host=OTHER_HOST) as two,
    ):
        for server in (one, two):
            server.add("/file", DATA)
        one.script["/moved"] = [serve.redirect(f"{two.url}/file")]
        host = {
            "host": host_of(one),
            "client-cert": str(mine / "certificate.pem"),
            "client-key": str(mine / "key.pem"),
        }
        bench = Bench(network={"ca": [authority]}, hosts=[host])
        assert bench.get(f"{one.url}/file") == DATA
        for url in (f"{two.url}/file", f"{one.url}/moved"):
            with pytest.raises(UnreachableError) as caught:
                bench.get(url)
            # The server's reason can be lost with the connection that it closes.
            assert "client-cert" in str(caught.value.hint) or "reset" in caught.value.what
        assert two.requests == []
        both = Bench(network={"ca": [authority]}, hosts=[{**host, "client-cert": str(mine / "both.pem")}])
        assert both.get(f"{one.url}/file") == DATA


def test_a_client_key_that_cannot_be_used_is_told(one: Server, authority: str, tmp_path: Path) -> None:
    mine = serve.make_certificate(tmp_path / "client").parent
    subprocess.run(
        [
            "openssl",
            "ec",
            "-aes128",
            "-passout",
            "pass:x",
            "-in",
            mine / "key.pem",
            "-out",
            mine / "locked.pem",
        ],
        check=True,
        capture_output=True,
    )
    for key, reason in (
        ("locked.pem", "is not a PEM certificate and its unencrypted key"),
        ("absent", "cannot be read"),
    ):
        host = {
            "host": host_of(one),
            "client-cert": str(mine / "certificate.pem"),
            "client-key": str(mine / key),
        }
        with pytest.raises(UsageError, match=reason):
            Bench(network={"ca": [authority]}, hosts=[host]).get(f"{one.url}/file")


@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.parametrize("where", ["url", "hosts"])
def test_a_proxy_with_a_password(
    one: Server, authority: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tls: bool, where: str
) -> None:
    """With an authority of its own where it speaks TLS; its password goes to it and not through it."""
    own = serve.make_certificate(tmp_path / "proxy") if tls else None
    ca = [authority, *([str(own.parent / "certificate.pem")] if own else [])]
    hosts = []
    monkeypatch.setenv("CORP_TOKEN", SECRET)
    monkeypatch.setenv("PROXY_PASSWORD", PASSWORD)
    one.token = SECRET
    with proxying(certificate=own, credentials=("paul", PASSWORD)) as proxy:
        url = proxy.url
        hosts = [{"host": host_of(one), "token-env": "CORP_TOKEN"}]
        if where == "url":
            url = url.replace("://", f"://paul:{PASSWORD}@")
        else:
            hosts.append({"host": proxy.url, "username": "paul", "token-env": "PROXY_PASSWORD"})
        monkeypatch.setenv("https_proxy", url)
        bench = Bench(network={"ca": ca}, hosts=hosts)
        assert bench.get(f"{one.url}/file") == DATA
        assert proxy.targets == [f"CONNECT {host_of(one)}"]
        assert "authorization" not in proxy.headers[0], "what is for the server goes through the tunnel"
        assert all("proxy-authorization" not in request.headers for request in one.requests)

        monkeypatch.setenv("no_proxy", "127.0.0.1")
        assert bench.get(f"{one.url}/file") == DATA
        assert len(proxy.targets) == 1

        monkeypatch.delenv("no_proxy")
        monkeypatch.setenv("https_proxy", url.replace(PASSWORD, "wrong-one"))
        monkeypatch.setenv("PROXY_PASSWORD", "wrong-one")
        with pytest.raises(UnreachableError, match="the proxy answers 407") as caught:
            bench.get(f"{one.url}/file")
        assert "https_proxy" in str(caught.value.hint)
        for secret in (SECRET, PASSWORD, "wrong-one"):
            assert secret not in str(caught.value) + bench.said()
        if tls:
            with pytest.raises(UnreachableError, match="certificate of the proxy is not trusted"):
                Bench(network={"ca": [authority]}).get(f"{one.url}/file")


def test_a_plain_request_through_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        serving() as plain,
        serving(host=OTHER_HOST) as other,
        proxying(credentials=("paul", PASSWORD)) as proxy,
    ):
        plain.add("/file", DATA)
        other.add("/file", DATA)
        plain.script["/moved"] = [serve.redirect(f"{other.url}/file")]
        monkeypatch.setenv("http_proxy", proxy.url.replace("://", f"://paul:{PASSWORD}@"))
        monkeypatch.setenv("no_proxy", OTHER_HOST)
        assert Bench().get(f"{plain.url}/moved") == DATA
        assert proxy.targets == [f"GET {plain.url}/moved"]
        assert all("proxy-authorization" not in request.headers for request in other.requests)
        monkeypatch.setenv("http_proxy", proxy.url)
        with pytest.raises(RefusedError, match="the proxy answers 407"):
            Bench().get(f"{plain.url}/file")


def test_a_mirror_on_another_host_is_not_shown_what_the_original_is(
    one: Server, two: Server, authority: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CORP_TOKEN", SECRET)
    bench = Bench(
        network={"ca": [authority]},
        hosts=[{"host": host_of(one), "token-env": "CORP_TOKEN"}],
        mirrors=[{"prefix": f"{one.url}/", "to": [two.url]}],
    )
    url = one.url.replace("https://", f"https://anna:{PASSWORD}@") + f"/file?access_token={PASSWORD}"
    assert bench.get(url) == DATA
    assert one.requests == []
    assert two.shown() == set()
    assert PASSWORD not in two.requests[0].path


def test_libraries_log_no_credential(
    one: Server,
    two: Server,
    authority: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("CORP_TOKEN", SECRET)
    one.script["/moved"] = [serve.redirect(f"{two.url}/file")]
    with caplog.at_level(logging.DEBUG), proxying(credentials=("paul", PASSWORD)) as proxy:
        monkeypatch.setenv("https_proxy", proxy.url.replace("://", f"://paul:{PASSWORD}@"))
        Bench(network={"ca": [authority]}, hosts=[{"host": host_of(one), "token-env": "CORP_TOKEN"}]).get(
            f"{one.url}/moved"
        )
    assert caplog.text
    assert SECRET not in caplog.text
    assert PASSWORD not in caplog.text


KEYRING = f'''
class errors:
    pass
class _Found:
    username = "anna"
    password = "{SECRET}"
def get_password(service, user):
    if service == "locked":
        raise RuntimeError("{SECRET}")
    return "{SECRET}" if (service, user) == ("corp", "anna") else None
def get_credential(service, user):
    return _Found if service == "corp" else None
'''


@pytest.fixture
def keyring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module with the two functions of the library keyring that are used."""
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "keyring.py").write_text(KEYRING)
    monkeypatch.syspath_prepend(tmp_path / "library")
    monkeypatch.delitem(sys.modules, "keyring", raising=False)


@pytest.mark.usefixtures("keyring")
@pytest.mark.parametrize("user", ["anna", None])
def test_a_password_of_the_keyring(
    one: Server, two: Server, authority: str, user: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    one.credentials = ("anna", SECRET)
    host = {"host": host_of(one), "keyring": "corp", **({"username": user} if user else {})}
    bench = Bench(network={"ca": [authority]}, hosts=[host])
    assert bench.get(f"{one.url}/file") == DATA
    assert bench.get(f"{two.url}/file") == DATA
    assert two.shown() == set()
    assert SECRET not in bench.said()
    locked = Bench(network={"ca": [authority]}, hosts=[{**host, "keyring": "locked", "username": "anna"}])
    with pytest.raises(UsageError, match="keyring cannot be read: RuntimeError") as caught:
        locked.get(f"{one.url}/file")
    assert SECRET not in str(caught.value)


def test_a_keyring_that_is_not_installed_is_told(
    one: Server, authority: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)  # type: ignore[arg-type]
    bench = Bench(network={"ca": [authority]}, hosts=[{"host": host_of(one), "keyring": "corp"}])
    with pytest.raises(UsageError, match="keyring") as caught:
        bench.get(f"{one.url}/file")
    assert "pip install keyring" in str(caught.value)


def test_the_environments_token_goes_before_the_keyring(
    one: Server, authority: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that nobody is asked to unlock one."""
    monkeypatch.setenv("CORP_TOKEN", SECRET)
    monkeypatch.setitem(sys.modules, "keyring", None)  # type: ignore[arg-type]
    one.token = SECRET
    host = {"host": host_of(one), "keyring": "corp", "token-env": "CORP_TOKEN"}
    assert Bench(network={"ca": [authority]}, hosts=[host]).get(f"{one.url}/file") == DATA
