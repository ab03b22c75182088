"""An image as base: locked, pulled, unpacked and built in, from a real registry."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.engine import PrivateEngine, engine
from tests.support.images import (
    Entry,
    Image,
    Layer,
    busybox_entries,
    described,
    device,
    directory,
    emptied,
    file,
    gone,
    hardlink,
    image,
    index,
    push,
    push_index,
    sha256,
    symlink,
)
from tests.support.package_index import Index
from tests.support.registry import PASSWORD, USER, Registry, registry, skopeo
from tests.support.tiny import PLATFORM, TinyWorld, tiny_world

__all__ = ["engine"]

DEBIAN = '[base.debian]\nsuite = "forky"\npackages = ["busybox", "greeting"]\n'
OTHER = "arm64" if PLATFORM.architecture == "amd64" else "amd64"
STATUS = f"""\
Package: busybox
Status: install ok installed
Version: 1.0
Architecture: {PLATFORM.debian_architecture}
Provides: shell
Essential: yes

Package: removed
Status: deinstall ok config-files
Version: 1.0
Architecture: all

Package: herd
Status: install ok installed
Version: 3.0
Architecture: all
Breaks: wolf (<< 2)
"""
GREETING = [directory("usr/share"), file("usr/share/greeting", "hello\n")]


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    """One registry for all tests; each has repositories of its own."""
    with registry(tmp_path_factory.mktemp("registry")) as running:
        yield running


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TinyWorld]:
    """The tiny world, whose archive has what is put on top of images."""
    with tiny_world(tmp_path_factory.mktemp("world")) as made:
        add = made.archive.add
        add("cow", depends="busybox (>= 1.0), libcow", contents={"usr/share/greeting": "moo\n"})
        add("libcow", "2.0", contents={"usr/share/cow": "moo\n"})
        add("picky", depends="busybox (>= 2.0)")
        add("busybox", "2.0", architecture=PLATFORM.debian_architecture, essential="yes")
        add("wolf", "1.0")
        add("rival", conflicts="herd")
        add("grabby", contents={"usr/share/owned": "grabbed\n", "usr/share/stray": "grabbed\n"})
        add("heir", replaces="herd", contents={"usr/share/owned": "inherited\n"})
        made.publish()
        yield made


@pytest.fixture
def world(first: TinyWorld, tmp_path: Path) -> TinyWorld:
    forked = first.fork(tmp_path)
    return TinyWorld(tmp_path, forked.archive, forked.server, forked.config)


Based = Callable[..., Image]


@pytest.fixture
def based(world: TinyWorld, hub: Registry, request: pytest.FixtureRequest) -> Based:
    """Pushes an image of some layers and lets the project stand on it; ``packages`` go on top."""
    repository = f"team/{re.sub('[^a-z0-9]+', '-', request.node.name.lower()).strip('-')}"

    def use(
        *layers: list[Entry] | Layer,
        packages: list[str] | None = None,
        made: Image | None = None,
        **options: Any,
    ) -> Image:
        if made is None:
            both = [layer if isinstance(layer, Layer) else Layer.of(*layer) for layer in layers]
            made = image(*both, architecture=PLATFORM.architecture, **options)
        push(hub.host, repository, made, "1.0")
        base = f'[base.image]\nreference = "{hub.host}/{repository}:1.0"\n'
        if packages is not None:
            base += f'[base.debian]\nsuite = "forky"\npackages = {json.dumps(packages)}\n'
        toolchain = world.project / "toolchain.toml"
        if DEBIAN in toolchain.read_text():
            world.edit("toolchain.toml", DEBIAN, base)
        return made

    return use


def lock_of(world: TinyWorld) -> dict[str, Any]:
    return tomllib.loads((world.project / "lockbuild.lock").read_text())


def base_of(world: TinyWorld) -> Path:
    """The base tree of what is synced."""
    digest = world.run("sync", "--json").value["trees"][f"{PLATFORM}:base"]
    return world.store / "trees" / "sha256" / digest.removeprefix("sha256:")


def test_from_image_to_build(world: TinyWorld, based: Based, hub: Registry) -> None:
    made = based(
        list(busybox_entries()),
        Layer.of(*GREETING, file("usr/share/old"), compression="zstd"),
        Layer.of(gone("usr/share/old"), hardlink("usr/share/same", "usr/share/greeting"), compression="none"),
        env=["PATH=/special:/bin", "HOME=/root", "FLAVOUR=sweet", "API_TOKEN=hush", "http_proxy=http://p"],
    )
    locking = world.run("lock")
    assert "API_TOKEN, http_proxy" in locking.err
    layers = {layer["digest"] for layer in json.loads(made.manifest)["layers"]}
    asked = [path for path in hub.requests("GET") if "from-image-to-build" in path]
    assert not [path for path in asked if path.rpartition("/")[2] in layers], "no layer is needed to lock"

    lock = lock_of(world)
    base = next(tree for tree in lock["trees"] if tree["name"] == "base")
    assert base["unpack"] == "oci-root"
    assert base["exports"] == {"PATH": "/special:/bin", "FLAVOUR": "sweet"}
    assert base["pins"]["digest"] == made.digest
    assert base["pins"]["created"] == "2026-01-02T03:04:05Z"
    assert {source["sha256"] for source in lock["sources"]} == {made.digest, *made.blobs}
    assert all(source["url"].startswith(f"oci://{hub.host}/team/") for source in lock["sources"])
    assert (world.project / "lockbuild.lock").read_text().count("hush") == 0

    world.run("build")
    assert (world.project / "dist/out.txt").read_text() == "HELLO\nworld\n"
    root = base_of(world)
    assert (root / "usr/share/same").read_text() == "hello\n"
    assert not (root / "usr/share/old").exists()
    shown = world.run("run", "--", "sh", "-c", "echo $FLAVOUR $PATH $HOME $API_TOKEN; id -un").out
    assert shown.startswith("sweet /special:/bin:/usr/local/sbin")
    assert shown.endswith("/build/home\nbuild\n")
    world.run("lock", "--check")


def test_the_same_from_anywhere(world: TinyWorld, based: Based, tmp_path: Path) -> None:
    based([*busybox_entries(), *GREETING])
    world.run("lock", "--materialise")
    world.run("reproduce", "--record")
    text = (world.project / "lockbuild.lock").read_text()
    again = tmp_path / "another store"
    world.run("reproduce", "--check-hash", store=again)
    world.run("lock", "--upgrade", "base")
    assert (world.project / "lockbuild.lock").read_text() == text


@pytest.mark.docker
@pytest.mark.slow
def test_docker_gives_the_same(world: TinyWorld, based: Based, engine: PrivateEngine) -> None:
    junk = [directory("build/source"), file("build/source/junk"), file("tmp/junk"), device("dev/console")]
    based([*busybox_entries(), *GREETING, *junk], env=["FLAVOUR=sweet", "PATH=/bin:/sbin"])
    world.edit(
        "lockbuild.toml", "mkdir lib;", "env | sort > env.txt; find / -xdev > /dev/null; ls /tmp; mkdir lib;"
    )
    world.edit("lockbuild.toml", '["out.txt"', '["env.txt", "out.txt"')
    world.run("lock", "--materialise")
    world.run("reproduce", "--record")
    again = world.directory / "another store"
    world.run("sync", backend="docker", environ=engine.environ, store=again)
    world.run("reproduce", "--check-hash", backend="docker", environ=engine.environ, store=again)
    assert "FLAVOUR=sweet" in (world.run("run", "--", "env").out)


@pytest.mark.docker
@pytest.mark.slow
def test_docker_itself_unpacks_the_layers_so(
    world: TinyWorld, based: Based, engine: PrivateEngine, hub: Registry, tmp_path: Path
) -> None:
    """What `docker export` has of the image is what stands in the tree, but for what is dropped and added."""
    layers = [
        [*busybox_entries(), file("d/a", "1"), file("d/b", "1"), symlink("l", "d"), file("e/f/g", "1")],
        [*GREETING, file("l/c", "2"), gone("d/a"), directory("e"), emptied("e"), file("e/new", "2")],
        # Not from one layer to another: Docker's overlay2 cannot.
        [
            file("d/h", "3"),
            hardlink("h", "d/h"),
            symlink("etc/up", "../../../tmp"),
            file("d/b", "3"),
            gone("usr/x"),
        ],
    ]
    made = based(*layers, docker=True)
    world.run("lock")
    root = base_of(world)
    layout = tmp_path / "image.tar"
    source = f"docker://{hub.host}/team/test-docker-itself-unpacks-the-layers-so:1.0"
    skopeo("copy", "--src-tls-verify=false", source, f"docker-archive:{layout}:theirs:1")
    environ = {**os.environ, **engine.environ}

    def docker(*arguments: str) -> bytes:
        done = subprocess.run(["docker", *arguments], env=environ, check=False, capture_output=True)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout

    docker("load", "-i", str(layout))
    container = docker("create", "theirs:1", "sh").decode().strip()
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    subprocess.run(["tar", "-x", "-C", theirs], input=docker("export", container), check=True)
    docker("rm", container)
    assert made.media_type.startswith("application/vnd.docker.")
    own = {"build", "dev", "opt", "proc", "root", "run", "sys", "var", ".dockerenv"}
    own |= {
        f"etc/{name}"
        for name in ("alternatives", "group", "hostname", "hosts", "mtab", "passwd", "resolv.conf")
    }
    assert contents(root, own) == contents(theirs, own)


def contents(root: Path, without: set[str]) -> dict[str, str | bytes | None]:
    found: dict[str, str | bytes | None] = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if name in without or any(name.startswith(f"{other}/") for other in without):
            continue
        found[name] = (
            os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else None
        )
    return found


# Several platforms


@pytest.mark.parametrize("docker", [False, True], ids=["oci", "docker"])
def test_each_platform_out_of_an_index(world: TinyWorld, based: Based, hub: Registry, docker: bool) -> None:
    shared = Layer.of(*GREETING)
    based(list(busybox_entries()))
    own = image(Layer.of(*busybox_entries()), shared, architecture=PLATFORM.architecture, docker=docker)
    other = image(Layer.of(file("other")), shared, architecture=OTHER, docker=docker)
    reference = re.search(r'reference = "(.*):1.0"', (world.project / "toolchain.toml").read_text())
    assert reference is not None
    repository = reference[1].partition("/")[2]
    pinned = push_index(hub.host, repository, [other, own], "1.0", docker=docker)
    world.edit("toolchain.toml", f'["{PLATFORM}"]', '["linux/amd64", "linux/arm64"]')
    world.run("lock")
    lock = lock_of(world)
    bases = {tree["platform"]: tree for tree in lock["trees"] if tree["name"] == "base"}
    assert bases.keys() == {"linux/amd64", "linux/arm64"}
    assert {tree["pins"]["digest"] for tree in bases.values()} == {pinned.partition("@")[2]}
    trees = {source["sha256"]: source["trees"] for source in lock["sources"]}
    assert trees[own.digest] == [f"{PLATFORM}:base"]
    assert trees[other.digest] == [f"linux/{OTHER}:base"]
    assert trees[sha256(shared.blob)] == ["linux/amd64:base", "linux/arm64:base"]
    world.run("build")

    world.edit("toolchain.toml", ":1.0", f"@{pinned.partition('@')[2]}")
    world.run("lock")
    assert {source["sha256"] for source in lock_of(world)["sources"]} == trees.keys()


def test_a_platform_that_the_image_has_not(world: TinyWorld, based: Based, hub: Registry) -> None:
    based(list(busybox_entries()))
    world.edit("toolchain.toml", f'["{PLATFORM}"]', '["linux/amd64", "linux/arm64"]')
    failed = world.run("lock", status=2)
    assert f"the image is for {PLATFORM}, not for linux/{OTHER}" in failed.err
    one = image(Layer.of(*busybox_entries()), architecture=PLATFORM.architecture)
    push(hub.host, "team/test-a-platform-that-the-image-has-not", one)
    based(made=index(one, attested=False))
    failed = world.run("lock", status=2)
    assert f"there is no image for linux/{OTHER} (there is one for {PLATFORM})" in failed.err


def test_a_new_platform_is_of_the_same_index(world: TinyWorld, based: Based, hub: Registry) -> None:
    based(list(busybox_entries()))
    repository = "team/test-a-new-platform-is-of-the-same-index"

    def publish(text: str) -> str:
        images = [
            image(Layer.of(*busybox_entries(), file("version", text)), architecture=architecture)
            for architecture in ("amd64", "arm64")
        ]
        return push_index(hub.host, repository, images, "1.0").partition("@")[2]

    then = publish("one")
    world.run("lock")
    publish("two")
    world.run("lock", "--platform", f"linux/{OTHER}")
    assert {tree["pins"]["digest"] for tree in lock_of(world)["trees"] if tree["name"] == "base"} == {then}


def test_a_tag_that_moved_is_told_when_it_is_locked_again(world: TinyWorld, based: Based) -> None:
    then = based([*busybox_entries(), *GREETING])
    world.run("lock", "--materialise")
    now = based([*busybox_entries(), *GREETING, file("new")])
    unchanged = world.run("lock")
    assert "was sha256" not in unchanged.err
    upgraded = world.run("lock", "--upgrade", "base", "--dry-run")
    assert f":1.0 was {then.digest} when it was locked, and is {now.digest} now" in upgraded.err
    world.run("lock", "--upgrade", "base")
    assert (base_of(world) / "new").exists()


# What is not taken


def test_a_layer_that_is_not_what_the_configuration_says(world: TinyWorld, based: Based) -> None:
    layer = Layer.of(*busybox_entries())
    based(layer, Layer.of(*GREETING), diff_ids=[sha256(layer.tar), "sha256:" + "0" * 64])
    world.run("lock")
    failed = world.run("sync", status=5)
    assert "layer 2 of 2" in failed.err
    assert f"the image's configuration says sha256:{'0' * 64}" in failed.err
    assert not list((world.store / "trees" / "sha256").iterdir())


def test_a_layer_that_leads_out(world: TinyWorld, based: Based) -> None:
    based([*busybox_entries()], [file("../../escaped", "x")])
    world.run("lock")
    failed = world.run("sync", status=5)
    assert "layer 2 of 2" in failed.err
    assert "../../escaped" in failed.err
    assert not list(world.directory.rglob("escaped"))


def test_a_registry_that_gives_another_layer(world: TinyWorld, based: Based, hub: Registry) -> None:
    made = based([*busybox_entries()], [*GREETING, file("mark", "test_a_registry_that_gives_another_layer")])
    world.run("lock")
    wanted = json.loads(made.manifest)["layers"][1]["digest"]
    kept = hub.blob_file(wanted)
    data = kept.read_bytes()
    kept.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    try:
        failed = world.run("sync", status=5)
    finally:
        kept.write_bytes(data)
    assert wanted in failed.err
    world.run("sync")


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (
            {"layers": [described(b"x", "application/vnd.oci.image.layer.v1.tar+gzip+encrypted")]},
            "is encrypted",
        ),
        (
            {"layers": [described(b"x", "application/vnd.oci.image.layer.nondistributable.v1.tar")]},
            "is a foreign",
        ),
        ({"layers": [described(b"x", "application/vnd.example.wheel")]}, "application/vnd.example.wheel"),
        ({"config": described(b"{}", "application/vnd.cncf.helm.config.v1+json")}, "it is not an image"),
    ],
)
def test_images_that_are_none(
    world: TinyWorld, based: Based, hub: Registry, change: dict[str, Any], what: str
) -> None:
    good = based([*busybox_entries()])
    bad = good.changed(change)
    plant(hub, good, bad)
    based(made=index(bad, attested=False))
    assert what in world.run("lock", status=2).err


def plant(hub: Registry, known: Image, unknown: Image) -> None:
    """Let the registry have the manifest ``unknown`` wherever it has ``known``: it would not take it from us."""
    target = hub.blob_file(unknown.digest)
    target.parent.mkdir(parents=True)
    target.write_bytes(unknown.manifest)
    repositories = hub.directory / "data/docker/registry/v2/repositories"
    for link in list(repositories.rglob(f"revisions/sha256/{known.digest.removeprefix('sha256:')}/link")):
        other = link.parent.parent / unknown.digest.removeprefix("sha256:") / "link"
        other.parent.mkdir()
        other.write_text(unknown.digest)


def test_what_a_base_must_have(world: TinyWorld, based: Based) -> None:
    based([file("data"), symlink("opt", "usr/opt"), file("tmp")])
    world.run("lock")
    failed = world.run("sync", status=2)
    for wanted in (
        "/opt is a symbolic link",
        "/tmp is a file",
        "it has no /bin/sh",
        "no /usr/bin/env",
        "no /bin/cat",
    ):
        assert wanted in failed.err
    assert "[base.debian]" in failed.err


def test_programs_of_another_machine(world: TinyWorld, based: Based) -> None:
    elf = b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x02\x00\xf3\x00" + bytes(44)
    based([file(name, elf, 0o755) for name in ("bin/sh", "usr/bin/env", "bin/cat")])
    world.run("lock")
    assert f"its /bin/sh is not for {PLATFORM}" in world.run("sync", status=2).err


def test_a_root_that_tries_to_reach_the_host(world: TinyWorld, based: Based, tmp_path: Path) -> None:
    """/etc and /build are links to real directories of the host: nothing in these may change."""
    host = tmp_path / "host"
    (host / "etc").mkdir(parents=True)
    for name in ("shadow", "passwd", "hostname"):
        (host / "etc" / name).write_text("the host's")
    entries = [entry for entry in busybox_entries() if not entry.name.startswith("etc")]
    based([*entries, symlink("etc", str(host / "etc"))])
    world.run("lock")
    world.run("sync")
    assert {path.name: path.read_text() for path in (host / "etc").iterdir()} == dict.fromkeys(
        ("shadow", "passwd", "hostname"), "the host's"
    )


def test_offline_says_where_it_would_come_from(world: TinyWorld, based: Based, hub: Registry) -> None:
    based([*busybox_entries(), *GREETING])
    world.run("lock")
    failed = world.run("sync", "--offline", status=4, store=world.directory / "empty")
    assert f"would come from the registry {hub.host}" in failed.err
    world.run("sync")
    world.run("build", "--offline")


def test_what_is_not_in_the_registry(world: TinyWorld, based: Based) -> None:
    based([*busybox_entries()])
    world.edit("toolchain.toml", ":1.0", ":2.0")
    failed = world.run("lock", status=2)
    assert "base.image.reference: the registry has no" in failed.err
    assert "/team/test-what-is-not-in-the-registry:2.0" in failed.err
    world.edit("toolchain.toml", 'reference = "', 'reference = "Team/')
    failed = world.run("lock", status=2)
    assert "base.image.reference" in failed.err
    assert "names no registry" in failed.err


# Packages on top


@pytest.fixture
def debian(based: Based) -> Callable[..., Image]:
    """An image that was made from Debian packages, with ``packages`` on top."""
    installed = [
        directory("var/lib/dpkg/info"),
        file("var/lib/dpkg/status", STATUS),
        file("var/lib/dpkg/info/herd.list", "/.\n/usr/share\n/usr/share/owned\n"),
        directory("usr/share"),
        file("usr/share/owned", "the herd's\n"),
        file("usr/share/stray", "nobody's\n"),
    ]

    def use(*packages: str, above: list[Entry] | None = None) -> Image:
        layers = [list(busybox_entries()), installed, [file("top")]]
        return based(*layers, *([above] if above is not None else []), packages=list(packages))

    return use


def sources(world: TinyWorld) -> list[str]:
    return [
        source["purl"].partition("@")[0]
        for source in lock_of(world)["sources"]
        if "pkg:deb" in source["purl"]
    ]


def test_only_what_is_missing_is_added(world: TinyWorld, debian: Callable[..., Image], hub: Registry) -> None:
    made = debian("cow", "busybox")
    world.run("lock", "--materialise")
    assert sources(world) == ["pkg:deb/debian/cow", "pkg:deb/debian/libcow"]
    assert [suite["name"] for suite in lock_of(world)["suites"]] == ["forky"]
    world.run("build")
    assert (world.project / "dist/out.txt").read_text() == "MOO\nworld\n"
    status = (base_of(world) / "var/lib/dpkg/status").read_text()
    assert status.startswith(STATUS)
    assert re.findall("^Package: (.*)$", status, re.M) == ["busybox", "removed", "herd", "cow", "libcow"]
    assert "\n\n\n" not in status
    lowest = json.loads(made.manifest)["layers"][0]["digest"]
    asked = [path for path in hub.requests("GET") if "only-what-is-missing" in path]
    listing = [path.rpartition("/")[2] for path in asked]
    assert listing.index(json.loads(made.manifest)["layers"][1]["digest"]) < listing.index(lowest)

    text = (world.project / "lockbuild.lock").read_text()
    world.run("lock", "--upgrade", "base")
    assert (world.project / "lockbuild.lock").read_text() == text
    world.run("lock", "--check")


def test_locking_stops_at_the_layer_that_has_the_list(
    world: TinyWorld, debian: Callable[..., Image], hub: Registry
) -> None:
    made = debian("cow")
    world.run("lock")
    lowest = json.loads(made.manifest)["layers"][0]["digest"]
    mine = [path for path in hub.requests("GET") if "locking-stops" in path]
    assert not [path for path in mine if path.endswith(lowest)]


@pytest.mark.parametrize(
    ("package", "what"),
    [
        ("picky", "picky 1.0 needs busybox (>= 2.0), but the base has busybox 1.0"),
        ("busybox=2.0", "the image has busybox 1.0, not 2.0"),
        ("wolf", "herd 3.0 conflicts with wolf (<< 2)"),
        ("rival", "rival 1.0 conflicts with herd, and the request needs herd 3.0, which the image has"),
        ("nothing", "the suite has no package 'nothing'"),
    ],
)
def test_packages_that_do_not_go_with_the_image(
    world: TinyWorld, debian: Callable[..., Image], package: str, what: str
) -> None:
    debian(package)
    failed = world.run("lock", status=2)
    assert what in failed.err
    assert ("hint: packages that the image has stay as they are" in failed.err) == (package != "nothing")


def test_a_file_that_another_package_owns(world: TinyWorld, debian: Callable[..., Image]) -> None:
    debian("grabby")
    world.run("lock")
    failed = world.run("sync", status=2)
    assert (
        "package grabby and the image (package herd): /usr/share/owned is in both, but different"
        in failed.err
    )


def test_a_file_may_be_replaced_by_who_says_so(world: TinyWorld, debian: Callable[..., Image]) -> None:
    debian("heir")
    world.run("lock")
    root = base_of(world)
    assert (root / "usr/share/owned").read_text() == "inherited\n"
    assert (root / "usr/share/stray").read_text() == "nobody's\n"


def test_a_list_that_a_later_layer_hides(world: TinyWorld, debian: Callable[..., Image]) -> None:
    debian("cow", above=[gone("var/lib/dpkg")])
    failed = world.run("lock", status=2)
    assert "the image has no list of Debian packages (/var/lib/dpkg/status)" in failed.err


def test_a_list_in_parts(world: TinyWorld, based: Based) -> None:
    """As images have it that are made without dpkg."""
    parts = [
        file(
            "var/lib/dpkg/status.d/busybox",
            STATUS.partition("\n\n")[0].replace("Status: install ok installed\n", ""),
        ),
        file("var/lib/dpkg/status.d/busybox.md5sums", "0123  bin/busybox\n"),
    ]
    based(list(busybox_entries()), parts, packages=["cow"])
    world.run("lock")
    assert sources(world) == ["pkg:deb/debian/cow", "pkg:deb/debian/libcow"]
    status = (base_of(world) / "var/lib/dpkg/status").read_text()
    assert re.findall("^Package: (.*)$", status, re.M) == ["busybox", "cow", "libcow"]


def test_debian_tools_beside_an_image(world: TinyWorld, debian: Callable[..., Image], based: Based) -> None:
    """What the image has is not brought along."""
    debian()
    with (world.project / "toolchain.toml").open("a") as out:
        out.write('\n[tools.cow]\nfrom = "debian"\nsuite = "forky"\npackages = ["cow"]\n')
    world.run("lock")
    assert sources(world) == ["pkg:deb/debian/cow", "pkg:deb/debian/libcow"]


# Where it comes from, and what is chosen for it


def configured(world: TinyWorld, text: str) -> TinyWorld:
    """The world with more in the user's configuration."""
    config = world.directory / "config.toml"
    config.write_text(world.config.read_text() + text)
    return TinyWorld(world.directory, world.archive, world.server, config)


