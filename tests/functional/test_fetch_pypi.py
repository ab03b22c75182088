"""Resolving and fetching from the package indexes that this machine is configured for."""

from __future__ import annotations

import os
import zipfile
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lockbuild.config import load
from lockbuild.fetch import Fetcher
from lockbuild.model.platform import Platform
from lockbuild.model.requests import PypiTool
from lockbuild.resolve import Resolution, ResolveContext, TargetPython, resolve
from lockbuild.store import Store
from lockbuild.transport.http import Http

pytestmark = [pytest.mark.network, pytest.mark.slow]

PLATFORMS = [Platform.parse("linux/amd64"), Platform.parse("linux/arm64")]
TARGET = TargetPython((3, 14, 7), (2, 43))


def locked(requirement: str, http: Http, tmp_path: Path) -> Resolution:
    context = ResolveContext(
        http=http,
        config=load({"HOME": str(tmp_path)}),
        store=Store(tmp_path / "store"),
        now=datetime.now(UTC),
        project=tmp_path,
        targets=dict.fromkeys(PLATFORMS, TARGET),
    )
    tool = PypiTool.model_validate({"from": "pypi", "requirement": requirement})
    return resolve("tools.x", tool, PLATFORMS, context)


@pytest.mark.parametrize(
    ("requirement", "version"), [("cmake>=3.31,<3.32", "cmake@3.31."), ("ninja>=1.13,<1.14", "ninja@1.13.")]
)
def test_build_tools_for_both_platforms(requirement: str, version: str, tmp_path: Path) -> None:
    with Http(load(os.environ)) as http:
        resolution = locked(requirement, http, tmp_path)
    assert [source.trees for source in resolution.sources] in (
        [["linux/amd64:tools.x"], ["linux/arm64:tools.x"]],
        [["linux/arm64:tools.x"], ["linux/amd64:tools.x"]],
    )
    for source in resolution.sources:
        assert source.purl.startswith(f"pkg:pypi/{version}")
        machine = "x86_64" if "amd64" in source.trees[0] else "aarch64"
        assert source.path is not None
        assert f"manylinux2014_{machine}" in source.path
        assert source.size


def test_a_closure_is_resolved_fetched_and_whole(tmp_path: Path) -> None:
    config = load(os.environ)
    store = Store(tmp_path / "store")
    with Http(config) as http:
        resolution = locked("jinja2", http, tmp_path)
        compiled = [source for source in resolution.sources if "markupsafe" in source.purl]
        assert len(compiled) == 2
        assert all("-cp314-cp314-manylinux" in (source.path or "") for source in compiled)
        fetcher = Fetcher(store, http, config)
        assert fetcher.missing(resolution.sources) == list(resolution.sources)
        fetcher.fetch(resolution.sources)
        assert fetcher.missing(resolution.sources) == []
    for source in resolution.sources:
        blob = store.verified_blob(source.sha256)
        assert blob.stat().st_size == source.size
        assert zipfile.ZipFile(blob).testzip() is None
