"""The ways to the network: proxies, whom to trust, and names."""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from lockbuild.config import Config
from lockbuild.config.credentials import Credentials
from lockbuild.config.urls import redact
from lockbuild.doctor.finding import Finding, ok, problem, warning
from lockbuild.errors import ExitStatus, UsageError
from lockbuild.transport.trust import Trust, trusted_bundle

_PROXIES = ("http_proxy", "https_proxy", "all_proxy")
_BUNDLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE")
_SECONDS = 3.0


def proxies(environ: Mapping[str, str], *, connect: bool) -> Iterator[Finding]:
    """Each proxy that the environment names: whether it can be one, and with ``connect`` whether anything is there."""
    seen: dict[str, str] = {}
    for name in _PROXIES:
        values = {key: environ[key] for key in (name, name.upper()) if environ.get(key)}
        if len(set(values.values())) > 1:
            yield warning(
                "proxy",
                f"{name} and {name.upper()} differ; {name} is used",
                subject=name,
                remedy="set both to the same, or one of them only",
            )
        for key, value in list(values.items())[:1]:
            seen.setdefault(value, key)
    for value, key in seen.items():
        yield _proxy(value, key, connect=connect)
    if not seen:
        yield from _proxies_of_apt()


def _proxy(value: str, variable: str, *, connect: bool) -> Finding:
    shown = redact(value if "://" in value else f"http://{value}")
    subject = f"{variable}={shown}"
    try:
        parts = urlsplit(value if "://" in value else f"http://{value}")
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        socks = parts.scheme.startswith("socks")
        return warning(
            "proxy",
            "SOCKS proxies need the library PySocks" if socks else "this is no address of a proxy",
            subject=subject,
            remedy="`pip install PySocks`, or name an HTTP proxy"
            if socks
            else f"write {variable}=http://HOST:PORT",
        )
    if not connect:
        return ok("proxy", "is used for downloads", subject=subject)
    return _connected(parts, port or (443 if parts.scheme == "https" else 80), subject)


def _connected(parts: SplitResult, port: int, subject: str) -> Finding:
    assert parts.hostname is not None
    try:
        socket.create_connection((parts.hostname, port), timeout=_SECONDS).close()
    except (OSError, UnicodeError) as error:
        reason = "it is no name of a host"
        if isinstance(error, OSError):
            reason = error.strerror or "no answer within the time-out"
        return warning(
            "proxy",
            f"nothing can be reached through it: {reason}",
            subject=subject,
            remedy="correct or unset the variable; no_proxy names hosts that are reached without it",
        )
    return ok("proxy", "is used for downloads, and takes connections", subject=subject)


def _proxies_of_apt() -> Iterator[Finding]:
    """apt has proxies of its own, which others do not know."""
    import re
    import subprocess

    try:
        done = subprocess.run(
            ["apt-config", "dump", "Acquire::http::Proxy", "Acquire::https::Proxy"],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=10,
        )
    except (OSError, subprocess.TimeoutExpired):
        return
    said = done.stdout.decode("utf-8", "replace")
    found = re.search(r'^Acquire::(https?)::Proxy "([^"]+)";', said, re.MULTILINE)
    if found is not None and found[2] not in ("DIRECT", "false"):
        yield warning(
            "proxy",
            "apt uses a proxy that the environment does not name; lockbuild does not use it",
            subject=redact(found[2]),
            remedy=f"set {found[1]}_proxy to it, if it is for everything and not for packages only",
        )


def authorities(config: Config, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Whom TLS connections trust."""
    used = trusted_bundle(environ)
    for name in _BUNDLES:
        value = environ.get(name)
        if value and not Path(value).exists():
            yield warning(
                "ca",
                "it is not there, so this variable is ignored",
                subject=f"{name}={value}",
                remedy="correct or unset the variable",
            )
    try:
        context = Trust(config, Credentials(config, environ), environ).context()
    except UsageError as error:
        yield problem("ca", error.what, subject=error.on, remedy=error.hint, status=ExitStatus.USAGE)
        return
    except OSError as error:
        reason = "is no file of PEM certificates" if isinstance(error, ssl.SSLError) else error.strerror
        yield problem(
            "ca",
            f"it {reason}",
            subject=str(used),
            remedy="correct or unset the variable that names it",
            status=ExitStatus.USAGE,
        )
        return
    extra = f", and {', '.join(config.network.ca)}" if config.network.ca else ""
    if used is not None:
        known = context.get_ca_certs()
        if not known and not used.is_dir():
            yield warning(
                "ca", "it has no authority in it", subject=str(used), remedy="name another bundle, or none"
            )
            return
        yield from _expired(known, used)
        yield ok("ca", f"trusted: {len(known) or 'those in it'} authorities{extra}", subject=str(used))
        return
    paths = ssl.get_default_verify_paths()
    if not paths.cafile and not _has_files(paths.capath):
        yield warning(
            "ca",
            f"the system has no certificates of authorities{extra}",
            remedy="install ca-certificates, or name a bundle in SSL_CERT_FILE",
        )
        return
    yield ok("ca", f"trusted: the system's authorities{extra}")


def _expired(certificates: Iterable[Mapping[str, object]], bundle: Path) -> Iterator[Finding]:
    now = datetime.now(UTC).timestamp()
    ends = [ssl.cert_time_to_seconds(str(each["notAfter"])) for each in certificates if "notAfter" in each]
    if ends and max(ends) < now:
        yield warning(
            "ca", "every authority in it has expired", subject=str(bundle), remedy="get the current bundle"
        )


def _has_files(directory: str | None) -> bool:
    try:
        return directory is not None and any(os.scandir(directory))
    except OSError:
        return False


def name(host: str) -> Finding:
    """Whether ``host`` has an address. Takes as long as the resolver does."""
    try:
        found = {str(entry[4][0]) for entry in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}
    except OSError as error:
        return warning(
            "dns",
            f"it has no address: {error.strerror or error}",
            subject=host,
            remedy="see /etc/resolv.conf and /etc/hosts; behind a proxy that resolves names, set https_proxy and "
            "http_proxy",
        )
    except UnicodeError:
        return warning("dns", "it is no name of a host", subject=host)
    return ok("dns", ", ".join(sorted(found)[:4]), subject=host)


def hosts_to_resolve(urls: Iterable[str]) -> list[str]:
    """The hosts of ``urls`` that are reached without a proxy, each once; no addresses."""
    import ipaddress

    from requests.utils import get_environ_proxies, select_proxy

    found: dict[str, None] = {}
    for url in urls:
        try:
            host = urlsplit(url).hostname
        except ValueError:
            continue
        if not host or select_proxy(url, get_environ_proxies(url)):
            continue
        try:
            ipaddress.ip_address(host)
        except ValueError:
            found[host] = None
    return list(found)
