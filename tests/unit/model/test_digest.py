"""Digests and platforms as types."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockbuild.model.digest import Digest
from lockbuild.model.platform import Platform


@given(st.binary())
def test_a_digest_survives_its_text(data: bytes) -> None:
    digest = Digest.of(data)
    assert digest.hex == hashlib.sha256(data).hexdigest()
    assert Digest.parse(str(digest)) == digest


@pytest.mark.parametrize(
    "text", ["", "sha256:", "md5:" + "0" * 64, "sha256:" + "A" * 64, "sha256:" + "0" * 63, "0" * 64]
)
def test_what_is_no_digest_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="digest"):
        Digest.parse(text)


def test_a_platform_has_every_name_that_others_give_it() -> None:
    arm = Platform.parse("linux/arm64")
    assert (str(arm), arm.debian_architecture, arm.machine) == ("linux/arm64", "arm64", "aarch64")
    assert Platform.of_machine("aarch64") == arm
    assert Platform.of_machine("x86_64") == Platform.parse("linux/amd64")


@pytest.mark.parametrize("text", ["linux", "windows/amd64", "linux/", "linux/amd64/v3"])
def test_an_unknown_platform_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a known platform"):
        Platform.parse(text)
