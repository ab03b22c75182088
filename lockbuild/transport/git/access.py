"""How git reaches a server: the same credentials, authorities and certificates that `Http` uses, as git's settings.

They are meant for the environment (``GIT_CONFIG_*``), never for arguments. git keeps headers and certificates when
it follows a redirect, so it follows none where there is one to keep.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote, urlsplit, urlunsplit

from lockbuild.config import Config
from lockbuild.config.credentials import Credential, Credentials
from lockbuild.config.urls import origin
from lockbuild.errors import UsageError, storage_error
from lockbuild.reading import read_regular
from lockbuild.transport.trust import trusted_bundle

_ANY_USER = "x-access-token"
"""What hosts of repositories take for a user name beside a token."""
_BUNDLES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem")


class GitAccess:
    """The settings for each URL. ``home`` is a directory for a bundle of authorities, made when needed."""

    def __init__(self, config: Config, environ: Mapping[str, str], home: Path) -> None:
        self._config = config
        self._environ = environ
        self._home = home
        self._credentials = Credentials(config, environ)

    def plain(self, url: str) -> str:
        """``url`` without user name and password, as it may stand among git's arguments."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https"):
            return url
        return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))

    def settings(self, url: str) -> dict[str, str]:
        """git's settings (``section.key`` -> value) for talking to the server of ``url``. They hold secrets.

        UsageError where a file that the configuration names cannot be used.
        """
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https"):
            return {}
        settings = self._authorities() if parts.scheme == "https" or self._config.network.ca else {}
        credential = self._credentials.of(url)
        if credential is not None:
            if credential.user is None:
                credential = Credential(_ANY_USER, credential.secret)
            settings["http.extraHeader"] = f"Authorization: {credential.header}"
        chain = self._credentials.certificate(origin(parts))
        if chain is not None:
            certificate, key = chain
            settings["http.sslCert"] = str(certificate)
            settings["http.sslKey"] = str(key or certificate)
            settings["http.sslCertPasswordProtected"] = "false"
        if credential is not None or chain is not None:
            settings["http.followRedirects"] = "false"
        return settings | self._proxy(url)

    def _proxy(self, url: str) -> dict[str, str]:
        """git takes the proxy from the environment by itself, but for what `[[hosts]]` has for it."""
        # Not from requests.utils: while another thread imports requests, that would have it half made there.
        from requests import utils

        proxy = utils.select_proxy(url, utils.get_environ_proxies(url))
        if proxy is None or "://" not in proxy:
            return {}
        parts = urlsplit(proxy)
        settings: dict[str, str] = {}
        credential = self._credentials.of(proxy)
        if credential is not None and "@" not in parts.netloc:
            user, secret = quote(credential.user or _ANY_USER, safe=""), quote(credential.secret, safe="")
            settings["http.proxy"] = urlunsplit(parts._replace(netloc=f"{user}:{secret}@{parts.netloc}"))
        chain = self._credentials.certificate(origin(parts))
        if chain is not None:
            certificate, key = chain
            settings |= {"http.proxySSLCert": str(certificate), "http.proxySSLKey": str(key or certificate)}
        return settings

    def hint(self, url: str) -> str:
        """What to do when the server wants to know who asks."""
        if urlsplit(url).scheme == "ssh":
            return "let ssh have a key for it without asking anybody: by ssh-agent, or in your ~/.ssh/config"
        return self._credentials.hint(url)

    def _authorities(self) -> dict[str, str]:
        bundle = trusted_bundle(self._environ)
        extra = self._config.network.ca
        if not extra:
            if bundle is None:
                return {}
            if bundle.is_dir():
                return {"http.sslCAPath": str(bundle)}
            return {"http.sslCAInfo": str(bundle), "http.proxySSLCAInfo": str(bundle)}
        settings = {"http.sslCAPath": str(bundle)} if bundle is not None and bundle.is_dir() else {}
        files = [str(bundle)] if bundle is not None and bundle.is_file() else []
        if bundle is None:
            usual = ssl.get_default_verify_paths()
            candidates = [place for place in (usual.cafile, *_BUNDLES) if place and Path(place).is_file()]
            files += candidates[:1]
        joined = str(self._joined([*files, *extra]))
        return {**settings, "http.sslCAInfo": joined, "http.proxySSLCAInfo": joined}

    def _joined(self, files: list[str]) -> Path:
        """One file with all of them: git takes no more than one."""
        from hashlib import sha256
        from tempfile import NamedTemporaryFile

        parts = []
        for file in files:
            try:
                parts.append(read_regular(Path(file)))
            except OSError as error:
                hint = "correct network.ca in lockbuild's config.toml"
                raise UsageError(f"cannot be read: {error.strerror}", on=file, hint=hint) from None
        data = b"\n".join(parts)
        path = self._home / f"authorities-{sha256(data).hexdigest()[:16]}.pem"
        try:
            if not path.is_file():
                self._home.mkdir(parents=True, exist_ok=True)
                with NamedTemporaryFile(dir=self._home, delete=False) as written:
                    written.write(data)
                Path(written.name).rename(path)
        except OSError as error:
            raise storage_error(error, "cannot keep authorities for git", on=str(path)) from error
        return path
