"""The HTTP client against real servers on the loopback interface."""

from __future__ import annotations

import gzip
import os
import threading
import time
from collections.abc import Iterator
from email.utils import formatdate
from pathlib import Path

import pytest

from lockbuild.config import Config, NetworkConfig
from lockbuild.events import Event, Note
from lockbuild.transport.failures import (
    BrokenTransferError,
    MalformedError,
    NotFoundError,
    OfflineError,
    RefusedError,
    TooLargeError,
    UnreachableError,
)
from lockbuild.transport.http import Http
from tests.support import http_server as serve
from tests.support.http_server import Server, serving

DATA = bytes(range(256)) * 4096


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as running:
        running.add("/file", DATA)
        yield running


@pytest.fixture
def http() -> Iterator[Http]:
    with client() as made:
        yield made


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))


def client(
    *, timeout: float = 5, retries: int = 2, events: list[Event] | None = None, **options: bool
) -> Http:
    config = Config(network=NetworkConfig(timeout=timeout, retries=retries))
    report = (lambda event: None) if events is None else events.append
    return Http(config, report=report, first_wait=0.01, **options)


def test_gets_a_file_whole(server: Server, http: Http) -> None:
    assert http.get(f"{server.url}/file", limit=len(DATA)) == DATA
    assert http.size(f"{server.url}/file") == len(DATA)
    assert server.paths("HEAD") == ["/file"]


def test_refuses_what_is_larger_than_allowed(server: Server, http: Http) -> None:
    with pytest.raises(TooLargeError, match="larger than 1048575 bytes"):
        http.get(f"{server.url}/file", limit=len(DATA) - 1)


def test_stops_an_endless_response_at_the_limit(server: Server, http: Http) -> None:
    server.script["/endless"] = [serve.endless()]
    began = time.monotonic()
    with pytest.raises(TooLargeError):
        http.get(f"{server.url}/endless", limit=1_000_000)
    assert time.monotonic() - began < 20


def test_retries_an_overloaded_server_and_says_so(server: Server) -> None:
    events: list[Event] = []
    server.script["/file"] = [serve.status(503), serve.hang_up()]
    with client(events=events) as http:
        assert http.get(f"{server.url}/file", limit=1 << 20) == DATA
    notes = [event for event in events if isinstance(event, Note)]
    assert len(notes) == 2
    assert "503" in notes[0].message


def test_who_does_not_answer_and_who_named_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with serve.serving() as gone:
        dead = gone.url
    config = Config.model_validate({"pypi": {"indexes": [f"{dead}/simple"]}, "network": {"retries": 0}})
    with Http(config) as http:
        with pytest.raises(UnreachableError) as caught:
            http.get(f"{dead}/simple/x/", limit=9)
        assert (caught.value.hint or "").startswith(
            "the place is of [pypi] indexes in lockbuild's config.toml: `lockbuild config show` says"
        )
        monkeypatch.setenv("http_proxy", dead.replace("//", "//me:s3cret@"))
        with pytest.raises(UnreachableError) as caught:
            http.get("http://files.test/x", limit=9)
    assert caught.value.what == f"the proxy cannot be reached: Connection refused (http_proxy names {dead})"
    assert "s3cret" not in str(caught.value)


def test_gives_up_after_the_configured_retries(server: Server) -> None:
    server.script["/file"] = [serve.status(500)] * 9
    with client(retries=2) as http, pytest.raises(UnreachableError, match="500"):
        http.get(f"{server.url}/file", limit=1 << 20)
    assert len(server.paths()) == 3


def test_does_not_retry_what_is_not_there(server: Server, http: Http) -> None:
    with pytest.raises(NotFoundError, match="404"):
        http.get(f"{server.url}/absent", limit=9)
    assert server.paths() == ["/absent"]


@pytest.mark.parametrize("code", [400, 403])
def test_does_not_retry_a_refusal(server: Server, http: Http, code: int) -> None:
    server.script["/file"] = [serve.status(code)]
    with pytest.raises(RefusedError, match=str(code)):
        http.get(f"{server.url}/file", limit=1 << 20)
    assert len(server.paths()) == 1


