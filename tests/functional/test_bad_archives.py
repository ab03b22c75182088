"""Archives and packages that would write where they must not: refused by name, with nothing left behind."""

from __future__ import annotations

import hashlib
import io
import os
import stat
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support import debs
from tests.support.tiny import TinyWorld

Entry = tuple[tarfile.TarInfo, bytes]


def tar_of(*entries: Entry) -> bytes:
    return debs.tar([debs.directory("top"), debs.file("top/good", "good"), *entries])


def device(name: str) -> Entry:
    info = debs.entry(name, tarfile.CHRTYPE)
    info.devmajor, info.devminor = 1, 3
    return info, b""


def zip_of(name: str, *, mode: int = 0o644, kind: int = stat.S_IFREG, content: bytes = b"x") -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("top/good", "good")
        info = zipfile.ZipInfo(name)
        info.create_system = 3
        info.external_attr = (kind | mode) << 16
        archive.writestr(info, content)
    return out.getvalue()


UNSAFE: dict[str, tuple[bytes, str, str]] = {
    "dot-dot": (tar_of(debs.file("top/../../escaped")), "top/../../escaped", "the name has a '..'"),
    "only-dot-dot": (tar_of(debs.file("../escaped")), "../escaped", "the name has a '..'"),
    "absolute": (tar_of(debs.file("/escaped")), "/escaped", "the name is absolute"),
    "link-out": (tar_of(debs.link("top/l", "../../x")), "l", "the symbolic link leads out of the archive"),
    "link-absolute": (tar_of(debs.link("top/l", "/etc/passwd")), "l", "the symbolic link is absolute"),
    "through-link": (
        tar_of(debs.link("top/l", "."), debs.file("top/l/x")),
        "l/x",
        "it would be written through a symbolic link",
    ),
    "hard-link-out": (
        tar_of((debs.entry("top/h", tarfile.LNKTYPE, link="top/../../../../etc/passwd"), b"")),
        "h",
        "has a '..'",
    ),
    "hard-link-absolute": (
        tar_of((debs.entry("top/h", tarfile.LNKTYPE, link="/etc/passwd"), b"")),
        "h",
        "the target of the hard link is absolute",
    ),
    "device": (tar_of(device("top/null")), "null", "the entry is a device"),
    "fifo": (tar_of((debs.entry("top/p", tarfile.FIFOTYPE), b"")), "p", "the entry is a fifo"),
    "zip-dot-dot": (zip_of("top/../../escaped"), "top/../../escaped", "the name has a '..'"),
    "zip-absolute": (zip_of("/escaped"), "/escaped", "the name is absolute"),
    "zip-link-out": (zip_of("top/l", kind=stat.S_IFLNK, content=b"../../x"), "l", "leads out of the archive"),
    "zip-device": (zip_of("top/d", kind=stat.S_IFCHR), "d", "the entry is a device, a fifo or a socket"),
}


class Project:
    """A project with one archive as a source."""

    def __init__(self, world: TinyWorld) -> None:
        self.world = world
        self.url = f"{world.server.url}/files/source.tar"
        world.edit(
            "lockbuild.toml", "[targets.tiny]", '[sources.it]\nfrom = "archive"\nurl = "URL"\n[targets.tiny]'
        )
        world.edit("lockbuild.toml", "URL", self.url)
        self._template = (world.project / "lockbuild.toml").read_text()

    def sync(self, archive: bytes, status: int = 0) -> str:
        """Lock and sync with this archive; what the sync said."""
        self.world.server.files["/files/source.tar"] = archive
        line = f'url = "{self.url}"\nsha256 = "{hashlib.sha256(archive).hexdigest()}"'
        (self.world.project / "lockbuild.toml").write_text(
            self._template.replace(f'url = "{self.url}"', line)
        )
        self.world.run("lock", "--upgrade", "it")
        return self.world.run("sync", status=status).err


