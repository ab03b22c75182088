"""``lockbuild doctor`` in surroundings that are really broken, each in one way."""

from __future__ import annotations

import json
import os
import re
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import formatdate
from pathlib import Path

import pytest

from lockbuild.doctor.finding import Finding
from lockbuild.errors import ExitStatus
from lockbuild.events import silent
from lockbuild.store import Store
from lockbuild.workflow.doctor import Diagnosis, diagnose
from lockbuild.workflow.workspace import BackendName, Workspace
from tests.support.command import lockbuild
from tests.support.disks import small_disk
from tests.support.engine import PrivateEngine
from tests.support.http_server import Handler, Server, make_certificate, serving, status
from tests.support.proxy import proxying
from tests.support.registry import PASSWORD, registry

PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


@dataclass
class Surroundings:
    """A machine that is well, whose ways to the network all lead to one server."""

    directory: Path
    server: Server
    environ: dict[str, str] = field(default_factory=dict)
    extra: str = ""

    @property
    def config(self) -> Path:
        return self.directory / "config.toml"

    def write(self, *, url: str | None = None) -> None:
        url = url or self.server.url
        self.config.write_text(
            f'[debian]\nmirrors = ["{url}/debian"]\nsnapshot = "{url}/snapshot"\n'
            f'keyring = "keyring"\n[pypi]\nindexes = ["{url}/simple"]\n[npm]\nregistry = "{url}/npm"\n{self.extra}'
        )

    def diagnose(
        self,
        *,
        offline: bool = False,
        backend: BackendName = "bubblewrap",
        limit: float = 20,
        store: Path | None = None,
        project: Path | None = None,
    ) -> Diagnosis:
        workspace = Workspace(
            Store(store or self.directory / "store"),
            {**os.environ, **self.environ},
            silent,
            datetime.now(UTC),
            offline=offline,
            backend_name=backend,
        )
        return diagnose(workspace, project, limit=limit)


@pytest.fixture
def well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Surroundings]:
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE", "DOCKER_HOST"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "keyring").write_bytes(b"a keyring")
    with serving() as server:
        surroundings = Surroundings(tmp_path, server)
        surroundings.environ["LOCKBUILD_CONFIG"] = str(surroundings.config)
        surroundings.write()
        yield surroundings


def found(diagnosis: Diagnosis, check: str) -> list[Finding]:
    return [finding for finding in diagnosis.findings if finding.check == check]


def only(diagnosis: Diagnosis, check: str) -> Finding:
    [finding] = found(diagnosis, check)
    return finding


def troubles(diagnosis: Diagnosis) -> set[str]:
    """What is not well; the engine of the machine that the tests run on does not matter."""
    return {finding.check for finding in diagnosis.findings if finding.level != "ok"} - {"engine", "store"}


def test_a_machine_that_is_well(well: Surroundings) -> None:
    diagnosis = well.diagnose()
    assert troubles(diagnosis) == set()
    assert diagnosis.status == ExitStatus.OK
    assert only(diagnosis, "sandbox").message == "builds run in bubblewrap"
    for kind in ("debian", "snapshot", "pypi", "npm"):
        finding = only(diagnosis, kind)
        assert finding.message.startswith("answers in ")
        assert finding.seconds is not None
        assert 0 < finding.seconds < 5
    assert only(diagnosis, "clock").message == "agrees with 4 servers"
    assert {request.method for request in well.server.requests} == {"HEAD"}