def test_waits_as_long_as_the_server_asks_and_says_so_once_a_host(server: Server) -> None:
    server.script["/file"] = [serve.status(429, Retry_After="1")] * 2
    events: list[Event] = []
    began = time.monotonic()
    with client(events=events) as http:
        http.get(f"{server.url}/file", limit=1 << 20)
    assert 1.9 < time.monotonic() - began < 20
    said = [event.message for event in events if isinstance(event, Note) and event.level == "info"]
    assert said == [
        f"{server.url}/file: the server answers 429 Too Many Requests; trying again up to 2 times more"
    ]


@pytest.mark.parametrize("form", ["seconds", "date"])
def test_does_not_wait_for_an_hour(server: Server, http: Http, form: str) -> None:
    value = "3600" if form == "seconds" else formatdate(time.time() + 3600, usegmt=True)
    server.script["/file"] = [serve.status(503, Retry_After=value)]
    began = time.monotonic()
    with pytest.raises(UnreachableError) as caught:
        http.get(f"{server.url}/file", limit=1 << 20)
    assert time.monotonic() - began < 60
    assert caught.value.hint is not None
    assert "come back in 3" in caught.value.hint


@pytest.mark.parametrize(
    ("first", "piece"),
    [
        ("HTTP/1.1 200 OK\r\nX: ", "a"),
        ("HTTP/1.1 200 OK\r\n", "X: a\r\n"),
        ("", "HTTP/1.1 100 Continue\r\n\r\n"),
    ],
)
def test_the_head_of_an_answer_has_its_time(
    server: Server, monkeypatch: pytest.MonkeyPatch, first: str, piece: str
) -> None:
    """A byte now and then keeps a time-out from ever passing."""
    monkeypatch.setattr("lockbuild.transport.connection.LONGEST_HEAD", 0.2)
    server.script["/file"] = [serve.drip_head(first, piece)] * 2
    began = time.monotonic()
    with client(timeout=0.3, retries=1) as http, pytest.raises(UnreachableError):
        http.get(f"{server.url}/file", limit=1 << 20)
    assert time.monotonic() - began < 15