@pytest.fixture(scope="module")
def project(original: TinyWorld, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    world = original.fork(tmp_path_factory.mktemp("archives"), store=True)
    yield Project(world)
    del original.server.files["/files/source.tar"]


def left_behind(world: TinyWorld) -> list[str]:
    found = [path.name for path in (*world.store.glob("tmp/*"), *world.store.glob("partial/*"))]
    return found + [path.name for path in world.directory.rglob("escaped")]


@pytest.mark.parametrize("name", UNSAFE)
def test_an_unsafe_archive_is_refused(project: Project, name: str) -> None:
    archive, entry, why = UNSAFE[name]
    trees = sorted(os.listdir(project.world.store / "trees/sha256"))
    said = project.sync(archive, 5)
    assert f"error: {project.url}: {entry}: the archive is not safe to unpack: " in said
    assert why in said
    assert "hint: get the archive from its publisher again; if it is the same, tell them" in said
    assert left_behind(project.world) == []
    assert sorted(os.listdir(project.world.store / "trees/sha256")) == trees
    assert not Path("/escaped").exists()


@pytest.mark.parametrize(
    ("archive", "told"),
    [
        (tar_of()[:1500], "the archive cannot be unpacked: it is damaged: unexpected end of data"),
        (tar_of()[:1536], "the archive cannot be unpacked: it is cut short"),
        (b"\x1f\x8b\x08\0" + bytes(40), "the archive cannot be unpacked: it is damaged"),
        (b"\xfd7zXZ\0" + bytes(40), "the archive cannot be unpacked: it is damaged"),
        (b"BZh9" + bytes(40), "the archive cannot be unpacked: it is damaged"),
        (b"\x28\xb5\x2f\xfd" + bytes(40), "the archive cannot be unpacked: it is damaged"),
        (b"PK\3\4" + bytes(40), "the archive cannot be unpacked: it is damaged"),
        (b"<html>Please log in</html>", "it is neither a tar (plain, gzip, xz, bzip2 or zstd) nor a zip"),
        (b"", "it is neither a tar"),
    ],
    ids=["tar", "tar-between-entries", "gzip", "xz", "bzip2", "zstd", "zip", "html", "empty"],
)
def test_a_damaged_archive_is_refused(project: Project, archive: bytes, told: str) -> None:
    said = project.sync(archive, 5)
    assert f"error: {project.url}: " in said
    assert told in said
    assert "hint: if its digest is the one that was asked for, it is so at its publisher's" in said
    assert left_behind(project.world) == []


def modes(root: Path) -> dict[str, int]:
    return {path.relative_to(root).as_posix(): path.lstat().st_mode & 0o7777 for path in root.rglob("*")}


def test_setuid_and_odd_modes_are_taken_off(project: Project) -> None:
    archive = tar_of(
        debs.file("top/setuid", mode=0o6755),
        debs.file("top/secret", mode=0o600),
        debs.file("top/nobody", mode=0),
        debs.file("top/open", mode=0o777),
        (debs.entry("top/sticky", tarfile.DIRTYPE, mode=0o1777), b""),
        debs.link("top/link", "good"),
    )
    project.sync(archive)
    root = Path(project.world.run("store", "path", "sources.it").out.strip())
    assert modes(root) == {
        "good": 0o644,
        "setuid": 0o755,
        "secret": 0o644,
        "nobody": 0o644,
        "open": 0o755,
        "sticky": 0o755,
        "link": 0o777,
    }
    assert all(path.lstat().st_mtime == 0 for path in root.rglob("*"))


# The same in packages


def sync_with(world: TinyWorld, make: Callable[[Path], Path], store: Path, status: int) -> str:
    """Publish the package that ``make`` writes, as the archive's keyholder could; lock and sync."""
    deb = make(store.parent / "hostile.deb").read_bytes()
    path = "pool/main/h/hostile/hostile_1_all.deb"
    world.archive.files[path] = deb
    world.archive.add_stanza(
        f"Package: hostile\nVersion: 1\nArchitecture: all\nFilename: {path}\nSize: {len(deb)}\n"
        f"SHA256: {hashlib.sha256(deb).hexdigest()}\n"
    )
    world.publish()
    world.edit("toolchain.toml", '"greeting"]', '"greeting", "hostile"]')
    world.run("lock")
    return world.run("sync", store=store, status=status).err


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        (debs.file("./../../escaped"), "package hostile: ./../../escaped: the archive is not safe to unpack"),
        (
            debs.file("/escaped"),
            "package hostile: /escaped: the archive is not safe to unpack: the name is abs",
        ),
        (device("./dev/null"), "package hostile: holds './dev/null', which is a device, a fifo or something"),
        (
            (debs.entry("./p", tarfile.FIFOTYPE), b""),
            "package hostile: holds './p', which is a device, a fifo",
        ),
        (
            (debs.entry("./h", tarfile.LNKTYPE, link="./../../../../etc/passwd"), b""),
            "the target of the hard link has a '..'",
        ),
        (
            (debs.entry("./h", tarfile.LNKTYPE, link="/etc/passwd"), b""),
            "the target of the hard link is absolute",
        ),
        (debs.file("./usr/.wh.bin"), "its name would delete files when it is a layer (a whiteout)"),
    ],
    ids=["dot-dot", "absolute", "device", "fifo", "hard-link-out", "hard-link-absolute", "whiteout"],
)
def test_an_unsafe_package_is_refused(shared: TinyWorld, tmp_path: Path, entry: Entry, told: str) -> None:
    store = tmp_path / "store"
    said = sync_with(shared, lambda path: debs.write_deb(path, [entry], package="hostile"), store, 5)
    assert told in said
    assert "hint: " in said or "whiteout" in told
    assert list(store.glob("tmp/*")) == []
    assert list(store.glob("trees/sha256/*")) == []
    assert not Path("/escaped").exists()
    shared.run("store", "verify", store=store)


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda data: data[: len(data) // 2], "is not a sound Debian package"),
        (lambda data: b"", "is not a sound Debian package: no ar archive"),
        (lambda data: data.replace(b"data.tar.xz", b"data.tar.qq"), "data.tar.qq has an unknown compression"),
        (lambda data: data[:-40] + bytes(40), "is not a sound Debian package: data.tar.xz"),
    ],
    ids=["truncated", "empty", "compression", "damaged"],
)
def test_a_broken_package_is_refused(
    shared: TinyWorld, tmp_path: Path, spoil: Callable[[bytes], bytes], told: str
) -> None:
    def make(path: Path) -> Path:
        debs.write_deb(path, [debs.file("./usr/share/x", "x" * 5000)], package="hostile")
        path.write_bytes(spoil(path.read_bytes()))
        return path

    said = sync_with(shared, make, tmp_path / "store", 5)
    assert told in said
    assert "error: pkg:deb/debian/hostile@1?arch=all&distro=forky (" in said
    assert (
        "hint: if its digest is the locked one, the package itself is broken: ask for another version" in said
    )


def test_links_and_modes_in_a_package_stay_in_the_root(shared: TinyWorld, tmp_path: Path) -> None:
    """A package's link may name any path of the root that it becomes part of, never one of the host."""
    (tmp_path / "outside").mkdir()
    entries = [
        debs.link("./usr/out", f"../../../../../../..{tmp_path}/outside"),
        debs.file("./usr/out/file", "inside"),
        debs.link("./usr/abs", "/usr/share"),
        debs.file("./usr/abs/file", "inside"),
        debs.file("./usr/bin/hostile", "x", mode=0o4755),
    ]
    store = tmp_path / "store"
    sync_with(shared, lambda path: debs.write_deb(path, entries, package="hostile"), store, 0)
    assert list((tmp_path / "outside").iterdir()) == []
    base = Path(shared.run("store", "path", "base", store=store).out.strip())
    assert (base / "usr/share/file").read_text() == "inside"
    assert (base / str(tmp_path)[1:] / "outside/file").read_text() == "inside"
    assert (base / "usr/bin/hostile").stat().st_mode & 0o7777 == 0o755
