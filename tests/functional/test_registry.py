"""The client against a real registry: every way to log in, both directions, and what breaks off on the way."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from lockbuild.config import Config, HostConfig, Mirror
from lockbuild.config.settings import NetworkConfig, RegistriesConfig
from lockbuild.errors import IntegrityError, LockbuildError, UsageError
from lockbuild.model.digest import Digest
from lockbuild.model.reference import Reference
from lockbuild.store import Store
from lockbuild.transport.failures import (
    MalformedError,
    NotFoundError,
    OfflineError,
    RefusedError,
    TooSlowError,
    UnreachableError,
)
from lockbuild.transport.http import Http
from lockbuild.transport.registry.registries import Registries
from tests.support.http_server import (
    Handler,
    Server,
    make_certificate,
    other,
    raw,
    redirect,
    serving,
    truncate,
)
from tests.support.registry import (
    PASSWORD,
    USER,
    Registry,
    TokenService,
    front,
    registry,
    token_service,
)

MANIFEST = "application/vnd.oci.image.manifest.v1+json"


_OPEN: list[Http] = []


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    """Every client of a test is closed after it."""
    yield
    while _OPEN:
        _OPEN.pop().close()


def client(
    one: Registry | None, *, environ: dict[str, str] | None = None, offline: bool = False, **settings: Any
) -> Registries:
    """A client that trusts the registry's certificate, knows what ``environ`` has, and is configured so."""
    authorities = [str(one.certificate)] if one is not None and one.certificate else []
    config = Config(network=NetworkConfig(retries=1, ca=authorities), **settings)
    http = Http(config, offline=offline, first_wait=0.01)
    _OPEN.append(http)
    return Registries(http, config, environ={"HOME": "/nowhere", **(environ or {})})


def pushed(registries: Registries, reference: Reference, data: bytes) -> Digest:
    digest = Digest.of(data)
    registries.push_blob(reference, digest, len(data), lambda: [data[:1000], data[1000:]])
    return digest


def image_manifest(config: Digest, size: int, layer: Digest, layer_size: int) -> bytes:
    value = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": {
            "mediaType": "application/vnd.oci.image.config.v1+json",
            "digest": str(config),
            "size": size,
        },
        "layers": [
            {"mediaType": "application/vnd.oci.image.layer.v1.tar", "digest": str(layer), "size": layer_size}
        ],
    }
    return json.dumps(value, sort_keys=True).encode()


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    with registry(tmp_path_factory.mktemp("registry"), tls=True, password=True) as one:
        yield one


@pytest.fixture
def reference(secured: Registry, request: pytest.FixtureRequest) -> Reference:
    name = hashlib.sha256(request.node.name.encode()).hexdigest()[:12]
    return Reference(secured.host, f"team/{name}", "1")


@pytest.fixture
def logged_in(secured: Registry, tmp_path: Path) -> Registries:
    return client(secured, environ=secured.docker_config(tmp_path / "docker"))


def test_a_manifest_and_its_blobs_come_back_as_they_went(
    logged_in: Registries, reference: Reference, tmp_path: Path
) -> None:
    config, layer = b"{}", os.urandom(3_000_001)
    manifest = image_manifest(
        pushed(logged_in, reference, config), 2, pushed(logged_in, reference, layer), len(layer)
    )
    assert logged_in.push_manifest(reference, manifest, MANIFEST) == Digest.of(manifest)
    found = logged_in.manifest(reference)
    assert (found.body, found.media_type, found.digest) == (manifest, MANIFEST, Digest.of(manifest))
    assert logged_in.manifest(reference.at(found.digest)).body == manifest
    assert logged_in.tags(reference) == ["1"]
    store = Store(tmp_path / "store")
    logged_in.fetch_blob(reference, Digest.of(layer), store, size=len(layer))
    assert store.verified_blob(Digest.of(layer)).read_bytes() == layer
    assert logged_in.blob_bytes(reference, Digest.of(config), limit=100) == config