def test_a_registry_with_tls_and_a_password(
    world: TinyWorld, based: Based, hub: Registry, tmp_path: Path
) -> None:
    based([*busybox_entries(), *GREETING])
    public = f"docker://{hub.host}/team/test-a-registry-with-tls-and-a-password:1.0"
    with registry(tmp_path / "private", tls=True, password=True) as private:
        authority = private.certificate.parent / "authority" if private.certificate else None
        to = ("--dest-creds", f"{USER}:{PASSWORD}", "--dest-cert-dir", str(authority))
        skopeo("copy", "--src-tls-verify=false", *to, public, f"docker://{private.host}/team/base:1.0")
        world.edit(
            "toolchain.toml",
            f"{hub.host}/team/test-a-registry-with-tls-and-a-password",
            f"{private.host}/team/base",
        )
        world = configured(world, f'ca = ["{private.certificate}"]\n')
        failed = world.run("lock", status=4)
        assert private.host in failed.err
        login = private.docker_config(tmp_path / "docker")
        world.run("lock", "--materialise", environ=login)
        world.run("build", store=tmp_path / "empty", environ=login)
    text = (world.project / "lockbuild.lock").read_text()
    assert PASSWORD not in text
    assert USER not in text


def test_a_mirror_in_the_place_of_the_registry(world: TinyWorld, based: Based, hub: Registry) -> None:
    based([*busybox_entries(), *GREETING])
    name = "test-a-mirror-in-the-place-of-the-registry"
    world.edit("toolchain.toml", f"{hub.host}/team/{name}", "registry.invalid/base")
    mirror = f'[[mirrors]]\nprefix = "https://registry.invalid/v2/base"\nto = ["{hub.url}/v2/team/{name}"]\n'
    world = configured(world, mirror)
    world.run("lock")
    world.run("build")
    text = (world.project / "lockbuild.lock").read_text()
    assert hub.host not in text
    assert "oci://registry.invalid/base@sha256:" in text


