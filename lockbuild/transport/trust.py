"""TLS: whom to trust, and with which certificate to present ourselves to whom."""

from __future__ import annotations

import os
import ssl
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from lockbuild.config import Config
from lockbuild.config.credentials import Credentials
from lockbuild.config.urls import Origin, origin
from lockbuild.errors import UsageError


def trusted_bundle(environ: Mapping[str, str]) -> Path | None:
    """The file or directory of authorities that the environment names, as requests and OpenSSL look for it."""
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"):
        bundle = environ.get(name)
        if bundle and os.path.exists(bundle):  # noqa: PTH110  the value goes to OpenSSL as it is
            return Path(bundle)
    return None


class Trust:
    """The TLS contexts of a session. Thread-safe."""

    def __init__(self, config: Config, credentials: Credentials, environ: Mapping[str, str]) -> None:
        self._bundle = trusted_bundle(environ)
        self._extra: Sequence[str] = config.network.ca
        self._credentials = credentials
        self._certified = set(credentials.certified())
        self._contexts: dict[Origin | None, ssl.SSLContext] = {}
        self._lock = threading.Lock()

    def context(self, url: str | None = None) -> ssl.SSLContext:
        """For talking to the server (or proxy) of ``url``: with a client certificate where one is meant for it.

        UsageError where a file that the configuration names is none.
        """
        key = None if url is None else origin(urlsplit(url))
        if key not in self._certified:
            key = None
        with self._lock:
            if key not in self._contexts:
                self._contexts[key] = self._new(key)
            return self._contexts[key]

    def _new(self, key: Origin | None) -> ssl.SSLContext:
        context = self._trusting()
        for file in self._extra:
            try:
                context.load_verify_locations(cafile=file)
            except OSError as error:  # also ssl.SSLError
                raise _unusable(error, file, "network.ca", "a file of PEM certificates") from None
        chain = self._credentials.certificate(key) if key is not None else None
        if chain is not None:
            certificate, private = chain
            try:
                # Without a password OpenSSL would ask at the terminal, from whatever thread this is.
                context.load_cert_chain(certificate, private, password=lambda: "")
            except OSError as error:
                on = f"{certificate} and {private}" if private is not None else str(certificate)
                wanted = "a PEM certificate and its unencrypted key"
                raise _unusable(error, on, f"hosts: {key[1] if key else ''}", wanted) from None
        return context

    def _trusting(self) -> ssl.SSLContext:
        if self._bundle is not None:
            if self._bundle.is_dir():
                return ssl.create_default_context(capath=str(self._bundle))
            return ssl.create_default_context(cafile=str(self._bundle))
        import truststore

        return truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def _unusable(error: OSError, file: str, key: str, wanted: str) -> UsageError:
    reason = wanted if isinstance(error, ssl.SSLError) else error.strerror or type(error).__name__
    said = f"is not {reason}" if isinstance(error, ssl.SSLError) else f"cannot be read: {reason}"
    return UsageError(said, on=file, hint=f"correct {key} in lockbuild's config.toml")
