"""Port files: what they pin, read without running a line of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lockbuild.errors import ResolveError
from lockbuild.resolve.emscripten import port_file
from lockbuild.resolve.emscripten.port_file import PortArchive, PortFile
from tests.support.emscripten import HASH, port, remote_port
from tests.support.git_server import run_git

OTHER = "ab" * 64


def parse(text: str, name: str = "p", version: str | None = None) -> PortFile:
    return port_file.parse(text.encode(), name, f"tools/ports/{name}.py", version=version)


def fails(text: str, version: str | None = None) -> str:
    with pytest.raises(ResolveError) as caught:
        parse(text, version=version)
    return str(caught.value)


def test_a_port() -> None:
    assert parse(port("p", "1.0", deps=("zlib", "sdl2:formats=jpg,png"))) == PortFile(
        name="p",
        version="1.0",
        archives=(PortArchive("p", "https://archive.test/p-1.0.zip", HASH),),
        dependencies=("zlib", "sdl2"),
        remote=None,
        inner="p-1.0",
    )


def test_a_remote_port() -> None:
    found = parse(remote_port("p", "v2025.1"))
    assert found.archives == (PortArchive("p", "https://archive.test/v2025.1/p-v2025.1.zip", HASH),)
    assert (found.version, found.remote, found.dependencies) == ("v2025.1", "p/p.port.py", ())


@pytest.mark.parametrize(
    ("text", "url", "digest"),
    [
        (
            "TAG = 'a'\ndef get(ports, s, c):\n  ports.fetch_project('p', 'https://x.test/' + TAG + '.zip')\n",
            "a",
            None,
        ),
        (
            "TAG = 'a'\ndef get(ports, s, c):\n"
            "  ports.fetch_project('p', 'https://x.test/%s.zip' % TAG, 'p-' + TAG, sha512hash='AB' * 1)\n".replace(
                "'AB' * 1", f"'{OTHER.upper()}'"
            ),
            "a",
            OTHER,
        ),
        (
            f"def get(ports, s, c):\n  ports.fetch_project('p', 'https://x.test/a.zip', '{OTHER}')\n",
            "a",
            OTHER,
        ),
        (
            "TAG = 'a'\nHASHES = {'a': '" + OTHER + "', 'b': None}\ndef get(ports, s, c):\n"
            "  url = 'https://x.test/{}.zip'.format(TAG)\n"
            "  ports.fetch_project(name='p', url=url, sha512hash=HASHES[TAG])\n",
            "a",
            OTHER,
        ),
        (
            "H = None\ndef fetch(ports):\n  ports.fetch_port_artifact('p', 'https://x.test/a.zip', sha512hash=H)\n",
            "a",
            None,
        ),
        ("if True:\n  def get(p):\n    p.fetch_project('p', 'https://x.test/a.zip')\n", "a", None),
    ],
)
def test_ways_to_say_where_the_archive_is(text: str, url: str, digest: str | None) -> None:
    assert parse(text).archives == (PortArchive("p", f"https://x.test/{url}.zip", digest),)


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ("TAG = 'release-1'", "release-1"),
        ("VERSION = '2'\nTAG = f'v{VERSION}'", "2"),
        ("_VERSION = 'v3'\nTAG = 'x'", "v3"),
        ("VERSION: tuple = (3, 39, 0)", "3.39.0"),
        ("VERSION = 7", "7"),
        ("X = 'y'", None),
    ],
)
def test_versions(line: str, version: str | None) -> None:
    assert parse(f"{line}\nEXTERNAL_PORT = 'https://x.test/a.zip'\n").version == version


def test_everything_that_a_port_may_need() -> None:
    body = """
def process_dependencies(settings):
  global deps
  deps = deps + []
"""
    some = """
def more(settings):
  if settings.A:
    deps.append('vorbis')
  else:
    deps.extend(['ogg', 'zlib'])
  deps += ('freetype:x=y',)
