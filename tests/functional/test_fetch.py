"""Fetching into a real store from real servers that are slow, wrong, short, gone or asleep."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from lockbuild.config import Config
from lockbuild.errors import FetchError, IntegrityError
from lockbuild.events import Advanced, Event, Finished, Note, Started
from lockbuild.fetch import Fetcher
from lockbuild.model.digest import Digest
from lockbuild.model.lock import Source, Suite
from lockbuild.store import Store
from lockbuild.transport.failures import OfflineError
from lockbuild.transport.http import Http
from tests.support import http_server as serve
from tests.support.http_server import Server, serving

DATA = hashlib.shake_256(b"a file").digest(3_000_000)
OTHER = hashlib.shake_256(b"another file").digest(len(DATA))


class Bench:
    """A store, two mirrors, and the means to fetch."""

    def __init__(self, tmp_path: Path, one: Server, two: Server) -> None:
        self.store = Store(tmp_path / "store")
        self.one = one
        self.two = two
        self.events: list[Event] = []

    def config(
        self, *, retries: int = 2, snapshot: str | None = None, mirrors: list[str] | None = None
    ) -> Config:
        debian = {
            "mirrors": mirrors or [self.one.url, self.two.url],
            "snapshot": snapshot or f"{self.one.url}/old",
        }
        return Config.model_validate({"debian": debian, "network": {"retries": retries, "timeout": 5}})

    def fetch(
        self, *sources: Source, offline: bool = False, suites: tuple[Suite, ...] = (), **config: object
    ) -> None:
        made = self.config(**config)  # type: ignore[arg-type]
        with Http(made, offline=offline, first_wait=0.01) as http:
            Fetcher(self.store, http, made, report=self.events.append, suites=suites).fetch(sources)

    def leave_partial(self, data: bytes, digest: Digest) -> None:
        with self.store.partial(digest) as partial:
            partial.write(data)

    def ranges(self, server: Server) -> list[str | None]:
        return [request.headers.get("range") for request in server.requests]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with serving() as one, serving() as two:
        yield Bench(tmp_path, one, two)


def deb(data: bytes = DATA, *, name: str = "foo", size: int | None = -1) -> Source:
    return Source(
        purl=f"pkg:deb/debian/{name}@1.0?arch=all&distro=forky",
        path=f"pool/{name}.deb",
        size=len(data) if size == -1 else size,
        sha256=Digest.of(data),
        trees=["linux/amd64:base"],
    )


def content(bench: Bench, source: Source) -> bytes:
    return bench.store.verified_blob(source.sha256).read_bytes()


def test_fetches_what_is_missing_and_reports_it(bench: Bench) -> None:
    bench.one.add("/pool/foo.deb", DATA)
    bench.one.add("/pool/bar.deb", OTHER[:1000])
    foo, bar = deb(), deb(OTHER[:1000], name="bar")
    bench.fetch(foo, bar, foo)
    assert content(bench, foo) == DATA
    assert content(bench, bar) == OTHER[:1000]
    started = {event.key: event for event in bench.events if isinstance(event, Started)}
    assert started["fetch"].total == len(DATA) + 1000
    come: Counter[str] = Counter()
    for event in bench.events:
        if isinstance(event, Advanced):
            come[event.key] += event.amount
    assert come["fetch"] == len(DATA) + 1000
    assert come[f"fetch:{foo.sha256.hex}"] == len(DATA)
    assert Counter(event.key for event in bench.events if isinstance(event, Finished)) == Counter(
        started.keys()
    )
    bench.one.requests.clear()
    bench.fetch(foo, bar)
    assert not bench.one.requests, "what is there is not asked for"


def test_resumes_what_an_earlier_run_left(bench: Bench) -> None:
    bench.one.add("/pool/foo.deb", DATA)
    source = deb()
    bench.leave_partial(DATA[:1_234_567], source.sha256)
    bench.fetch(source)
    assert content(bench, source) == DATA
    assert bench.ranges(bench.one) == ["bytes=1234567-"]


def test_needs_no_server_for_what_is_whole_but_not_committed(bench: Bench) -> None:
    source = deb()
    bench.leave_partial(DATA, source.sha256)
    bench.fetch(source)
    assert content(bench, source) == DATA
    assert not bench.one.requests


def test_goes_on_after_each_break(bench: Bench) -> None:
    bench.one.add("/pool/foo.deb", DATA)
    bench.one.script["/pool/foo.deb"] = [serve.truncate(700_000)] * 4
    bench.fetch(deb(), retries=0)
    assert content(bench, deb()) == DATA
    assert bench.ranges(bench.one) == [None] + [f"bytes={n * 700_000}-" for n in (1, 2, 3, 4)]
    assert "if-range" in bench.one.requests[1].headers


@pytest.mark.parametrize("size", [-1, None])
def test_a_file_that_is_promised_without_a_length(bench: Bench, size: int | None) -> None:
    bench.one.add("/pool/foo.deb", DATA)
    bench.one.script["/pool/foo.deb"] = [serve.unsized()]
    bench.fetch(deb(size=size))
    assert content(bench, deb()) == DATA


def test_a_silent_truncation_is_noticed_by_the_locked_size(bench: Bench) -> None:
    bench.one.add("/pool/foo.deb", DATA)
    bench.one.script["/pool/foo.deb"] = [serve.unsized(1000)]
    bench.fetch(deb())
    assert content(bench, deb()) == DATA
    assert bench.ranges(bench.one) == [None, "bytes=1000-"]


def test_a_server_that_ignores_ranges_starts_again(bench: Bench) -> None:
    bench.one.add("/pool/foo.deb", DATA)
    bench.one.script["/pool/foo.deb"] = [serve.no_ranges()]
    bench.leave_partial(DATA[:1000], deb().sha256)
    bench.fetch(deb())
    assert content(bench, deb()) == DATA
    assert len(bench.one.requests) == 1


def test_a_server_that_resumes_elsewhere_and_says_so(bench: Bench) -> None:
    bench.one.add("/pool/foo.deb", DATA)
    bench.one.script["/pool/foo.deb"] = [serve.shifted_range(100)]
    bench.leave_partial(DATA[:1000], deb().sha256)
    bench.fetch(deb())
    assert content(bench, deb()) == DATA


def test_a_server_that_resumes_wrongly_gets_one_clean_attempt(bench: Bench) -> None:
    bench.one.add("/pool/foo.deb", DATA)
    bench.one.script["/pool/foo.deb"] = [serve.lying_range(100)]
    bench.leave_partial(DATA[:1000], deb().sha256)
    bench.fetch(deb())
    assert content(bench, deb()) == DATA
    assert bench.ranges(bench.one) == ["bytes=1000-", None]
    assert not bench.two.requests


def test_a_file_that_changes_between_two_parts_is_begun_again(bench: Bench) -> None:
    bench.one.add("/pool/foo.deb", DATA)
    bench.one.script["/pool/foo.deb"] = [serve.truncate(1000), serve.other(DATA, etag='"new"')]
    bench.fetch(deb())
    assert content(bench, deb()) == DATA


def test_wrong_bytes_of_the_right_size_send_to_the_next_mirror(bench: Bench) -> None:
    bench.one.add("/pool/foo.deb", OTHER)
    bench.two.add("/pool/foo.deb", DATA)
    bench.fetch(deb())
    assert content(bench, deb()) == DATA
    assert len(bench.one.requests) == 1, "a whole transfer from the start is not repeated"


def test_a_restarted_transfer_counts_as_a_clean_one(bench: Bench) -> None:
    bench.one.add("/pool/foo.deb", OTHER)
    bench.one.script["/pool/foo.deb"] = [serve.no_ranges()]
    bench.two.add("/pool/foo.deb", DATA)
    bench.leave_partial(DATA[:1000], deb().sha256)
    bench.fetch(deb())
    assert content(bench, deb()) == DATA
    assert len(bench.one.requests) == 1


def test_wrong_bytes_everywhere_are_an_integrity_error(bench: Bench) -> None:
    bench.one.add("/pool/foo.deb", OTHER)
    bench.two.add("/pool/foo.deb", OTHER)
    with pytest.raises(IntegrityError) as caught:
        bench.fetch(deb())
    text = str(caught.value)
    assert "pkg:deb/debian/foo@1.0" in text
    assert f"{bench.one.url}/pool/foo.deb" in text
    assert str(Digest.of(OTHER)) in text
    assert str(Digest.of(DATA)) in text
    assert not bench.store.has_blob(Digest.of(DATA))
    assert not bench.store.has_blob(Digest.of(OTHER))
    bench.one.add("/pool/foo.deb", DATA)
    bench.fetch(deb())
    assert content(bench, deb()) == DATA, "a bad download leaves nothing behind that spoils the next"


def test_another_size_is_refused_before_a_byte_is_read(bench: Bench) -> None:
    bench.one.add("/pool/foo.deb", DATA + b"!")
    bench.two.add("/pool/foo.deb", DATA[:-1])
    bench.leave_partial(DATA[:1000], deb().sha256)
    with pytest.raises(IntegrityError, match=f"has {len(DATA) + 1} bytes, the lock says {len(DATA)}"):
        bench.fetch(deb())
    with bench.store.partial(deb().sha256) as partial:
        assert partial.size == 1000, "what was good stays"


def test_an_endless_response_is_cut_off(bench: Bench) -> None:
    bench.one.script["/pool/foo.deb"] = [serve.endless()] * 9
    bench.two.add("/pool/foo.deb", DATA)
    began = time.monotonic()
    bench.fetch(deb())
    assert content(bench, deb()) == DATA
    assert time.monotonic() - began < 30
    assert len(bench.one.requests) == 1


def test_a_vanished_package_says_what_to_do(bench: Bench) -> None:
    with pytest.raises(FetchError) as caught:
        bench.fetch(deb(), deb(OTHER, name="bar"))
    text = str(caught.value)
    assert caught.value.status == 4
    assert "pool/foo.deb" in text
    assert "pool/bar.deb" in text
    assert "it has left the mirror" in text
    assert "snapshot" in text
    assert "lockbuild lock --upgrade" in text


def test_a_vanished_package_is_found_in_the_snapshot(bench: Bench) -> None:
    suite = Suite(name="forky", codename="forky", date="2026-11-01T12:00:00Z", inrelease=Digest.of(b""))
    bench.two.add("/archive/20261102T120000Z/pool/foo.deb", DATA)
    bench.fetch(deb(), suites=(suite,), snapshot=f"{bench.two.url}/archive")
    assert content(bench, deb()) == DATA


def test_one_unreachable_mirror_is_passed_over(bench: Bench) -> None:
    with serving() as gone:
        dead = gone.url
    bench.two.add("/pool/foo.deb", DATA)
    bench.fetch(deb(), mirrors=[dead, bench.two.url], retries=1)
    assert content(bench, deb()) == DATA


def test_who_does_not_answer_is_not_asked_for_every_file(bench: Bench) -> None:
    with serving() as gone:
        dead = gone.url
    sources = []
    for number in range(100):
        bench.two.add(f"/pool/n{number}.deb", b"%d" % number)
        sources.append(deb(b"%d" % number, name=f"n{number}"))
    began = time.monotonic()
    bench.fetch(*sources, mirrors=[dead, bench.two.url], retries=6)  # 0.6 s for each that is asked
    assert time.monotonic() - began < 20
    assert all(bench.store.has_blob(source.sha256) for source in sources)


def test_a_package_that_is_gone_while_the_snapshot_does_not_answer(bench: Bench) -> None:
    with serving() as gone:
        dead = gone.url
    suite = Suite(name="forky", codename="forky", date="2026-11-01T12:00:00Z", inrelease=Digest.of(b""))
    with pytest.raises(FetchError) as caught:
        bench.fetch(deb(), suites=(suite,), snapshot=f"{dead}/archive")
    assert "404" in str(caught.value)
    assert "refused" in str(caught.value)
    assert "lockbuild lock --upgrade" in str(caught.value)


def test_no_mirror_answers(bench: Bench) -> None:
    with serving() as gone:
        dead = gone.url
    sources = [deb(b"%d" % number, name=f"n{number}") for number in range(100)]
    began = time.monotonic()
    with pytest.raises(FetchError, match="refused") as caught:
        bench.fetch(*sources, mirrors=[dead], retries=1)
    assert time.monotonic() - began < 3, "the rest is not tried when nobody answers"
    text = str(caught.value)
    assert text.startswith("100 sources could not be fetched\n")
    assert text.count(dead) == 1
    assert "  not tried, since no place answered before:\n    pool/n" in text
    assert "more (--verbose lists them)\n" in text
    assert len(text.splitlines()) < 30
    assert len(caught.value.sources) == 100


def test_hundreds_that_are_gone_are_told_shortly(bench: Bench) -> None:
    sources = [deb(b"%d" % number, name=f"n{number}") for number in range(100)]
    with pytest.raises(FetchError) as caught:
        bench.fetch(*sources)
    lines = str(caught.value).splitlines()
    answers = [f"{server.url}: the server answers 404 Not Found" for server in (bench.one, bench.two)]
    assert lines[:3] == [
        "100 sources could not be fetched",
        f"  no place has it any more ({'; '.join(answers)}):",
        f"    {sources[0].path} ({sources[0].size} bytes)",
    ]
    assert lines[12:14] == [
        "    … and 90 more (--verbose lists them)",
        f"  in all 100 files, {sum(source.size or 0 for source in sources)} bytes",
    ]
    assert [each.purl for each in caught.value.sources] == [source.purl for source in sources]
    heard = [event.message for event in bench.events if isinstance(event, Note) and event.level == "debug"]
    for source in sources:
        assert any(
            f"{source.purl}: no place has it any more ({bench.one.url}/{source.path}: " in note
            for note in heard
        )


def test_offline_names_all_that_is_missing_at_once(bench: Bench, tmp_path: Path) -> None:
    local = tmp_path / "mirror" / "pool"
    local.mkdir(parents=True)
    (local / "here.deb").write_bytes(OTHER)
    bench.one.add("/pool/foo.deb", DATA)
    sources = [deb(b"%d" % number, name=f"n{number}") for number in range(200)]
    here = deb(OTHER, name="here")
    archive = Source(
        purl="pkg:generic/z", url="http://u:pw@h.test/z?token=abc", sha256=Digest.of(b"z"), trees=[]
    )
    began = time.process_time()
    with pytest.raises(OfflineError) as caught:
        bench.fetch(*sources, here, archive, offline=True, mirrors=[bench.one.url, local.parent.as_uri()])
    assert time.process_time() - began < 1
    text = str(caught.value)
    assert "201 sources are not in the store" in text
    assert all(f"    {source.path} ({source.size:,} bytes)\n" in text for source in sources)
    assert text.count("would come from a Debian mirror") == 1
    assert "  would come from http://h.test/z?token=***\n" in text
    size = sum(source.size or 0 for source in sources)
    assert f"in all 201 files, {size:,} bytes and the 1 whose size the lock does not know\nhint: " in text
    assert {each.purl for each in caught.value.sources} == {each.purl for each in [*sources, archive]}
    assert "pw" not in text
    assert not bench.one.requests
    assert content(bench, here) == OTHER, "a local mirror is no network"


def test_many_small_files_are_quick(bench: Bench) -> None:
    sources = []
    for number in range(200):
        data = b"%d" % number * 500
        bench.one.add(f"/pool/n{number}.deb", data)
        sources.append(deb(data, name=f"n{number}"))
    began = time.monotonic()
    bench.fetch(*sources)
    assert time.monotonic() - began < 10
    assert bench.one.connections <= 8, "one kept-alive connection a thread"
    assert all(bench.store.has_blob(source.sha256) for source in sources)


def test_two_fetchers_of_one_store_share_the_work(bench: Bench) -> None:
    bench.one.add("/pool/foo.deb", DATA)
    released = threading.Event()
    bench.one.script["/pool/foo.deb"] = [serve.slow(1000, released)]
    threads = [threading.Thread(target=bench.fetch, args=(deb(),)) for _ in range(2)]
    for thread in threads:
        thread.start()
    time.sleep(0.3)
    released.set()
    for thread in threads:
        thread.join()
    assert content(bench, deb()) == DATA
    assert len(bench.one.requests) == 1


CHILD = textwrap.dedent("""
    import sys
    from pathlib import Path
    from lockbuild.config import Config
    from lockbuild.errors import LockbuildError
    from lockbuild.fetch import Fetcher
    from lockbuild.model.digest import Digest
    from lockbuild.model.lock import Source
    from lockbuild.store import Store
    from lockbuild.transport.http import Http

    store, mirror, *files = sys.argv[1:]
    config = Config.model_validate({"debian": {"mirrors": [mirror], "snapshot": mirror}})
    sources = [
        Source(purl=f"pkg:deb/debian/{name}@1", path=f"pool/{name}.deb", size=int(size),
               sha256=Digest(digest), trees=[])
        for name, size, digest in (file.split(",") for file in files)
    ]
    print("ready", flush=True)
    try:
        with Http(config) as http:
            Fetcher(Store(Path(store)), http, config).fetch(sources)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    except LockbuildError as error:
        print(f"{error.status} {error}", flush=True)
