"""Verify a clear-signed file with ``gpgv`` and take from it only what was signed.

RFC 9580 section 7 (cleartext signature framework); the status lines are those of GnuPG's doc/DETAILS.
What stands before, after or between signed parts is never signed, so a file that has more than one
signed message is refused. gpgv's exit status is not enough: it is bad when one of several signatures
is by a key that the keyring lacks, which is normal while Debian changes keys.
"""

from __future__ import annotations

import base64
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

from lockbuild.errors import IntegrityError, ResolveError
from lockbuild.reading import read_regular

_BEGIN = b"-----BEGIN PGP SIGNED MESSAGE-----"
_END = b"-----END PGP SIGNATURE-----"
_ARMOUR = re.compile(
    r"-----BEGIN PGP PUBLIC KEY BLOCK-----\r?\n(?:[^\n]*: [^\n]*\n)*\r?\n(.*?)^(?:=[A-Za-z0-9+/]{4}\r?\n)?-----END",
    re.DOTALL | re.MULTILINE,
)
_STATUS = "[GNUPG:] "
_BAD_SIGNATURES = {
    "BADSIG": "the text was changed after it was signed",
    "EXPSIG": "its signature has expired",
    "EXPKEYSIG": "the key that signed it has expired",
    "REVKEYSIG": "the key that signed it was revoked",
}


@dataclass(frozen=True, slots=True)
class SignedText:
    """``text`` as it was signed, and the fingerprints of the ``keys`` whose signatures are good."""

    text: bytes
    keys: tuple[str, ...]


def require(keyring: Path) -> None:
    """ResolveError, which says what to install, where `verify` could not work with ``keyring``."""
    import shutil

    if shutil.which("gpgv") is None:
        raise ResolveError(
            "gpgv is not installed; without it no signed index can be verified",
            hint="install the package gpgv",
        )
    _read_keyring(keyring)


def verify(data: bytes, keyring: Path, *, on: str) -> SignedText:
    """The signed text of the clear-signed ``data``.

    ``on`` names the file. IntegrityError where no key of ``keyring`` has made a good signature, or where the
    file holds anything that is not signed; ResolveError where gpgv or the keyring is missing.
    """
    require(keyring)
    _check_frame(data, on)
    with tempfile.TemporaryDirectory(prefix="lockbuild-gpgv-") as name:
        directory = Path(name)
        (directory / "message").write_bytes(data)
        keys = _binary_keyring(keyring, directory)
        status, complaint = _run_gpgv(directory, keys)
        signers = _good_signers(status, complaint, keyring, on)
        try:
            text = (directory / "text").read_bytes()
        except FileNotFoundError:
            raise _not_as_signed("gpgv gave no signed text", on) from None
    return SignedText(text, signers)


def _not_as_signed(what: str, on: str) -> IntegrityError:
    return IntegrityError(
        what,
        on=on,
        hint="this is not what the archive signed: see whether a proxy or a login page answers in the mirror's place, "
        "or name another one ([debian] mirrors in lockbuild's config.toml)",
    )


def _check_frame(data: bytes, on: str) -> None:
    lines = data.splitlines()
    if not lines or lines[0].rstrip() != _BEGIN:
        if _BEGIN in data:
            raise _not_as_signed("there is text before the signed part", on)
        raise _not_as_signed("it is not signed", on)
    stripped = [line.rstrip() for line in lines]
    if stripped.count(_BEGIN) != 1:
        raise _not_as_signed("it has more than one signed part", on)
    if _END not in stripped:
        raise _not_as_signed("its signature is truncated", on)
    if any(stripped[stripped.index(_END) + 1 :]):
        raise _not_as_signed("there is text after the signed part", on)


def _read_keyring(keyring: Path) -> bytes:
    try:
        return read_regular(keyring)
    except OSError as error:
        raise ResolveError(
            f"the keyring that signed indexes are verified against cannot be read: {error.strerror}",
            on=str(keyring),
            hint="install the package debian-archive-keyring, or set [debian] keyring in lockbuild's config.toml",
        ) from None


def _binary_keyring(keyring: Path, directory: Path) -> Path:
    """gpgv reads binary keyrings only; apt's configuration may name an armoured one."""
    data = _read_keyring(keyring)
    if not data.lstrip().startswith(b"-----BEGIN PGP PUBLIC KEY BLOCK-----"):
        return keyring.absolute()
    try:
        blocks = [base64.b64decode(block, validate=False) for block in _ARMOUR.findall(data.decode("ascii"))]
    except ValueError:
        blocks = []
    if not blocks:
        raise ResolveError("it is not an OpenPGP keyring", on=str(keyring))
    binary = directory / "keyring.pgp"
    binary.write_bytes(b"".join(blocks))
    return binary


def _run_gpgv(directory: Path, keyring: Path) -> tuple[list[list[str]], str]:
    import os
    import subprocess

    command = ["gpgv", "--homedir", str(directory), "--keyring", str(keyring), "--status-fd", "1"]
    command += ["--weak-digest", "SHA1", "--output", str(directory / "text"), str(directory / "message")]
    environment = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C.UTF-8"}
    try:
        done = subprocess.run(
            command, capture_output=True, env=environment, timeout=120, check=False, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        raise ResolveError("gpgv did not finish within two minutes") from None
    lines = done.stdout.decode("utf-8", "replace").splitlines()
    status = [line[len(_STATUS) :].split() for line in lines if line.startswith(_STATUS)]
    return [words for words in status if words], done.stderr.decode("utf-8", "replace")


def _good_signers(status: list[list[str]], complaint: str, keyring: Path, on: str) -> tuple[str, ...]:
    if sum(words[0] == "PLAINTEXT" for words in status) > 1:
        raise _not_as_signed("it has more than one signed part", on)
    good: list[str] = []
    faults: list[str] = []
    unknown: list[str] = []
    promising = False
    for words in status:
        match words[0]:
            case "NEWSIG":
                promising = False
            case "GOODSIG":
                promising = True
            case "VALIDSIG" if promising and len(words) > 1:
                good.append(words[1])
            case "BADSIG":
                raise _not_as_signed(_BAD_SIGNATURES["BADSIG"], on)
            case "EXPSIG" | "EXPKEYSIG" | "REVKEYSIG" as keyword:
                faults.append(_BAD_SIGNATURES[keyword])
            case "NO_PUBKEY" if len(words) > 1:
                unknown.append(words[1])
    if good:
        return tuple(good)
    if faults:
        raise IntegrityError(faults[0], on=on, hint=f"is the keyring {keyring} up to date?")
    if unknown:
        raise IntegrityError(
            f"it is signed by {', '.join(unknown)}, which is not in the keyring {keyring}",
            on=on,
            hint="set [debian] keyring in lockbuild's config.toml to the archive's keyring, if you trust this archive",
        )
    detail = complaint.strip().splitlines()[-1:] or ["no signature found"]
    raise _not_as_signed(f"its signature could not be verified ({detail[0].strip()})", on)
