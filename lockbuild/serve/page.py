"""The page at ``/``: what is here, and what to paste where so that a program uses it. HTML without scripts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from urllib.parse import urlsplit

from lockbuild.serve.debian import COMPONENT, PREFIX, architectures, has_packages
from lockbuild.serve.library import KnownLock, Library
from lockbuild.serve.message import HTML, Answer, made

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60em;margin:2em auto;padding:0 1em}"
    "pre{background:#8881;padding:.7em;overflow:auto}td,th{text-align:left;padding:.1em 1.5em .1em 0}"
    ":root{color-scheme:light dark}"
)


@dataclass(frozen=True, slots=True)
class Offer:
    """What there is: ``missing`` files that locks name and the store lacks, the names of ``images``, suites that are
    ``signed``, and by a repository's URL its commits that are there, and how many locks name."""

    library: Library
    missing: int
    images: tuple[str, ...]
    signed: tuple[str, ...]
    commits: Mapping[str, tuple[tuple[str, ...], int]]


def page(offer: Offer, base: str) -> Answer:
    """The page, for a client that calls this server ``base`` (``http://host:port``)."""
    parts = [
        "<p>This is a read-only mirror out of a <b>lockbuild</b> store. It has what the locks below name, and "
        "nothing else; every file is checked against its digest before it goes out.</p>",
        _locks(offer),
        _section("lockbuild", "Put this into <code>config.toml</code> (<code>lockbuild config path</code>).",
                 configuration(offer.library, base)),
    ]  # fmt: skip
    parts += [*_pip(offer, base), *_apt(offer, base), *_git(offer, base), *_docker(offer, base)]
    parts.append(
        _section(
            "Anything else",
            "By SHA-256 (or SHA-512), by original URL, below the path of an npm registry. What a lock records as a "
            "tree is there by its digest, as a tar.",
            f"{base}/sha256/HEX\n{base}/sha512/HEX\n{base}/url/https/HOST/PATH\n{base}/npm/NAME/-/NAME-VERSION.tgz",
        )
    )
    document = (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>lockbuild mirror</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head>\n'
        f"<body><h1>lockbuild mirror</h1>\n{''.join(parts)}</body></html>\n"
    )
    return made(document.encode(), HTML).having(
        Content_Security_Policy=_POLICY, Referrer_Policy="no-referrer", Vary="Host"
    )


def configuration(library: Library, base: str) -> str:
    """What makes another lockbuild take everything from here: a part of its config.toml."""
    text = f'[[mirrors]]\nby-digest = "{base}/sha256/{{sha256}}"\n'
    if library.by_sha512:
        text += f'\n[[mirrors]]\nby-digest = "{base}/sha512/{{sha512}}"\n'
    for scheme, host in library.origins:
        text += f'\n[[mirrors]]\nprefix = "{scheme}://{host}"\nto = ["{base}/url/{scheme}/{host}"]\n'
    if library.pool:
        text += f'\n[debian]\nmirrors = ["{base}/debian"]\n'
    if library.wheels:
        text += f'\n[pypi]\nindexes = ["{base}/pypi/simple"]\n'
    if library.npm:
        text += f'\n[npm]\nregistry = "{base}/npm"\n'
    return text


def _locks(offer: Offer) -> str:
    rows = "".join(_row(known, offer) for known in offer.library.locks)
    missing = ""
    if offer.missing:
        missing = (
            f"<p>{offer.missing} files that they name are not in the store; <code>lockbuild sync</code> there "
            "brings them.</p>"
        )
    return (
        "<h2>Locks</h2><table><tr><th>name</th><th>toolchain</th><th>sources</th><th>platforms</th><th>image</th></tr>"
        f"{rows}</table>{missing}\n"
    )


def _row(known: KnownLock, offer: Offer) -> str:
    platforms = sorted({str(tree.platform) for tree in known.lock.trees if tree.platform != "any"})
    cells = (
        known.name,
        str(known.lock.manifest.inputs.get("name", "")),
        str(len(known.lock.sources)),
        ", ".join(platforms),
        "yes" if known.name in offer.images else "no: its trees are not all here, or not locked",
    )
    return "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>\n"


def _section(title: str, prose: str, text: str) -> str:
    """``prose`` is HTML, the others are text."""
    return f"<h2>{escape(title)}</h2><p>{prose}</p><pre>{escape(text)}</pre>\n"


def _pip(offer: Offer, base: str) -> list[str]:
    if not offer.library.wheels:
        return []
    host = urlsplit(base).netloc
    trusted = "" if base.startswith("https:") or _is_loopback(base) else f" --trusted-host {host}"
    projects = ", ".join(sorted(offer.library.wheels))
    text = f"pip install --index-url {base}/pypi/simple/{trusted} PROJECT"
    return [_section("pip", f"Wheels of: {escape(projects)}.", text)]


def _apt(offer: Offer, base: str) -> list[str]:
    lines = [
        f"deb [trusted=yes arch={','.join(architectures(known))}] {base}/debian {PREFIX}{known.name} {COMPONENT}"
        for known in offer.library.locks
        if has_packages(known)
    ]
    if not lines:
        return []
    parts = [
        _section(
            "apt",
            "Each of these suites has exactly the packages of one lock. Its index is made here and "
            "<b>nobody signed it</b>: take it only where you trust this server and the way to it.",
            "\n".join(lines),
        )
    ]
    if offer.signed:
        parts.append(
            _section(
                "apt, by signed indexes",
                "The suites as their publisher signed them when they were locked. They name many packages that are "
                "not here, and are past their time of validity mostly.",
                "\n".join(
                    f"deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg check-valid-until=no] "
                    f"{base}/debian {name} {COMPONENT}"
                    for name in offer.signed
                ),
            )
        )
    return parts


def _git(offer: Offer, base: str) -> list[str]:
    if not offer.commits:
        return []
    lines, rewritten = [], {}
    for url, (commits, named) in offer.commits.items():
        where = urlsplit(url)
        here = f"{base}/url/{where.scheme}/{where.netloc}"
        if commits:
            rewritten[f"{where.scheme}://{where.netloc}/"] = f"{here}/"
        lines.append(f"# {url}: {len(commits)} of {named} locked commits")
        lines += [
            f"git fetch --depth=1 {here}{where.path.removesuffix('.git')}.git {each}" for each in commits
        ]
    lines += [f'git config --global url."{there}".insteadOf {origin}' for origin, there in rewritten.items()]
    return [
        _section(
            "git",
            "Locked commits only, without their history and other references. What a lock leaves out of a commit is "
            "missing; such a commit can be fetched with <code>--depth=1 --filter=blob:none</code> only.",
            "\n".join(lines),
        )
    ]


def _docker(offer: Offer, base: str) -> list[str]:
    if not offer.images:
        return []
    host = urlsplit(base).netloc
    plain = base.startswith("http:")
    flag = " --src-tls-verify=false" if plain else ""
    note = "Tags: <code>latest</code>, and one for each platform."
    if plain and not _is_loopback(base):
        note += f' Docker needs <code>"insecure-registries": ["{escape(host)}"]</code> in its daemon.json.'
    lines = [f"docker pull {host}/{name}" for name in offer.images]
    lines += [f"skopeo copy{flag} docker://{host}/{name} oci:{name}" for name in offer.images]
    return [_section("docker, podman, skopeo", note, "\n".join(lines))]


def _is_loopback(base: str) -> bool:
    host = urlsplit(base).hostname or ""
    return host == "localhost" or host.startswith("127.") or host == "::1"