""")


def child(
    bench: Bench, *sources: Source, before: tuple[str, ...] = (), store: str | None = None
) -> subprocess.Popen[str]:
    files = [f"{s.path[5:-4]},{s.size},{s.sha256.hex}" for s in sources if s.path]
    return subprocess.Popen(
        [*before, sys.executable, "-c", CHILD, store or str(bench.store.root), bench.one.url, *files],
        stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2],
    )  # fmt: skip


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_fetch_stops_soon_and_loses_nothing(bench: Bench, number: signal.Signals) -> None:
    released = threading.Event()
    bench.one.add("/pool/foo.deb", DATA)
    bench.one.script["/pool/foo.deb"] = [serve.slow(2_000_000, released)]
    process = child(bench, deb())
    partial = bench.store.root / "partial" / deb().sha256.hex
    deadline = time.monotonic() + 20
    while not (partial.exists() and partial.stat().st_size == 2_000_000):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(number)
    began = time.monotonic()
    output, _ = process.communicate(timeout=20)
    assert time.monotonic() - began < 15, "transfers are woken, not waited for"
    assert ("interrupted" in output) == (number == signal.SIGINT)
    released.set()
    bench.fetch(deb())
    assert content(bench, deb()) == DATA
    assert bench.ranges(bench.one)[-1] == "bytes=2000000-"


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="a small file system is made with bwrap")
def test_a_full_disk_says_so(bench: Bench) -> None:
    big = os.urandom(8_000_000)
    bench.one.add("/pool/foo.deb", big)
    bench.one.add("/pool/bar.deb", big[1:])
    small = (
        "bwrap",
        "--bind",
        "/",
        "/",
        "--dev-bind",
        "/dev",
        "/dev",
        "--size",
        "4000000",
        "--tmpfs",
        "/mnt",
        "--",
    )
    process = child(bench, deb(big), deb(big[1:], name="bar"), before=small, store="/mnt/store")
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0, output
    assert "4 " in output
    assert "No space left on device" in output
    assert "hint: free some space" in output