def test_a_blob_that_is_there_is_not_sent_again(
    secured: Registry, logged_in: Registries, reference: Reference
) -> None:
    data = os.urandom(5000)
    digest = Digest.of(data)
    sent: list[int] = []

    def opened() -> list[bytes]:
        sent.append(1)
        return [data]

    assert logged_in.push_blob(reference, digest, len(data), opened)
    assert not logged_in.push_blob(reference, digest, len(data), opened)
    assert len(sent) == 1
    beside = Reference(reference.registry, reference.repository + "-beside")
    assert not logged_in.push_blob(
        beside, digest, len(data), opened, mount=["team/not-there", reference.repository]
    )
    assert len(sent) == 1
    assert logged_in.has_blob(beside, digest)


def test_an_empty_blob_goes_and_comes(logged_in: Registries, reference: Reference, tmp_path: Path) -> None:
    assert logged_in.push_blob(reference, Digest.of(b""), 0, list)
    store = Store(tmp_path / "store")
    logged_in.fetch_blob(reference, Digest.of(b""), store, size=0)
    assert store.blob_path(Digest.of(b"")).read_bytes() == b""
    assert list(logged_in.chunks(reference, Digest.of(b""), 0)) == []


def test_what_is_not_there(logged_in: Registries, reference: Reference) -> None:
    with pytest.raises(NotFoundError, match=r"answers 404 Not Found: (MANIFEST|NAME)_UNKNOWN") as caught:
        logged_in.manifest(reference)
    assert reference.repository in str(caught.value.on)
    assert not logged_in.has_manifest(reference)
    assert not logged_in.has_blob(reference, Digest.of(b"nothing"))


def test_nobody_gets_in_without_a_password(secured: Registry, reference: Reference) -> None:
    with pytest.raises(RefusedError, match="answers 401 Unauthorized") as caught:
        client(secured).manifest(reference)
    assert "docker login" in str(caught.value.hint)
    knowing = client(
        secured,
        environ={"TOKEN": "wrong-secret"},
        hosts=[HostConfig(host=secured.host, username=USER, token_env="TOKEN")],
    )
    with pytest.raises(RefusedError) as wrong:
        knowing.manifest(reference)
    assert "check the user name and password" in str(wrong.value.hint)
    assert "wrong-secret" not in str(wrong.value)
    assert base64.b64encode(b"alice:wrong-secret").decode() not in str(wrong.value)


def test_a_host_of_the_configuration_lets_in(secured: Registry, reference: Reference) -> None:
    registries = client(
        secured,
        environ={"REGISTRY_TOKEN": PASSWORD},
        hosts=[HostConfig(host=secured.host, username=USER, token_env="REGISTRY_TOKEN")],
    )
    assert pushed(registries, reference, b"by a token of the environment")


@pytest.mark.parametrize("key", ["credsStore", "credHelpers"])
def test_a_helper_of_docker_lets_in(
    secured: Registry, reference: Reference, tmp_path: Path, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    helper = tmp_path / "bin" / "docker-credential-test"
    helper.parent.mkdir()
    answer = json.dumps({"Username": USER, "Secret": PASSWORD})
    helper.write_text(
        f"#!/bin/sh\nread server\n[ \"$1 $server\" = 'get {secured.host}' ] && echo '{answer}'\n"
    )
    helper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{helper.parent}:{os.environ['PATH']}")
    value = {key: "test" if key == "credsStore" else {secured.host: "test"}}
    (tmp_path / "config.json").write_text(json.dumps(value))
    assert pushed(client(secured, environ={"DOCKER_CONFIG": str(tmp_path)}), reference, b"by a helper")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('{"credsStore": "nowhere"}', "docker-credential-nowhere, which is not on PATH"),
        ('{"credsStore": "failing"}', "docker-credential-failing failed"),
        ('{"auths": {"HOST": {"auth": "bm8tY29sb24="}}}', "is no configuration of Docker"),
        ("no JSON with a s3cr3t", "is no configuration of Docker"),
    ],
)
def test_a_configuration_of_docker_that_is_of_no_use(
    secured: Registry,
    reference: Reference,
    tmp_path: Path,
    text: str,
    what: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    helper = tmp_path / "bin" / "docker-credential-failing"
    helper.parent.mkdir()
    helper.write_text("#!/bin/sh\necho a s3cr3t; exit 1\n")
    helper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{helper.parent}:{os.environ['PATH']}")
    (tmp_path / "config.json").write_text(text.replace("HOST", secured.host))
    with pytest.raises(UsageError, match=re.escape(what)) as caught:
        client(secured, environ={"DOCKER_CONFIG": str(tmp_path)}).manifest(reference)
    assert "s3cr3t" not in str(caught.value)
    assert str(tmp_path) in str(caught.value.on)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TokenService]:
    with token_service(tmp_path_factory.mktemp("tokens")) as one:
        yield one


