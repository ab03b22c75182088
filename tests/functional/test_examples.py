"""The examples with the real Emscripten: the same bytes whoever builds them, wherever, whatever the surroundings."""

from __future__ import annotations

import os
import shutil
import subprocess
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.engine import PrivateEngine
from tests.support.examples import NAMES, Examples, copy
from tests.support.users import ORDINARY, python_for_everyone

pytestmark = [pytest.mark.slow, pytest.mark.network, pytest.mark.timeout(1800)]


def node(file: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["node", file.name, *arguments], cwd=file.parent, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_hello_runs(examples: Examples) -> None:
    examples.run("hello", "build")
    hello = examples.projects / "hello" / "dist" / "hello.js"
    assert node(hello) == "source/hello.cpp, compiled Jan  1 1980 00:00:00\n42\n"
    with pytest.raises(subprocess.CalledProcessError) as caught:
        node(hello, "many")
    assert caught.value.stdout.endswith("not a number: stoi: no conversion\n")
    with pytest.raises(subprocess.CalledProcessError) as caught:
        node(hello, "")
    assert "source/hello.cpp" in caught.value.stderr


def test_zlib_inflates_what_python_deflated(examples: Examples) -> None:
    examples.run("zlib", "build")
    text = "pure function of a lock file; " * 50
    packed = zlib.compress(text.encode(), 9).hex()
    assert node(examples.projects / "zlib" / "dist" / "inflate.js", packed) == text + "\n"


def test_lua_runs_a_program(examples: Examples) -> None:
    examples.run("lua", "build")
    program = "local n = 0; for word in ('a bb ccc'):gmatch('%a+') do n = n + #word end; return n * 7"
    assert node(examples.projects / "lua" / "dist" / "lua.js", program) == "42\n"


@pytest.mark.parametrize("name", NAMES)
def test_no_output_contains_a_path(examples: Examples, name: str) -> None:
    outputs = examples.run(name, "build", "--json", "-o", examples.projects / name / "dist").value["targets"][
        0
    ]
    for file in outputs["files"]:
        data = (Path(outputs["directory"]) / file["path"]).read_bytes()
        for path in (
            "/build/",
            "/opt/",
            "/usr/share",
            "/usr/lib",
            str(examples.store),
            str(examples.projects),
        ):
            assert path.encode() not in data, (file["path"], path)


def hostile() -> None:
    os.umask(0o077)


HOSTILE = {
    "PYTHONHASHSEED": "12345",
    "TZ": "Asia/Kathmandu",
    "LANG": "tr_TR.UTF-8",
    "LC_ALL": "tr_TR.UTF-8",
    "HOME": "/nonexistent",
    "CFLAGS": "-DHOSTILE -g",
    "CXXFLAGS": "-DHOSTILE -O0",
    "LDFLAGS": "-sASSERTIONS=2",
    "EMCC_CFLAGS": "-DHOSTILE",
    "EM_CACHE": "/nonexistent",
    "SOURCE_DATE_EPOCH": "1",
    "CMAKE_GENERATOR": "Unix Makefiles",
    "MAKEFLAGS": "-k",
}


@pytest.mark.parametrize("name", NAMES)
def test_neither_the_place_nor_the_surroundings_matter(examples: Examples, name: str, tmp_path: Path) -> None:
    places: list[tuple[str, dict[str, str], Callable[[], None] | None]] = [
        ("a", {}, None),
        (f"some where/ünïcödé {'x' * 60}/{'deep/' * 12}project", HOSTILE, hostile),
    ]
    for place, environ, preexec in places:
        project = copy(examples.projects / name, tmp_path / place)
        result = examples.run(
            name, "reproduce", "--check-hash", project=project, environ=environ, preexec=preexec
        )
        assert "reproduced, as the lock records" in result.out


@pytest.mark.docker
@pytest.mark.parametrize("name", NAMES)
def test_docker_gives_the_same_from_a_store_of_its_own(
    examples: Examples, name: str, engine: PrivateEngine, docker_store: Path
) -> None:
    """The first one also derives Emscripten's libraries in Docker: to the digest that bubblewrap recorded."""
    result = examples.run(
        name, "reproduce", "--check-hash", store=docker_store, backend="docker", environ=engine.environ
    )
    assert "reproduced, as the lock records" in result.out


@pytest.fixture(scope="module")
def docker_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("docker") / "store"


@pytest.mark.docker
def test_docker_shows_the_digest_of_the_lock(
    examples: Examples, engine: PrivateEngine, docker_store: Path
) -> None:
    synced = examples.run(
        "hello", "sync", "--json", store=docker_store, backend="docker", environ=engine.environ
    )
    shown = subprocess.run(
        ["docker", "image", "inspect", "--format", "{{.Id}} {{len .RootFS.Layers}}", synced.value["image"]],
        env={**os.environ, **engine.environ},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    lock = (examples.projects / "hello" / "lockbuild.lock").read_text()
    assert f'image = "{shown[0]}"' in lock
    assert shown[1] == "4", "base, cmake, ninja and the derived libraries"


@pytest.mark.skipif(os.getuid() != 0, reason="an ordinary user runs the whole file already")
def test_an_ordinary_user_gets_the_same(examples: Examples) -> None:
    """With a store of their own, which another user made: nothing in it depends on that."""
    store = examples.projects.parent / "store of ordinary"
    subprocess.run(["cp", "-a", "--reflink=auto", str(examples.store), str(store)], check=True)
    subprocess.run(["chown", "-R", f"{ORDINARY}:{ORDINARY}", str(store)], check=True)
    try:
        for name in NAMES:
            project = copy(examples.projects / name, examples.projects.parent / "ordinary" / name)
            subprocess.run(["chown", "-R", f"{ORDINARY}:{ORDINARY}", str(project)], check=True)
            result = as_ordinary_user(examples, name, project, store)
            assert "reproduced, as the lock records" in result.stdout, result.stdout + result.stderr
            assert (project / ".lockbuild" / "logs").stat().st_uid == ORDINARY
    finally:
        shutil.rmtree(store)


def as_ordinary_user(
    examples: Examples, name: str, project: Path, store: Path
) -> subprocess.CompletedProcess[str]:
    arguments = ["reproduce", "--check-hash", "--project", str(project), "--store", str(store)]
    program, environ = python_for_everyone(examples.projects.parent)
    return subprocess.run(
        [program, "-m", "lockbuild", "--backend", "bubblewrap", *arguments],
        user=ORDINARY,
        group=ORDINARY,
        extra_groups=[],
        env={"PATH": os.environ["PATH"], "HOME": "/nonexistent", **environ},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_changed_byte_of_source_is_found(examples: Examples, tmp_path: Path) -> None:
    project = copy(examples.projects / "hello", tmp_path / "hello")
    source = project / "hello.cpp"
    text = source.read_bytes()
    source.write_bytes(text.replace(b'"42"', b'"43"'))
    result = examples.run("hello", "reproduce", "--check-hash", "--json", project=project, status=1)
    verdicts = {file["path"]: file["verdict"] for file in result.value["targets"][0]["files"]}
    assert verdicts == {"hello.js": "same", "hello.wasm": "different"}
    source.write_bytes(text)
    examples.run("hello", "reproduce", "--check-hash", project=project)


def test_a_variant_that_the_cache_lacks_is_named(examples: Examples, tmp_path: Path) -> None:
    project = copy(examples.projects / "hello", tmp_path / "hello")
    manifest = project / "CMakeLists.txt"
    manifest.write_text(manifest.read_text().replace("-fexceptions)", "-fexceptions -pthread)"))
    result = examples.run("hello", "build", project=project, status=6)
    assert "Emscripten's frozen cache has no '" in result.err
    assert "-mt" in result.err
    assert "lockbuild lock --materialise" in result.err
