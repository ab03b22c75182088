"""Only what was signed, by a key that is trusted, is ever read."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from lockbuild.errors import IntegrityError, ResolveError
from lockbuild.resolve.debian.signature import verify
from tests.support.debian_archive import SigningKey, signing_key

TEXT = b"Suite: testing\n- a line that is escaped\nSHA256:\n x\n"


@pytest.fixture(scope="module")
def key() -> Iterator[SigningKey]:
    with signing_key() as made:
        yield made


@pytest.fixture(scope="module")
def other_key() -> Iterator[SigningKey]:
    with signing_key("Somebody else") as made:
        yield made


def test_gives_the_signed_text_and_who_signed(key: SigningKey) -> None:
    signed = verify(key.clearsign(TEXT), key.keyring, on="InRelease")
    assert signed.text.rstrip(b"\n") == TEXT.rstrip(b"\n")
    assert [len(fingerprint) for fingerprint in signed.keys] == [40]


def test_reads_an_armoured_keyring(key: SigningKey, other_key: SigningKey, tmp_path: Path) -> None:
    both = tmp_path / "both.asc"
    both.write_bytes(other_key.armoured_keyring.read_bytes() + b"\n" + key.armoured_keyring.read_bytes())
    assert verify(key.clearsign(TEXT), both, on="f").text.startswith(b"Suite")
    with pytest.raises(IntegrityError, match="not in the keyring"):
        verify(key.clearsign(TEXT), other_key.armoured_keyring, on="f")


def test_one_known_signer_of_several_is_enough(key: SigningKey, tmp_path: Path) -> None:
    with signing_key("The first of two") as first:
        known = tmp_path / "known.gpg"
        known.write_bytes(first.keyring.read_bytes())
        second = SigningKey(first.keyring.parent, "The second of two")
        signed = second.clearsign(TEXT, "-u", "The first of two", "-u", "The second of two")
        assert len(verify(signed, second.keyring, on="f").keys) == 2
        assert len(verify(signed, known, on="f").keys) == 1
        with pytest.raises(IntegrityError, match="not in the keyring"):
            verify(signed, key.keyring, on="f")


def test_another_key_is_refused_and_named(key: SigningKey, other_key: SigningKey) -> None:
    with pytest.raises(
        IntegrityError, match=r"signed by [0-9A-F]{16}, which is not in the keyring"
    ) as caught:
        verify(other_key.clearsign(TEXT), key.keyring, on="http://m.example.test/InRelease")
    assert caught.value.on == "http://m.example.test/InRelease"
    assert "[debian] keyring" in (caught.value.hint or "")


def test_an_expired_key_is_refused() -> None:
    with signing_key("Expired", expired=True) as expired, pytest.raises(IntegrityError, match="expired"):
        verify(expired.clearsign(TEXT), expired.keyring, on="f")


def test_a_broken_hash_is_refused() -> None:
    with signing_key("Old", algorithm="rsa2048") as old:
        assert verify(old.clearsign(TEXT, "--digest-algo", "SHA256"), old.keyring, on="f").keys
        with pytest.raises(IntegrityError, match="could not be verified"):
            verify(old.clearsign(TEXT, "--digest-algo", "SHA1"), old.keyring, on="f")


def _hostile(key: SigningKey, other: SigningKey) -> dict[str, tuple[bytes, str]]:
    good = key.clearsign(TEXT)
    head, mark, signature = good.partition(b"-----BEGIN PGP SIGNATURE-----")
    return {
        "not signed": (TEXT, "not signed"),
        "empty": (b"", "not signed"),
        "a page of a captive portal": (b"<html>log in</html>", "not signed"),
        "detached": (TEXT + key.detach(TEXT), "not signed"),
        "text before": (b"Suite: evil\n" + good, "text before"),
        "an empty line before": (b"\n" + good, "text before"),
        "text after": (good + b"Suite: evil\n", "text after"),
        "two messages": (good + good, "more than one signed part"),
        "two signers, one message each": (good + other.clearsign(TEXT), "more than one signed part"),
        "changed text": (good.replace(b"testing", b"tEsting"), "changed after it was signed"),
        "a line more": (good.replace(b"Suite:", b"Extra: 1\nSuite:"), "changed after it was signed"),
        "no signature": (head, "truncated"),
        "half a signature": (good[: len(head) + len(mark) + len(signature) // 2], "truncated"),
        "a cut signature in a whole frame": (
            head + mark + b"\n\n" + signature.split()[0][:20] + b"\n-----END PGP SIGNATURE-----\n",
            "could not be verified|changed after",
        ),
        "no signature in a whole frame": (
            head + mark + b"\n\n-----END PGP SIGNATURE-----\n",
            "could not be verified",
        ),
        "the signature of another text": (
            head + mark + key.clearsign(b"other\n").partition(mark)[2],
            "changed after it was signed",
        ),
    }


CASES = [
    "not signed", "empty", "a page of a captive portal", "detached", "text before", "an empty line before",
    "text after", "two messages", "two signers, one message each", "changed text", "a line more",
    "no signature", "half a signature", "a cut signature in a whole frame", "no signature in a whole frame",
    "the signature of another text",
]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_anything_else_is_refused(key: SigningKey, other_key: SigningKey, case: str) -> None:
    data, message = _hostile(key, other_key)[case]
    with pytest.raises(IntegrityError, match=message):
        verify(data, key.keyring, on="f")


def test_a_missing_keyring_says_what_to_install(key: SigningKey, tmp_path: Path) -> None:
    with pytest.raises(ResolveError, match="cannot be read") as caught:
        verify(key.clearsign(TEXT), tmp_path / "none.gpg", on="f")
    assert "debian-archive-keyring" in (caught.value.hint or "")
    (tmp_path / "bad.asc").write_text("-----BEGIN PGP PUBLIC KEY BLOCK-----\nnothing\n")
    with pytest.raises(ResolveError, match="not an OpenPGP keyring"):
        verify(key.clearsign(TEXT), tmp_path / "bad.asc", on="f")
    (tmp_path / "empty.gpg").touch()
    with pytest.raises(IntegrityError, match="not in the keyring"):
        verify(key.clearsign(TEXT), tmp_path / "empty.gpg", on="f")


def test_a_missing_gpgv_says_what_to_install(
    key: SigningKey, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    signed = key.clearsign(TEXT)
    assert shutil.which("gpgv"), "gpgv is what verifies"
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ResolveError, match="gpgv is not installed") as caught:
        verify(signed, key.keyring, on="f")
    assert caught.value.hint == "install the package gpgv"


def test_the_users_own_keys_do_not_count(
    key: SigningKey, other_key: SigningKey, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("trustedkeys.gpg", "pubring.gpg", "trustedkeys.kbx"):
        (tmp_path / name).write_bytes(other_key.keyring.read_bytes())
    monkeypatch.setenv("GNUPGHOME", str(tmp_path))
    with pytest.raises(IntegrityError, match="not in the keyring"):
        verify(other_key.clearsign(TEXT), key.keyring, on="f")