def test_wheels_are_chosen_for_the_python_of_the_image(world: TinyWorld, based: Based, hub: Registry) -> None:
    python = "".join(
        f"\nPackage: {name}\nStatus: install ok installed\nVersion: {version}\n"
        f"Architecture: {PLATFORM.debian_architecture}\n"
        for name, version in (("python3", "3.11.2-1+b1"), ("libc6", "2.36-9+deb12u7"))
    )
    based(list(busybox_entries()), [file("var/lib/dpkg/status", STATUS + python)], [*GREETING])
    index_ = Index(world.server)
    chosen = index_.add("gadget", "1.0", f"cp311-cp311-manylinux_2_36_{PLATFORM.machine}")
    index_.add("gadget", "1.0", f"cp312-cp312-manylinux_2_36_{PLATFORM.machine}")
    index_.add("gadget", "1.0", f"cp311-cp311-manylinux_2_39_{PLATFORM.machine}")
    world = configured(world, f'[pypi]\nindexes = ["{index_.url}"]\n')
    world.run("lock")
    asked = len([path for path in hub.requests("GET") if "wheels-are-chosen" in path])
    assert "python" not in lock_of(world)["trees"][0]["pins"]
    with (world.project / "toolchain.toml").open("a") as out:
        out.write('\n[tools.gadget]\nfrom = "pypi"\nrequirement = "gadget"\n')
    world.run("lock")
    lock = lock_of(world)
    assert lock["trees"][0]["pins"].items() >= {"python": "3.11.2", "glibc": "2.36"}.items()
    assert [source["path"] for source in lock["sources"] if "pypi" in source["purl"]] == [chosen]
    assert len([path for path in hub.requests("GET") if "wheels-are-chosen" in path]) > asked
    world.run("lock", "--offline", "--check")
    text = (world.project / "lockbuild.lock").read_text()
    world.run("lock", store=world.directory / "empty", environ={"DOCKER_CONFIG": "/nowhere"})
    assert (world.project / "lockbuild.lock").read_text() == text