"""
    assert parse(port("p", deps=("zlib",), body=some)).dependencies == ("zlib", "vorbis", "ogg", "freetype")
    assert "deps is not assigned" not in str(parse(port("p", deps=("zlib",), body=body)).dependencies)


def test_nothing_is_run(tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    hostile = (
        f"import os, pathlib\nos.system('touch {trap}')\npathlib.Path({str(trap)!r}).touch()\n"
        f"class A:\n  x = open({str(trap)!r}, 'w')\n"
        f'X = f"{{open({str(trap)!r}).read()}}"\n'
        + port("p")
        + f"\n@__import__('pathlib').Path({str(trap)!r}).touch\ndef f(a=open({str(trap)!r}, 'w')): pass\n"
    )
    assert parse(hostile).version == "1.0"
    assert not trap.exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (port("p").replace("'1.0'", "os.environ['V']"), "tools/ports/p.py:3: cannot be read as data"),
        (
            port("p").replace("'https", "__import__('os').getcwd() + f'https").replace("f__", "__"),
            "tools/ports/p.py:9: cannot be read as data: it is not a constant",
        ),
        (port("p") + "VERSION = '2'\n", "VERSION is not assigned once and for all"),
        (
            port("p").replace("'p', f", "'../p', f"),
            "tools/ports/p.py:9: '../p' is not the name of a directory",
        ),
        (
            port("p").replace("'p', f", "settings, f"),
            "p.py:9: cannot be read as data: settings is not assigned",
        ),
        (port("p").replace("https://archive.test", "ftp://archive.test"), "is not the URL of an archive"),
        (port("p").replace("https://archive.test", "https://a b"), "is not the URL of an archive"),
        (port("p", digest="1234"), "tools/ports/p.py:9: '1234' is not a SHA-512"),
        (port("p").replace("deps = []", "deps = 'zlib'"), "p.py:5: a list of ports is needed"),
        (port("p").replace("deps = []", "deps = ['../x']"), "p.py:5: '../x' is not a port"),
        (port("p").replace("deps = []", "deps = [1]"), "p.py:5: 1 is not a port"),
        (
            port("p") + "def f(x):\n  deps.append(x)\n",
            "cannot be read as data: x is not assigned once and for all",
        ),
        (
            "def get(ports):\n  ports.fetch_project('p')\n",
            "p.py:2: cannot be read as data: the call of fetch_project says no url",
        ),
        ("def get(ports):\n  ports.fetch_project()\n", "says no name"),
        ("EXTERNAL_PORT = 'https://x.test/a.zip'\nSHA512 = 'x'\n", "p.py:2: 'x' is not a SHA-512"),
        ("EXTERNAL_PORT = ['https://x.test/a.zip']\n", "p.py:1: a string is needed"),
        ("def get(:\n", "tools/ports/p.py:1: cannot be read"),
        ("A = " + "(" * 90 + "1" + ")" * 90 + "\nVERSION = " + "-" * 100_000 + "1", "cannot be read"),
        ("#" * (port_file.LIMIT + 1), f"is larger than {port_file.LIMIT} bytes"),
    ],
)
def test_what_cannot_be_read_says_where(text: str, said: str) -> None:
    assert said in fails(text)


def test_a_deep_expression_is_refused_not_fallen_over() -> None:
    text = "VERSION = " + "+".join(["'a'"] * 20_000) + "\n"
    assert "cannot be read" in fails(text)


def test_a_port_without_archive() -> None:
    assert parse("def get(ports, settings, shared):\n  return []\n").archives == ()


@pytest.mark.parametrize(
    ("text", "url", "inner"),
    [
        (port("p"), "https://archive.test/p-2.5.zip", "p-2.5"),
        (remote_port("p"), "https://archive.test/2.5/p-2.5.zip", None),
        (
            port("p").replace("VERSION = '1.0'", "N = '1.0'\nVERSION = f'v{N}'"),
            "https://archive.test/p-v2.5.zip",
            "p-v2.5",
        ),
    ],
)
def test_another_version(text: str, url: str, inner: str | None) -> None:
    found = parse(text, version="2.5")
    assert (found.archives[0].url, found.inner) == (url, inner)
    assert found.version in ("2.5", "v2.5")


@pytest.mark.parametrize(
    ("text", "made"),
    [
        (port("p").replace("{VERSION}", "{VERSION}-{HASH}"), "HASH and VERSION"),
        (port("p").replace("{VERSION}", "x"), "no constant"),
        (
            port("p")
            .replace("'1.0'", "('1', '0')")
            .replace("{VERSION}", "{VERSION[0]}")
            .replace("+ VERSION", ""),
            "VERSION",
        ),
    ],
)
def test_a_version_that_cannot_be_replaced(text: str, made: str) -> None:
    said = fails(text, version="2")
    assert f"the version of this port cannot be replaced: its URL is made of {made}" in said


@pytest.mark.parametrize(
    ("text", "fine"),
    [
        ("1.3.1", True),
        ("v20251002.162335", True),
        ("a+b_c-d", True),
        ("../x", False),
        ("", False),
        ("a b", False),
        ("{x}", False),
    ],
)
def test_what_can_be_a_version(text: str, fine: bool) -> None:
    assert port_file.is_version(text) is fine


REAL = os.environ.get("LOCKBUILD_TEST_EMSCRIPTEN")


@pytest.mark.slow
@pytest.mark.skipif(REAL is None, reason="LOCKBUILD_TEST_EMSCRIPTEN names no repository of Emscripten")
@pytest.mark.parametrize("version", ["4.0.19", "6.0.5"])
def test_every_real_port(version: str) -> None:
    assert REAL is not None
    found: dict[str, PortFile] = {}
    for directory, prefix in (("tools/ports/", ""), ("tools/ports/contrib/", "contrib.")):
        for path in run_git("ls-tree", "--name-only", version, directory, cwd=Path(REAL)).split():
            name = path.rpartition("/")[2]
            if name.endswith(".py") and name != "__init__.py":
                text = run_git("show", f"{version}:{path}", cwd=Path(REAL))
                found[prefix + name[:-3]] = port_file.parse(text.encode(), prefix + name[:-3], path)
    assert len(found) == {"4.0.19": 27, "6.0.5": 28}[version]
    for name, file in found.items():
        (archive,) = file.archives
        assert archive.directory == name
        assert archive.sha512 is not None
        assert file.version is not None
        assert set(file.dependencies) <= set(found)
    facts = {
        "4.0.19": {
            "zlib": ("1.3.1", "8c9642495b"),
            "libpng": ("1.6.39", "19851afffb"),
            "sdl2": ("2.32.8", "e90a78e758"),
            "sqlite3": ("3.39.0", "cbaf4adb3e"),
            "icu": ("68_2", "12c3db5966"),
            "boost_headers": ("1.83.0", "82e3a64e55"),
            "contrib.glfw3": ("3.4.0.20250927", "c1906c3e93"),
            "contrib.lua": ("5.4.7", "98c5c8978d"),
            "emdawnwebgpu": ("v20251002.162335", "ed15672c2c"),
        },
        "6.0.5": {
            "zlib": ("1.3.2", "16fea4df30"),
            "libpng": ("1.6.58", "177d81fd1b"),
            "sdl2": ("2.32.10", "001738b610"),
            "sdl3_ttf": ("release-3.2.2", "c5f34d1b79"),
            "cocos2d": ("version_3_3r1", "28037e54be"),
            "contrib.lua": ("5.5.0", "3253d2cdc9"),
            "emdawnwebgpu": ("v20260423.175430", "42784f70b6"),
        },
    }[version]
    for name, (pinned, digest) in facts.items():
        assert found[name].version == pinned
        assert (found[name].archives[0].sha512 or "").startswith(digest)
    assert found["sdl2_mixer"].dependencies == ("sdl2", "vorbis", "mpg123", "libmodplug")
    assert found["sqlite3"].archives[0].url.endswith("/2022/sqlite-amalgamation-3390000.zip")
    assert found["emdawnwebgpu"].remote == "emdawnwebgpu_pkg/emdawnwebgpu.port.py"
