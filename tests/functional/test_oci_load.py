"""Images in a real engine: the ID that was computed is the one that it shows, and only what it lacks is sent."""

from __future__ import annotations

import io
import json
import subprocess
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import lockbuild.oci.load as load_module
from lockbuild.archive.canonical import tree_digest
from lockbuild.errors import IntegrityError, SandboxError
from lockbuild.events import Advanced, Event, Finished, Note, Started
from lockbuild.model.digest import Digest
from lockbuild.model.environment import Environment, MountedTree, SandboxSpec
from lockbuild.oci.archive import ImageArchive, chunks_of
from lockbuild.oci.image import Image, compute
from lockbuild.oci.load import ensure_loaded, loaded
from lockbuild.transport.engine import EngineEndpoint
from tests.support.engine import PrivateEngine, private_engine

pytestmark = pytest.mark.docker

LABELS = {"org.opencontainers.image.title": "hello", "org.opencontainers.image.version": 'ü "1"'}


@pytest.fixture
def endpoint(engine: PrivateEngine) -> EngineEndpoint:
    return engine.endpoint


@pytest.fixture
def environment(busybox_spec: SandboxSpec, tmp_path: Path) -> Environment:
    """One whose last layer no engine has seen."""
    root = tmp_path / "fresh"
    (root / "opt/fresh").mkdir(parents=True)
    (root / "opt/fresh/name").write_text(str(tmp_path))
    fresh = MountedTree("tools.fresh", tree_digest(root), "/opt/fresh", root)
    return replace(busybox_spec.environment, trees=(*busybox_spec.environment.trees, fresh))


class Recorder:
    def __init__(self) -> None:
        self.events: list[Event] = []

    def __call__(self, event: Event) -> None:
        self.events.append(event)

    @property
    def sent(self) -> int:
        return sum(event.amount for event in self.events if isinstance(event, Advanced))


def inspect(endpoint: EngineEndpoint, name: str) -> dict[str, object]:
    answer = endpoint.request("GET", f"/images/{name}/json")
    assert answer.status == 200, answer
    found: dict[str, object] = answer.json()
    return found


def remove(endpoint: EngineEndpoint, image: Image) -> None:
    assert endpoint.request("DELETE", f"/images/{image.config_digest}?force=1").status == 200


def test_the_engine_shows_the_computed_image(endpoint: EngineEndpoint, environment: Environment) -> None:
    image = compute(environment, labels=LABELS)
    report = Recorder()
    assert loaded(endpoint, image.config_digest, image.manifest_digest) is None
    assert ensure_loaded(image, environment, endpoint, report, name="My Project") == image.config_digest
    shown = inspect(endpoint, f"lockbuild/my-project:{image.config_digest.short}")
    assert shown["Id"] == str(image.config_digest)
    assert shown["RootFS"] == {"Type": "layers", "Layers": [str(diff_id) for diff_id in image.diff_ids]}
    config = shown["Config"]
    assert isinstance(config, dict)
    assert (config["User"], config["WorkingDir"], config["Labels"]) == ("1000:1000", "/build", LABELS)
    assert config["Env"] == ["HOME=/build/home", "PATH=/opt/tool/bin:/usr/bin"]
    assert isinstance(report.events[0], Started | Note)
    assert isinstance(report.events[-1], Finished)
    remove(endpoint, image)


def test_nothing_is_sent_twice(endpoint: EngineEndpoint, environment: Environment) -> None:
    image = compute(environment, labels={})
    ensure_loaded(image, environment, endpoint, Recorder())
    again = Recorder()
    assert ensure_loaded(image, environment, endpoint, again, name="second") == image.config_digest
    assert again.events == []
    tags = inspect(endpoint, str(image.config_digest))["RepoTags"]
    short = image.config_digest.short
    assert tags == [f"lockbuild/environment:{short}", f"lockbuild/second:{short}"]
    assert endpoint.request("POST", "/images/prune").status == 200
    assert loaded(endpoint, image.config_digest, image.manifest_digest) == image.config_digest
    remove(endpoint, image)


def test_only_layers_that_the_engine_lacks_are_sent(
    endpoint: EngineEndpoint, environment: Environment
) -> None:
    before = replace(environment, trees=environment.trees[:2])
    ensure_loaded(compute(before, labels={}), before, endpoint, Recorder())
    image = compute(environment, labels={})
    report = Recorder()
    assert ensure_loaded(image, environment, endpoint, report) == image.config_digest
    assert report.sent == image.sizes[2] < image.sizes[0]
    remove(endpoint, image)