def test_an_image_of_another_distribution_says_its_python(world: TinyWorld, based: Based) -> None:
    based([*busybox_entries(), *GREETING], env=["PYTHON_VERSION=3.12.4"])
    index_ = Index(world.server)
    chosen = index_.add("gizmo", "1.0", f"cp312-cp312-manylinux_2_28_{PLATFORM.machine}")
    world = configured(world, f'[pypi]\nindexes = ["{index_.url}"]\n')
    world.edit("toolchain.toml", "[derive", '[tools.gizmo]\nfrom = "pypi"\nrequirement = "gizmo"\n\n[derive')
    failed = world.run("lock", status=2)
    assert "CPython 3.12.4, no glibc" in failed.err
    world.edit("toolchain.toml", "[base.image]\n", '[base.image]\nglibc = "2.31"\n')
    world.run("lock")
    assert chosen in (world.project / "lockbuild.lock").read_text()
    world.edit("toolchain.toml", "[base.image]\n", '[base.image]\npython = "3.13"\n')
    assert "CPython 3.13.0" in world.run("lock", status=2).err


def test_a_site_without_a_network_locks_it_again(
    world: TinyWorld, debian: Callable[..., Image], hub: Registry, tmp_path: Path
) -> None:
    """A bundle for that has what the registry said, and the image's list of packages."""
    debian("cow")
    world.run("lock", "--materialise")
    text = (world.project / "lockbuild.lock").read_text()
    bundle = tmp_path / "site.bundle"
    world.run("bundle", "create", "--for", "offline-lock", "-o", bundle)
    there = tmp_path / "there"
    world.run("bundle", "load", bundle, store=there)
    world.edit("toolchain.toml", f"{hub.host}/", "registry.invalid/")
    failed = world.run("lock", "--offline", store=there, status=4)
    assert "registry.invalid" in failed.err
    world.edit("toolchain.toml", "registry.invalid/", f"{hub.host}/")
    world.run("lock", "--offline", "--upgrade", "base", store=there)
    assert (world.project / "lockbuild.lock").read_text() == text
    world.run("build", "--offline", store=there)