def test_a_project_is_read(well: Surroundings, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    manifest, lock = project / "lockbuild.toml", project / "lockbuild.lock"

    def look() -> tuple[set[str], Diagnosis]:
        diagnosis = well.diagnose(offline=True, project=project)
        return troubles(diagnosis), diagnosis

    example = Path(__file__).parents[2] / "examples" / "hello"
    manifest.write_text((example / "lockbuild.toml").read_text())
    assert look()[0] == {"lock"}
    lock.write_text((example / "lockbuild.lock").read_text())
    assert look()[0] == set()
    lock.write_text(f"<<<<<<< ours\n{lock.read_text()}=======\n>>>>>>> theirs\n")
    trouble, diagnosis = look()
    assert (trouble, diagnosis.status) == ({"lock"}, ExitStatus.USAGE)
    assert "lockbuild lock" in (only(diagnosis, "lock").remedy or "")
    lock.write_text((example / "lockbuild.lock").read_text())
    manifest.write_text(manifest.read_text() + '\n[overrides.tools.cmake]\nrequirement = "cmake==3.31.10"\n')
    trouble, diagnosis = look()
    assert (trouble, diagnosis.status) == ({"lock"}, ExitStatus.OK)
    assert "tools.cmake.requirement" in only(diagnosis, "lock").message
    manifest.write_text("[project]\nnom = 1\n")
    trouble, diagnosis = look()
    assert (trouble, diagnosis.status) == ({"manifest"}, ExitStatus.USAGE)
    assert only(diagnosis, "manifest").subject == str(manifest)


def test_offline_asks_nobody(well: Surroundings) -> None:
    diagnosis = well.diagnose(offline=True)
    assert well.server.requests == []
    assert found(diagnosis, "debian") == found(diagnosis, "dns") == found(diagnosis, "clock") == []
    assert only(diagnosis, "network").message == "was not looked at (--offline)"


def unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_a_proxy_that_refuses(well: Surroundings, monkeypatch: pytest.MonkeyPatch) -> None:
    place = f"127.0.0.1:{unused_port()}"
    monkeypatch.setenv("http_proxy", f"http://someone:secret@{place}")
    diagnosis = well.diagnose()
    proxy = only(diagnosis, "proxy")
    assert proxy.message == "nothing can be reached through it: Connection refused"
    assert proxy.remedy is not None
    assert "no_proxy" in proxy.remedy
    assert only(diagnosis, "debian").message == (
        f"the proxy cannot be reached: Connection refused (http_proxy names http://{place})"
    )
    assert diagnosis.status == ExitStatus.FETCH
    assert "secret" not in repr(diagnosis)
    assert "someone" not in repr(diagnosis)


def test_a_proxy_that_wants_a_password(well: Surroundings, monkeypatch: pytest.MonkeyPatch) -> None:
    with proxying(credentials=("someone", "secret")) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        diagnosis = well.diagnose()
        assert only(diagnosis, "debian").message == "the proxy answers 407"
        assert "user name and password of the proxy" in str(only(diagnosis, "debian").remedy)
        monkeypatch.setenv("http_proxy", proxy.url.replace("//", "//someone:secret@"))
        diagnosis = well.diagnose()
        assert only(diagnosis, "proxy").level == "ok"
        assert only(diagnosis, "proxy").subject == f"http_proxy={proxy.url}"
        assert "secret" not in repr(diagnosis)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("socks5h://127.0.0.1:1080", "SOCKS"),
        ("ftp://proxy", "no address"),
        ("http://proxy:port", "no address"),
    ],
)
def test_what_is_no_proxy(
    well: Surroundings, monkeypatch: pytest.MonkeyPatch, value: str, message: str
) -> None:
    monkeypatch.setenv("https_proxy", value)
    proxy = only(well.diagnose(offline=True), "proxy")
    assert (proxy.level, proxy.subject) == ("warning", f"https_proxy={value}")
    assert message in proxy.message