@pytest.fixture(scope="module")
def by_tokens(service: TokenService, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    with registry(tmp_path_factory.mktemp("registry"), tokens=service) as one:
        yield one


def test_tokens_are_for_what_is_done_and_used_again(
    by_tokens: Registry, service: TokenService, tmp_path: Path
) -> None:
    service.asked.clear()
    reference = Reference(by_tokens.host, "team/by-token", "1")
    registries = client(by_tokens, environ=by_tokens.docker_config(tmp_path))
    layer, config = pushed(registries, reference, b"layer"), pushed(registries, reference, b"{}")
    registries.push_manifest(reference, image_manifest(config, 2, layer, 5), MANIFEST)
    assert registries.manifest(reference).media_type == MANIFEST
    shown = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    scopes = [query["scope"] for query, _ in service.asked]
    assert {who for _, who in service.asked} == {f"Basic {shown}"}
    assert scopes == [
        ["repository:team/by-token:pull"],
        ["repository:team/by-token:pull,push"],
    ]
    assert {tuple(query["service"]) for query, _ in service.asked} == {("test registry",)}


def test_an_anonymous_token_reads_and_does_not_write(
    by_tokens: Registry, service: TokenService, tmp_path: Path
) -> None:
    reference = Reference(by_tokens.host, "team/open", "1")
    data = os.urandom(100)
    digest = pushed(client(by_tokens, environ=by_tokens.docker_config(tmp_path)), reference, data)
    service.asked.clear()
    anonymous = client(by_tokens)
    assert anonymous.blob_bytes(reference, digest, limit=1000) == data
    assert [who for _, who in service.asked] == [None]
    with pytest.raises(RefusedError, match="answers 401"):
        pushed(anonymous, reference, b"not allowed")


def test_a_token_that_has_expired_is_had_anew(
    by_tokens: Registry, service: TokenService, tmp_path: Path
) -> None:
    reference = Reference(by_tokens.host, "team/expiring", "1")
    registries = client(by_tokens, environ=by_tokens.docker_config(tmp_path))
    service.lifetime = -120  # the registry takes none that is older than its leeway
    try:
        with pytest.raises(RefusedError, match="answers 401"):
            pushed(registries, reference, b"too old")
    finally:
        service.lifetime = 60
    assert pushed(registries, reference, b"fresh")


def test_an_identity_token_gets_access(by_tokens: Registry, service: TokenService, tmp_path: Path) -> None:
    value = {"auths": {by_tokens.host: {"identitytoken": service.identity}}}
    (tmp_path / "config.json").write_text(json.dumps(value))
    service.asked.clear()
    registries = client(by_tokens, environ={"DOCKER_CONFIG": str(tmp_path)})
    assert pushed(registries, Reference(by_tokens.host, "team/identity"), b"by identity")
    assert {who for _, who in service.asked} == {service.identity}
    assert service.asked[0][0]["grant_type"] == ["refresh_token"]


def test_no_password_goes_to_a_realm_without_tls(tmp_path: Path) -> None:
    def challenge(handler: Handler) -> None:
        handler.reply(401, b"", {"WWW-Authenticate": 'Bearer realm="http://127.0.0.1:9/token",service="x"'})

    certificate = make_certificate(tmp_path / "tls")
    with serving(certificate=certificate) as server:
        host = server.url.partition("://")[2]
        server.script["/v2/a/b/manifests/latest"] = [challenge]
        one = Registry(host, tmp_path, certificate.parent / "certificate.pem")
        with pytest.raises(RefusedError, match="which is no place for credentials"):
            client(one, environ=one.docker_config(tmp_path / "docker")).manifest(Reference(host, "a/b"))


def test_a_redirect_gets_no_credentials(tmp_path: Path) -> None:
    """As registries that keep their blobs in somebody's object storage do."""
    data = os.urandom(1000)
    digest = Digest.of(data)
    with serving() as registry_server, serving(host="127.0.0.2") as storage:
        registry_server.credentials = (USER, PASSWORD)
        storage.add("/bucket/object", data)
        host = registry_server.url.partition("://")[2]
        path = f"/v2/a/b/blobs/{digest}"
        registry_server.script[path] = [redirect(f"{storage.url}/bucket/object?sig=secret", 307)] * 2
        one = Registry(host, tmp_path)
        registries = client(one, environ=one.docker_config(tmp_path / "docker"))
        assert registries.blob_bytes(Reference(host, "a/b"), digest, limit=2000) == data
        assert registry_server.shown()
        assert not storage.shown()


def test_where_a_redirect_leads_nobody_asks_for_the_password(tmp_path: Path) -> None:
    """Whoever keeps a registry's blobs must not name the token service that is shown the registry's password."""
    digest = Digest.of(b"x")
    with serving() as registry_server, serving(host="127.0.0.2") as storage:
        host = registry_server.url.partition("://")[2]
        registry_server.script[f"/v2/a/b/blobs/{digest}"] = [redirect(f"{storage.url}/object", 307)] * 2
        challenge = {"WWW-Authenticate": f'Bearer realm="{storage.url}/token",service="x"'}
        storage.script["/object"] = [lambda handler: handler.reply(401, b"", challenge)] * 2
        storage.script["/token"] = [lambda handler: handler.reply(200, b'{"token": "t"}')]
        one = Registry(host, tmp_path)
        registries = client(one, environ=one.docker_config(tmp_path / "docker"))
        with pytest.raises(RefusedError, match=r"redirected to http://127\.0\.0\.2.*401"):
            registries.blob_bytes(Reference(host, "a/b"), digest, limit=2000)
        assert not storage.shown()
        assert storage.paths() == ["/object"]


def test_an_identity_token_is_not_taken_along_by_a_redirect(tmp_path: Path) -> None:
    with serving() as registry_server, serving(host="127.0.0.2") as elsewhere:
        host = registry_server.url.partition("://")[2]
        challenge = {"WWW-Authenticate": f'Bearer realm="{registry_server.url}/token",service="x"'}
        registry_server.script["/v2/a/b/manifests/latest"] = [
            lambda handler: handler.reply(401, b"", challenge)
        ]
        registry_server.script["/token"] = [redirect(f"{elsewhere.url}/token", 307)]
        docker = tmp_path / "docker"
        docker.mkdir()
        entry = {"auth": base64.b64encode(b"who:").decode(), "identitytoken": "identity-secret"}
        (docker / "config.json").write_text(json.dumps({"auths": {host: entry}}))
        registries = client(None, environ={"DOCKER_CONFIG": str(docker)})
        with pytest.raises(RefusedError, match="which must not see what is sent") as caught:
            registries.manifest(Reference(host, "a/b"))
        assert "identity-secret" not in str(caught.value)
        assert elsewhere.requests == []


DIGITS = "9" * 5000
NESTED = b"[" * 100_000
HOSTILE = {
    "json without end": raw("200 OK", NESTED),
    "json without end in a list": raw("200 OK", b'{"tags":' + NESTED),
    "an error without end": raw("403 Forbidden", NESTED),
    "an error that is not what it is packed with": raw("403 Forbidden\r\nContent-Encoding: zstd", b"x"),
    "a length that nothing has": raw(f"200 OK\r\nContent-Length: {DIGITS}", b"x"),
    "a part that nothing has": raw(f"206 Part\r\nContent-Range: bytes {DIGITS}-5/9", b"x"),
    "a part of what nothing is": raw(f"206 Part\r\nContent-Range: bytes 0-5/{DIGITS}", b"x"),
    "a chunk that nothing has": raw("200 OK\r\nTransfer-Encoding: chunked", b"f" * 5000 + b"\r\n"),
    "no name of a host": raw("302 Found\r\nLocation: http://a..b/"),
    "too long a name of a host": raw(f"302 Found\r\nLocation: http://{'a' * 70}.b/"),
    "no list of tags": raw("200 OK", b'{"tags": 5}'),
    "a next page that is nowhere": raw('200 OK\r\nLink: <http://[x>; rel="next"', b'{"tags": []}'),
    "a type that is none": raw("200 OK", b'{"mediaType": ["x"]}'),
    "a number that is none": raw("200 OK", b'{"size": ' + DIGITS.encode() + b"}"),
    "an upload that goes nowhere": raw("202 Accepted\r\nLocation: http://[x"),
    "an upload at no host": raw("202 Accepted\r\nLocation: http://a..b/"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_whatever_a_registry_answers_is_an_error_that_people_can_read(
    plain: tuple[Server, Reference], tmp_path: Path, kind: str
) -> None:
    server, reference = plain
    survives(server, reference, tmp_path, HOSTILE[kind], {})


@pytest.mark.parametrize(
    "answer",
    [
        raw("200 OK", NESTED),
        raw("200 OK\r\nContent-Length: 500", b"abc"),
        raw("200 OK\r\nTransfer-Encoding: chunked", b"zz\r\n"),
        raw("200 OK\r\nContent-Encoding: gzip", b"xx"),
        raw("200 OK", b'{"token": "t", "expires_in": ' + b"9" * 400 + b"}"),
        raw("200 OK", b'{"token": "t", "expires_in": NaN}'),
        raw("302 Found\r\nLocation: http://a..b/"),
    ],
)
def test_whatever_a_token_service_answers_is_an_error_that_people_can_read(
    plain: tuple[Server, Reference], tmp_path: Path, answer: Any
) -> None:
    server, reference = plain
    challenge = raw(f'401 Who\r\nWWW-Authenticate: Bearer realm="{server.url}/token"')
    server.script["/token"] = [answer] * 99
    one = Registry(reference.registry, tmp_path)
    survives(server, reference, tmp_path, challenge, one.docker_config(tmp_path / "docker"))


def survives(
    server: Server, reference: Reference, directory: Path, answer: Any, environ: dict[str, str]
) -> None:
    """Everything that can be asked of a registry ends, well or in an error of lockbuild, where it answers so."""
    digest, store = Digest.of(b"abc"), Store(directory / "store")
    repository = f"/v2/{reference.repository}"
    paths = ("manifests/1", f"manifests/{digest}", f"blobs/{digest}", "tags/list", "blobs/uploads/")
    attempts: tuple[Any, ...] = (
        lambda registries: registries.manifest(reference),
        lambda registries: registries.manifest(reference.at(digest)),
        lambda registries: registries.has_manifest(reference),
        lambda registries: registries.blob_bytes(reference, digest, limit=1000),
        lambda registries: registries.fetch_blob(reference, digest, store, size=3),
        lambda registries: list(registries.chunks(reference, digest, 3)),
        lambda registries: registries.tags(reference),
        lambda registries: registries.push_blob(reference, digest, 3, lambda: [b"abc"]),
        lambda registries: registries.push_manifest(reference, b"{}", MANIFEST),
    )
    for attempt in attempts:
        for path in paths:
            server.script[f"{repository}/{path}"] = [answer] * 9
        with suppress(LockbuildError), pytest.MonkeyPatch.context() as patch:
            patch.setattr("lockbuild.transport.registry.blobs.PAUSE", 0.001)
            patch.setattr("lockbuild.transport.pieces.PAUSE", 0.001)
            attempt(client(None, environ=environ))
    assert not store.has_blob(digest)


@pytest.fixture
def plain(tmp_path: Path) -> Iterator[tuple[Server, Reference]]:
    """A server that does as it is told, and a reference to a repository of its."""
    with serving() as server:
        yield server, Reference(server.url.partition("://")[2], "a/b", "1")


def test_wrong_bytes_are_refused(plain: tuple[Server, Reference], tmp_path: Path) -> None:
    server, reference = plain
    data = os.urandom(100_000)
    digest = Digest.of(data)
    path = f"/v2/a/b/blobs/{digest}"
    server.add(path, data)
    registries, store = client(None), Store(tmp_path / "store")
    attempts = (
        lambda: registries.fetch_blob(reference, digest, store, size=len(data)),
        lambda: list(registries.chunks(reference, digest, len(data))),
        lambda: registries.blob_bytes(reference, digest, limit=1 << 20),
    )
    for wrong in (other(data[:-1] + b"?"), other(data + b"more"), other(data[:-7])):
        for attempt in attempts:
            server.script[path] = [wrong] * 9
            with pytest.raises(IntegrityError):
                attempt()
        assert not store.has_blob(digest)
    server.script[path] = []
    client(None).fetch_blob(reference, digest, Store(tmp_path / "store"), size=len(data))


def test_a_broken_transfer_is_gone_on_from(plain: tuple[Server, Reference], tmp_path: Path) -> None:
    server, reference = plain
    data = os.urandom(2_000_000)
    digest = Digest.of(data)
    path = f"/v2/a/b/blobs/{digest}"
    server.add(path, data)
    server.script[path] = [truncate(700_000), truncate(600_000)]
    store = Store(tmp_path / "store")
    client(None).fetch_blob(reference, digest, store, size=len(data))
    assert store.verified_blob(digest).read_bytes() == data
    ranges = [request.headers.get("range") for request in server.requests if request.path == path]
    assert ranges == [None, "bytes=700000-", "bytes=1300000-"]
    server.script[path] = [truncate(700_000), truncate(600_000)]
    assert b"".join(client(None).chunks(reference, digest, len(data))) == data


def test_a_byte_now_and_then_is_not_waited_for(
    plain: tuple[Server, Reference], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each byte comes within the time-out, so that the whole would never end."""
    monkeypatch.setattr("lockbuild.transport.body.SLOWEST_FOR", 0.3)

    def drip(handler: Handler) -> None:
        handler.close_connection = True
        handler.head(200, 100_000)
        for _ in range(100):
            time.sleep(0.05)
            handler.send(b"x")

    server, reference = plain
    digest = Digest.of(b"abc")
    registries = client(None)
    for attempt in (
        lambda: registries.fetch_blob(reference, digest, Store(tmp_path / "store"), size=100_000),
        lambda: list(registries.chunks(reference, digest, 100_000)),
        lambda: registries.blob_bytes(reference, digest, limit=1 << 20),
    ):
        server.script[f"/v2/a/b/blobs/{digest}"] = [drip]
        with pytest.raises(TooSlowError, match="less than 1024 bytes a second"):
            attempt()


def test_a_manifest_must_be_what_it_is_called(plain: tuple[Server, Reference]) -> None:
    server, reference = plain
    manifest = image_manifest(Digest.of(b"c"), 1, Digest.of(b"l"), 1)
    pinned = reference.at(Digest.of(b"another"))
    server.add(f"/v2/a/b/manifests/{pinned.digest}", manifest, MANIFEST)
    with pytest.raises(IntegrityError, match=r"has the digest sha256:"):
        client(None).manifest(pinned)
    ambiguous = json.dumps({**json.loads(manifest), "manifests": []}).encode()
    for body, kind in (
        (ambiguous, MANIFEST),
        (manifest, "application/vnd.oci.image.index.v1+json"),
        (b"[" * 100_000, MANIFEST),
        (b"<html>", MANIFEST),
    ):
        server.add("/v2/a/b/manifests/1", body, kind)
        with pytest.raises(MalformedError):
            client(None).manifest(reference)


def test_pages_of_tags_are_read_to_the_end_and_at_one_host(plain: tuple[Server, Reference]) -> None:
    server, reference = plain

    def page(tags: list[str], link: str | None) -> Any:
        headers = {} if link is None else {"Link": f'<{link}>; rel="next"'}
        return lambda handler: handler.reply(200, json.dumps({"tags": tags}).encode(), headers)

    server.script["/v2/a/b/tags/list"] = [page(["b", "a"], "/v2/a/b/tags/list?last=b"), page(["c"], None)]
    assert client(None).tags(reference) == ["a", "b", "c"]
    server.script["/v2/a/b/tags/list"] = [page(["b"], "http://127.0.0.2:1/v2/")]
    with pytest.raises(MalformedError, match="goes on at another host"):
        client(None).tags(reference)


def test_mirrors_are_asked_in_order_and_need_not_be_trusted(tmp_path: Path) -> None:
    data = os.urandom(1000)
    digest = Digest.of(data)
    with serving() as liar, serving() as good:
        path = f"/v2/proxy/team/app/blobs/{digest}"
        liar.add(path, data[::-1])
        good.add(path, data)
        mirror = Mirror(
            prefix="https://registry.invalid/v2", to=[f"{liar.url}/v2/proxy", f"{good.url}/v2/proxy"]
        )
        reference = Reference("registry.invalid", "team/app")
        store = Store(tmp_path / "store")
        client(None, mirrors=[mirror]).fetch_blob(reference, digest, store, size=1000)
        assert store.has_blob(digest)
        assert path in liar.paths()


def test_a_large_blob_goes_in_pieces_where_it_must(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lockbuild.transport.registry.upload._CHUNK", 1 << 20)
    data = os.urandom((5 << 20) + 17)
    digest = Digest.of(data)
    with registry(tmp_path / "registry") as one, front(one, limit=2 << 20) as proxy:
        reference = Reference(proxy.host, "team/large")
        client(one).push_blob(
            reference,
            digest,
            len(data),
            lambda: (data[at : at + 300_000] for at in range(0, len(data), 300_000)),
        )
        assert one.blob_file(str(digest)).read_bytes() == data
        pieces = [content_range for method, _, _, content_range in proxy.requests if method == "PATCH"]
    assert pieces[0] == "0-1048575"
    assert pieces[-1] == f"{5 << 20}-{len(data) - 1}"


def test_plain_http_is_for_loopback_and_for_whom_the_user_says(tmp_path: Path) -> None:
    named = Reference("registry.invalid:5000", "a/b")
    with pytest.raises(UnreachableError) as caught:
        client(None).manifest(named)
    assert str(caught.value.on).startswith("https://registry.invalid:5000/")
    configured = client(None, registries=RegistriesConfig(plain_http=["registry.invalid:5000"]))
    with pytest.raises(UnreachableError) as caught:
        configured.manifest(named)
    assert str(caught.value.on).startswith("http://registry.invalid:5000/")


def test_offline_nobody_is_asked(by_tokens: Registry) -> None:
    before = len(by_tokens.log)
    registries = client(by_tokens, offline=True)
    reference = Reference(by_tokens.host, "team/open")
    for attempt in (
        lambda: registries.manifest(reference),
        lambda: registries.has_blob(reference, Digest.of(b"")),
        lambda: registries.push_manifest(reference, b"{}", MANIFEST),
        lambda: registries.tags(reference),
    ):
        with pytest.raises(OfflineError):
            attempt()
    assert len(by_tokens.log) == before