def test_an_engine_that_has_the_chain_no_more_gets_everything(
    endpoint: EngineEndpoint, environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = replace(environment, trees=environment.trees[2:])
    monkeypatch.setattr(load_module, "_layers_present", lambda endpoint, image: 1)
    image = compute(other, labels={})
    report = Recorder()
    assert ensure_loaded(image, other, endpoint, report) == image.config_digest
    assert report.sent == sum(image.sizes)
    remove(endpoint, image)


def test_a_tree_that_is_not_what_its_digest_says(endpoint: EngineEndpoint, environment: Environment) -> None:
    tree = replace(environment.trees[2], digest=Digest("0" * 64))
    wrong = replace(environment, trees=(tree,))
    with pytest.raises(IntegrityError, match=r"tools.fresh: the tree sha256:0+ in the store is damaged"):
        ensure_loaded(compute(wrong, labels={}), wrong, endpoint, Recorder())


def test_a_tree_that_grew(endpoint: EngineEndpoint, environment: Environment, tmp_path: Path) -> None:
    image = compute(environment, labels={})
    (tmp_path / "fresh/opt/fresh/more").write_text("more")
    with pytest.raises(IntegrityError, match=r"tools.fresh: the tree sha256:\w+ in the store is damaged"):
        ensure_loaded(image, environment, endpoint, Recorder())
    # What was sent until then is no image.
    assert loaded(endpoint, image.config_digest, image.manifest_digest) is None


def test_an_engine_that_makes_something_else(
    endpoint: EngineEndpoint, environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = compute(environment, labels={})
    claimed = replace(image, config_digest=Digest("1" * 64), manifest_digest=Digest("2" * 64))

    class OtherArchive(ImageArchive):
        def __init__(self, images: list[Image], *arguments: Any, **options: Any) -> None:
            super().__init__([image], *arguments, **options)

    monkeypatch.setattr(load_module, "ImageArchive", OtherArchive)
    with pytest.raises(IntegrityError, match=f"the engine made {image.config_digest} of the image"):
        ensure_loaded(claimed, environment, endpoint, Recorder())
    remove(endpoint, image)


def test_an_engine_whose_disk_is_full(environment: Environment, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "lockbuild-test", data], check=True)
    try:
        with private_engine("--data-root", str(data)) as engine:
            image = compute(environment, labels={})
            with pytest.raises(SandboxError, match="no space left on device"):
                ensure_loaded(image, environment, engine.endpoint, Recorder())
    finally:
        subprocess.run(["umount", "-l", data], check=True)


def archive(image: Image, environment: Environment) -> bytes:
    parts: list[bytes] = []
    written = ImageArchive([image], ["lockbuild/x:y"], "lockbuild/x:y", chunks_of(None, [environment]))
    written.write(lambda data: parts.append(bytes(data)))
    assert written.size() == sum(map(len, parts))
    return b"".join(parts)


def test_the_archive_is_an_oci_layout_too(environment: Environment) -> None:
    image = compute(environment, labels={})
    with tarfile.open(fileobj=io.BytesIO(archive(image, environment))) as tar:
        files = {name: tar.extractfile(name) for name in tar.getnames() if tar.getmember(name).isfile()}
        contents = {name: stream.read() for name, stream in files.items() if stream is not None}
    assert json.loads(contents.pop("oci-layout")) == {"imageLayoutVersion": "1.0.0"}
    index = json.loads(contents.pop("index.json"))
    docker = json.loads(contents.pop("manifest.json"))[0]
    # All else are blobs under their own digests, and every reference leads to one.
    assert all(name == f"blobs/sha256/{Digest.of(data).hex}" for name, data in contents.items())
    manifest = contents[f"blobs/sha256/{Digest.parse(index['manifests'][0]['digest']).hex}"]
    assert manifest == image.manifest
    parsed = json.loads(manifest)
    for item in [*index["manifests"], parsed["config"], *parsed["layers"]]:
        assert len(contents[f"blobs/sha256/{Digest.parse(item['digest']).hex}"]) == item["size"]
    assert contents[docker["Config"]] == image.config
    assert docker["Layers"] == [f"blobs/sha256/{diff_id.hex}" for diff_id in image.diff_ids]
    assert docker["RepoTags"] == ["lockbuild/x:y"]