def test_proxies_that_differ(well: Surroundings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:2")
    assert [finding.message for finding in found(well.diagnose(offline=True), "proxy")] == [
        "http_proxy and HTTP_PROXY differ; http_proxy is used",
        "is used for downloads",
    ]


def test_an_authority_that_is_not_trusted(well: Surroundings, tmp_path: Path) -> None:
    certificate = make_certificate(tmp_path / "tls")
    with serving(certificate=certificate) as server:
        well.write(url=server.url)
        finding = only(well.diagnose(), "debian")
        assert finding.message.startswith("its certificate is not trusted: ")
        assert "[network] ca" in str(finding.remedy)
        well.extra = '[network]\nca = ["tls/certificate.pem"]\n'
        well.write(url=server.url)
        assert troubles(well.diagnose()) == set()


def test_a_bundle_that_is_not_there(well: Surroundings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/no/such/bundle.pem")
    diagnosis = well.diagnose()
    first = found(diagnosis, "ca")[0]
    assert (first.level, first.subject) == ("warning", "REQUESTS_CA_BUNDLE=/no/such/bundle.pem")
    assert diagnosis.status == ExitStatus.OK


def test_a_bundle_that_is_none(well: Surroundings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(well.directory / "keyring"))
    diagnosis = well.diagnose()
    assert only(diagnosis, "ca").message == "it is no file of PEM certificates"
    assert diagnosis.status == ExitStatus.USAGE


def test_a_configured_authority_that_is_not_there(well: Surroundings) -> None:
    well.extra = '[network]\nca = ["missing.pem"]\n'
    well.write()
    diagnosis = well.diagnose()
    ca = only(diagnosis, "ca")
    assert (ca.level, ca.message) == ("problem", "cannot be read: No such file or directory")
    assert diagnosis.status == ExitStatus.USAGE


def test_a_name_without_an_address(well: Surroundings) -> None:
    well.write(url="http://nowhere.invalid")
    diagnosis = well.diagnose()
    dns = only(diagnosis, "dns")
    assert (dns.level, dns.subject) == ("warning", "nowhere.invalid")
    assert only(diagnosis, "network").status == diagnosis.status == ExitStatus.FETCH


def off_by(seconds: float, handler: Handler) -> None:
    handler.date_time_string = lambda timestamp=None: formatdate(  # type: ignore[method-assign]
        time.time() + seconds, usegmt=True
    )
    handler.serve()


@pytest.mark.parametrize(("seconds", "way"), [(3600, "60 minutes behind"), (-86400 * 3, "3 days ahead of")])
def test_a_clock_that_is_off(well: Surroundings, seconds: float, way: str) -> None:
    for path in ("/debian/", "/snapshot/", "/simple/pip/", "/npm/"):
        well.server.add(path, b"")
        well.server.script[path] = [lambda handler: off_by(seconds, handler)]
    clock = only(well.diagnose(), "clock")
    assert clock.level == "warning"
    assert clock.message.startswith(f"this machine's clock is {way} 4 servers; ")


def test_one_server_with_a_wrong_clock_is_outvoted(well: Surroundings) -> None:
    well.server.script["/npm/"] = [lambda handler: off_by(1e6, handler)]
    assert only(well.diagnose(), "clock").level == "ok"


def test_a_server_that_is_in_trouble(well: Surroundings) -> None:
    well.server.script["/debian/"] = [status(503)]
    well.server.script["/simple/pip/"] = [status(401)]
    diagnosis = well.diagnose()
    assert only(diagnosis, "debian").message == "the server answers 503 Service Unavailable"
    pypi = only(diagnosis, "pypi")
    assert pypi.message == "the server answers 401 Unauthorized"
    assert "~/.netrc" in str(pypi.remedy)
    assert diagnosis.status == ExitStatus.OK


def test_the_mirror_that_is_asked_first_is_slow(well: Surroundings) -> None:
    from tests.support.http_server import late

    well.server.add("/slow/", b"")
    well.server.script["/slow/"] = [late(0.6)]
    well.config.write_text(
        well.config.read_text().replace(
            f'["{well.server.url}/debian"]', f'["{well.server.url}/slow", "{well.server.url}/debian"]'
        )
    )
    messages = [finding.message for finding in found(well.diagnose(), "debian")]
    assert len(messages) == 3
    assert messages[2].startswith(f"it is asked first, and {well.server.url}/debian answers ")


def test_a_server_that_says_nothing_does_not_hold_it_up(well: Surroundings) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent_server:
        well.write(url=f"http://127.0.0.1:{silent_server.getsockname()[1]}")
        started = time.monotonic()
        diagnosis = well.diagnose(limit=2)
        assert time.monotonic() - started < 3
    assert only(diagnosis, "debian").message == "no answer within 2 s"


MANIFEST = """\
[project]
name = "a"
toolchain = "emscripten-debian"

[targets.a]
steps = ["true"]
outputs = ["a"]
"""


def test_a_full_disk(well: Surroundings, tmp_path: Path) -> None:
    with small_disk(tmp_path / "full", 1 << 20) as full:
        (full / "lockbuild.toml").write_text(MANIFEST)
        (full / "filler").write_bytes(b"x" * ((1 << 20) - 4096))
        diagnosis = well.diagnose(store=full / "store", project=full)
    store = only(diagnosis, "store")
    assert (store.level, store.message) == (
        "problem",
        "it cannot be written to: No space left on device",
    )
    assert "lockbuild store gc" in str(store.remedy)
    assert only(diagnosis, "project").level == "warning"
    assert diagnosis.status == ExitStatus.FETCH


def test_little_space(well: Surroundings, tmp_path: Path) -> None:
    with small_disk(tmp_path / "small", 200 << 20) as small:
        store = only(well.diagnose(store=small / "store"), "store")
    assert store.level == "warning"
    assert re.match(r"\d{3}\.\d MB free; ", store.message)


def test_a_store_that_is_a_file(well: Surroundings) -> None:
    diagnosis = well.diagnose(store=well.config)
    assert only(diagnosis, "store").message == "it cannot be written to: Not a directory"
    assert diagnosis.status == ExitStatus.FETCH


def test_a_store_where_nothing_may_be_run(well: Surroundings, tmp_path: Path) -> None:
    with small_disk(tmp_path / "noexec", 1 << 20, options="noexec") as place:
        messages = [finding.message for finding in found(well.diagnose(store=place), "store")]
    assert any("mounted noexec" in message for message in messages)


def test_without_a_sandbox(well: Surroundings) -> None:
    well.environ["DOCKER_HOST"] = f"unix://{well.directory}/no.sock"
    diagnosis = well.diagnose(backend="docker")
    assert only(diagnosis, "engine").message == "no engine answers at DOCKER_HOST"
    assert only(diagnosis, "sandbox").level == "problem"
    assert diagnosis.status == ExitStatus.SANDBOX


def test_a_registry_that_wants_a_login(well: Surroundings, monkeypatch: pytest.MonkeyPatch) -> None:
    with registry(well.directory / "registry", password=True) as running:
        well.extra = f'[cache]\nread = ["{running.host}/team/cache"]\n'
        well.write()
        monkeypatch.setenv("DOCKER_CONFIG", str(well.directory / "nobody"))
        finding = only(well.diagnose(), "registry")
        assert (finding.level, finding.subject) == ("warning", f"{running.host}/team/cache")
        assert "docker login" in str(finding.remedy)
        well.environ.update(running.docker_config(well.directory / "docker"))
        diagnosis = well.diagnose()
        assert only(diagnosis, "registry").message == "lets us read; nothing is there yet"
        assert PASSWORD not in repr(diagnosis)


@pytest.mark.docker
def test_with_an_engine(well: Surroundings, engine: PrivateEngine) -> None:
    well.environ.update(engine.environ)
    diagnosis = well.diagnose(backend="auto", offline=True)
    described = found(diagnosis, "engine")[0]
    assert described.subject == engine.url
    version = engine.endpoint.request("GET", "/version").json()
    assert described.message.startswith(f"Docker {version['Version']}, API {version['ApiVersion']}, ")
    assert described.message.endswith(" image store")
    assert only(diagnosis, "sandbox").message == "builds run in containers"


def test_programs_that_are_missing_or_old(well: Surroundings, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = well.directory / "bin"
    programs.mkdir()
    (programs / "git").write_text("#!/bin/sh\necho git version 2.20.1\n")
    (programs / "git").chmod(0o755)
    (well.directory / "keyring").unlink()
    monkeypatch.setenv("PATH", str(programs))
    diagnosis = well.diagnose(offline=True)
    assert only(diagnosis, "git").message == "git 2.20.1 is too old"
    assert only(diagnosis, "gpgv").remedy == "install gpgv (`apt install gpgv`)"
    assert only(diagnosis, "keyring").message.endswith("it is not there")


def test_an_invalid_configuration(well: Surroundings) -> None:
    well.config.write_text("[debian]\nmirror = 1\n")
    diagnosis = well.diagnose(offline=True)
    configuration = only(diagnosis, "configuration")
    assert configuration.level == "problem"
    assert "debian.mirror" in configuration.message
    assert diagnosis.status == ExitStatus.USAGE
    options = ("doctor", "--quiet", "--offline", "--store", well.directory / "store")
    printed = lockbuild(*options, status=2, environ=well.environ, cwd=well.directory)
    [line] = [line for line in printed.out.splitlines() if "debian.mirror" in line]
    assert line.startswith(" " * len("problem  configuration  ")), "below what it belongs to"


def test_the_command_prints_it_both_ways(well: Surroundings) -> None:
    store = well.directory / "store"
    options = ("doctor", "--store", store, "--backend", "bubblewrap")
    result = lockbuild(*options, "--json", environ=well.environ, cwd=well.directory)
    value = json.loads(result.out)
    assert set(value) == {"status", "seconds", "findings"}
    assert value["status"] == 0
    assert {frozenset(finding) for finding in value["findings"]} == {
        frozenset({"check", "level", "subject", "message", "remedy", "seconds"})
    }
    text = lockbuild(*options, "--offline", environ=well.environ, cwd=well.directory).out
    assert "ok       sandbox        builds run in bubblewrap\n" in text
    assert not store.exists()
    broken = {**well.environ, "DOCKER_HOST": "unix:///no/such.sock"}
    quiet = ("doctor", "--store", store, "--backend", "docker", "--offline", "--quiet")
    told = lockbuild(*quiet, environ=broken, cwd=well.directory, status=7).out
    assert "problem  sandbox" in told
    assert "\nok " not in told