def test_a_body_may_take_longer_than_a_head(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lockbuild.transport.connection.LONGEST_HEAD", 0.1)

    def behave(handler: serve.Handler) -> None:
        handler.head(200, 10, {})
        for _ in range(10):
            time.sleep(0.1)
            handler.send(b"x")

    server.script["/file"] = [behave]
    with client(timeout=0.3, retries=0) as http:
        assert http.get(f"{server.url}/file", limit=100) == b"x" * 10


@pytest.mark.parametrize(
    "head",
    [
        "200 OK\r\nContent-Length: -5",
        "200 OK\r\nContent-Length: +3",
        f"200 OK\r\nContent-Length: {'9' * 5001}",
        "206 Part\r\nContent-Length: 3\r\nContent-Range: bytes 0-2/3",
        "206 Part\r\nContent-Length: 3\r\nContent-Range: bytes 5-2/1",
        "206 Part\r\nContent-Length: 3",
    ],
)
def test_what_a_server_says_of_its_bytes_must_be_possible(server: Server, http: Http, head: str) -> None:
    """Where no digest is known yet, nothing else would tell."""
    server.script["/file"] = [serve.raw(head, b"abc")] * 9
    with pytest.raises(MalformedError) as caught:
        http.get(f"{server.url}/file", limit=1 << 20)
    assert caught.value.on == f"{server.url}/file"


@pytest.mark.parametrize("place", ["5-2/1", "7-9/9", "4-9/20"])
def test_a_part_that_cannot_be_is_refused(server: Server, http: Http, place: str) -> None:
    server.script["/file"] = [serve.raw(f"206 Part\r\nContent-Range: bytes {place}", b"abc")] * 9
    with pytest.raises((MalformedError, BrokenTransferError)):
        b"".join(http.stream(f"{server.url}/file", offset=5, validator='"x"'))


def test_a_length_beside_pieces_is_not_looked_at(server: Server, http: Http) -> None:
    head = "200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 77"
    server.script["/file"] = [serve.raw(head, b"3\r\nabc\r\n0\r\n\r\n")]
    assert http.get(f"{server.url}/file", limit=1 << 20) == b"abc"


def test_a_silent_server_times_out(server: Server) -> None:
    server.script["/file"] = [serve.late(2)] * 2
    began = time.monotonic()
    with client(timeout=0.3, retries=1) as http, pytest.raises(UnreachableError, match="time-out"):
        http.get(f"{server.url}/file", limit=1 << 20)
    assert time.monotonic() - began < 2


def test_nobody_listens(http: Http) -> None:
    with serving() as gone:
        url = gone.url
    with pytest.raises(UnreachableError, match="refused"):
        http.get(f"{url}/file", limit=9)


def test_an_unknown_host_is_not_asked_for_again() -> None:
    events: list[Event] = []
    with client(events=events) as http, pytest.raises(UnreachableError, match="not known"):
        http.get("http://nowhere.invalid/file", limit=9)
    assert not events


def test_a_wait_ends_when_the_client_is_closed(server: Server) -> None:
    server.script["/file"] = [serve.status(503, Retry_After="30")]
    http = client()
    threading.Timer(0.2, http.close).start()
    began = time.monotonic()
    with pytest.raises(UnreachableError):
        http.get(f"{server.url}/file", limit=9)
    assert time.monotonic() - began < 15


def test_a_truncated_small_response_is_fetched_again(server: Server, http: Http) -> None:
    server.script["/file"] = [serve.truncate(1000)]
    assert http.get(f"{server.url}/file", limit=1 << 20) == DATA


def test_streams_from_an_offset(server: Server, http: Http) -> None:
    with http.stream(f"{server.url}/file", offset=1000) as body:
        assert (body.offset, body.total, body.resumed) == (1000, len(DATA), True)
        assert b"".join(body) == DATA[1000:]


def test_a_server_without_ranges_starts_again(server: Server, http: Http) -> None:
    server.script["/file"] = [serve.no_ranges()]
    with http.stream(f"{server.url}/file", offset=1000) as body:
        assert (body.offset, body.resumed) == (0, False)
        assert b"".join(body) == DATA


def test_another_range_than_asked_for_is_not_taken(server: Server, http: Http) -> None:
    server.script["/file"] = [serve.shifted_range(7)]
    with http.stream(f"{server.url}/file", offset=1000) as body:
        assert body.offset == 0
        assert b"".join(body) == DATA
    assert len(server.paths()) == 2


def test_a_changed_file_is_not_gone_on_with(server: Server, http: Http) -> None:
    with http.stream(f"{server.url}/file", offset=1000, validator='"another"') as body:
        assert body.offset == 0
        assert b"".join(body) == DATA


def test_an_offset_past_the_end_starts_again(server: Server, http: Http) -> None:
    with http.stream(f"{server.url}/file", offset=len(DATA) + 5) as body:
        assert body.offset == 0
        assert b"".join(body) == DATA


def test_a_weak_validator_is_not_offered(server: Server, http: Http) -> None:
    server.script["/file"] = [serve.other(DATA, etag='W/"x"')]
    with http.stream(f"{server.url}/file") as body:
        assert body.validator is None


def test_a_truncated_stream_breaks_off(server: Server, http: Http) -> None:
    server.script["/file"] = [serve.truncate(5000)]
    with http.stream(f"{server.url}/file") as body, pytest.raises(BrokenTransferError, match="missing"):
        b"".join(body)
    with http.stream(f"{server.url}/file", offset=5000, validator=body.validator) as rest:
        assert b"".join(rest) == DATA[5000:]


def test_stored_compression_is_left_alone_and_transport_compression_undone(
    server: Server, http: Http
) -> None:
    packed = gzip.compress(b"<a>page</a>" * 1000)

    def gzipped(handler: serve.Handler) -> None:
        handler.reply(200, packed, {"Content-Encoding": "gzip", "Content-Type": "text/html"})

    server.script["/page"] = [gzipped, gzipped, gzipped]
    assert http.get(f"{server.url}/page", limit=1 << 20) == packed
    document = http.read(f"{server.url}/page", limit=1 << 20, accept="text/html")
    assert document.body == b"<a>page</a>" * 1000
    assert document.content_type == "text/html"
    with pytest.raises(TooLargeError):
        http.read(f"{server.url}/page", limit=5000, accept="text/html")


def test_slices(server: Server, http: Http) -> None:
    assert http.slice(f"{server.url}/file", 100, 50) == DATA[100:150]
    assert http.slice(f"{server.url}/file", len(DATA) - 5, 50) is None
    server.script["/file"] = [serve.no_ranges()]
    assert http.slice(f"{server.url}/file", 100, 50) is None


def test_many_requests_share_few_connections(server: Server, http: Http) -> None:
    for _ in range(50):
        http.get(f"{server.url}/file", limit=1 << 20)
        with http.stream(f"{server.url}/file") as body:
            for _ in body:
                pass
    assert server.connections == 1


def test_a_redirect_is_followed(server: Server, http: Http) -> None:
    server.script["/moved"] = [serve.redirect("/file", 308)]
    document = http.read(f"{server.url}/moved", limit=1 << 20, accept="*/*")
    assert document.body == DATA
    assert document.url == f"{server.url}/file"


def test_what_comes_with_a_redirect_or_an_error_is_not_read(server: Server, http: Http) -> None:
    server.script["/moved"] = [serve.endless(302, Location="/file")]
    assert http.get(f"{server.url}/moved", limit=1 << 20) == DATA
    server.script["/forbidden"] = [serve.endless(403)]
    with pytest.raises(RefusedError):
        http.get(f"{server.url}/forbidden", limit=1 << 20)


def test_redirects_in_a_circle_end(server: Server, http: Http) -> None:
    server.script["/a"] = [serve.redirect("/a")] * 50
    with pytest.raises(RefusedError, match="redirects"):
        http.get(f"{server.url}/a", limit=9)


@pytest.mark.parametrize("target", ["file:///etc/passwd", "ftp://127.0.0.1/x", "http://[broken/"])
def test_a_redirect_out_of_http_is_refused(server: Server, http: Http, target: str) -> None:
    server.script["/a"] = [serve.redirect(target)]
    with pytest.raises(RefusedError, match="redirects"):
        http.get(f"{server.url}/a", limit=1 << 20)


def test_credentials_stay_with_their_host(server: Server, http: Http) -> None:
    with serving() as elsewhere:
        elsewhere.add("/file", b"loot")
        server.credentials = ("anna", "s3cret")
        server.script["/a"] = [serve.redirect("/b")]
        server.script["/b"] = [serve.redirect(f"{elsewhere.url}/file")]
        url = server.url.replace("//", "//anna:s3cret@") + "/a"
        assert http.get(url, limit=99) == b"loot"
        assert all("authorization" in request.headers for request in server.requests)
        assert server.paths() == ["/a", "/b"]
        (request,) = elsewhere.requests
        assert "authorization" not in request.headers
        assert "s3cret" not in str(request)


def test_netrc_is_used_for_its_host_only(
    server: Server, http: Http, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine localhost login anna password s3cret\n")
    netrc.chmod(0o600)
    server.credentials = ("anna", "s3cret")
    local = server.url.replace("127.0.0.1", "localhost")
    assert http.get(f"{local}/file", limit=1 << 20) == DATA
    with pytest.raises(RefusedError, match="401") as caught:
        http.get(f"{server.url}/file", limit=1 << 20)
    assert "netrc" in str(caught.value)


def test_secrets_are_in_no_error_and_no_note(server: Server) -> None:
    events: list[Event] = []
    base = server.url.replace("//", "//anna:s3cret@")
    server.script["/a"] = [serve.status(503)] * 9
    server.script["/b"] = [serve.truncate(5)] * 9
    server.add("/b", DATA)
    with client(events=events, retries=1) as http:
        for path in ("/a", "/b", "/absent"):
            with pytest.raises(Exception, match=path) as caught:
                http.get(f"{base}{path}?token=t0ken&v=1", limit=1 << 30)
            text = f"{caught.value!s} {caught.value!r} {caught.value.__dict__}"
            assert "s3cret" not in text
            assert "t0ken" not in text
            assert "v=1" in text
    assert events
    assert "s3cret" not in str(events)
    assert "t0ken" not in str(events)


def test_a_proxy_of_the_environment_is_used(
    server: Server, http: Http, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.add("http://files.test/x", b"through the proxy")
    monkeypatch.setenv("http_proxy", server.url)
    assert http.get("http://files.test/x", limit=99) == b"through the proxy"
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with serving() as direct:
        direct.add("/y", b"direct")
        assert http.get(f"{direct.url}/y", limit=99) == b"direct"
        assert direct.paths() == ["/y"]


def test_offline_fails_at_once_but_for_local_files(server: Server, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"local")
    with client(offline=True) as http:
        with pytest.raises(OfflineError, match="network must not be used"):
            http.get(f"{server.url}/file", limit=9)
        assert http.get((tmp_path / "x").as_uri(), limit=9) == b"local"
    assert not server.requests


def test_local_files(http: Http, tmp_path: Path) -> None:
    file = tmp_path / "ü x"
    file.write_bytes(DATA)
    url = file.as_uri()
    assert http.get(url, limit=len(DATA)) == DATA
    assert http.size(url) == len(DATA)
    assert http.slice(url, 3, 4) == DATA[3:7]
    with http.stream(url, offset=10) as body:
        assert (body.offset, body.total, body.resumed) == (10, len(DATA), True)
        assert b"".join(body) == DATA[10:]
    with http.stream(url, offset=len(DATA) + 1) as body:
        assert body.offset == 0
        assert b"".join(body) == DATA
    with pytest.raises(TooLargeError):
        http.get(url, limit=5)
    for absent in (tmp_path / "absent", tmp_path, file / "below"):
        with pytest.raises(NotFoundError):
            http.get(absent.as_uri(), limit=5)
    with pytest.raises(RefusedError, match="must not name a host"):
        http.get("file://server/share", limit=5)


def test_a_local_pipe_or_device_is_not_waited_for(http: Http, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for url in ((tmp_path / "fifo").as_uri(), "file:///dev/zero"):
        with pytest.raises(RefusedError, match="it is not a regular file"):
            http.get(url, limit=5)
        with pytest.raises(RefusedError, match="it is not a regular file"):
            http.slice(url, 0, 5)


@pytest.mark.parametrize("url", ["ftp://h/x", "data:,x", "gopher:x"])
def test_other_schemes_are_refused(http: Http, url: str) -> None:
    with pytest.raises(RefusedError, match="not supported"):
        http.get(url, limit=5)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return serve.make_certificate(tmp_path_factory.mktemp("tls"))


def test_an_unknown_authority_is_not_trusted(
    certificate: Path, http: Http, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)
    with serving(certificate=certificate) as server:
        server.add("/file", DATA)
        with pytest.raises(UnreachableError, match="certificate is not trusted") as caught:
            http.get(f"{server.url}/file", limit=1 << 20)
        assert "REQUESTS_CA_BUNDLE" in str(caught.value)
        assert not server.requests


@pytest.mark.parametrize("variable", ["REQUESTS_CA_BUNDLE", "SSL_CERT_FILE"])
def test_an_authority_that_the_environment_names_is_trusted(
    certificate: Path, http: Http, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, str(certificate.parent / "certificate.pem"))
    with serving(certificate=certificate) as server, serving() as plain:
        server.add("/file", DATA)
        assert http.get(f"{server.url}/file", limit=1 << 20) == DATA
        trusted = http.direct.session().get_adapter("https://").poolmanager.connection_pool_kw["ssl_context"]
        assert len(trusted.get_ca_certs()) == 1, "that authority, and no bundle beside it"
        plain.add("/file", DATA)
        server.script["/down"] = [serve.redirect(f"{plain.url}/file")]
        with pytest.raises(RefusedError, match="from https to http"):
            http.get(f"{server.url}/down", limit=1 << 20)
        assert not plain.requests
        plain.script["/up"] = [serve.redirect(f"{server.url}/file")]
        assert http.get(f"{plain.url}/up", limit=1 << 20) == DATA


def test_abort_wakes_a_blocked_reader(server: Server, http: Http) -> None:
    released = threading.Event()
    server.script["/file"] = [serve.slow(1000, released)]
    with http.stream(f"{server.url}/file") as body:
        threading.Timer(0.2, body.abort).start()
        began = time.monotonic()
        with pytest.raises(BrokenTransferError):
            for _ in body:
                pass
        assert time.monotonic() - began < 15
    released.set()


def test_threads_share_a_client(server: Server, http: Http) -> None:
    wrong: list[bytes] = []

    def read() -> None:
        for _ in range(20):
            data = http.get(f"{server.url}/file", limit=1 << 20)
            if data != DATA:
                wrong.append(data)

    threads = [threading.Thread(target=read) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert server.connections <= 8
