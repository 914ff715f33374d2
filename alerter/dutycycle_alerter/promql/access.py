"""How to get in: credentials read where they are needed, and what a TLS server is judged by."""

from __future__ import annotations

import base64
import os
import ssl
import stat
from pathlib import Path

from pydantic import SecretStr

from dutycycle_alerter.errors import SourceError
from dutycycle_alerter.settings.prometheus import Prometheus

_MOST = 64 * 2**10


def headers(settings: Prometheus) -> tuple[dict[str, str], tuple[str, ...]]:
    """The request's headers, and what of them must never be shown. Files are read anew. Raises SourceError."""
    sent = {name: value.get_secret_value() for name, value in settings.headers.items()}
    secrets = list(sent.values())
    token = _secret("bearer_token", settings.bearer_token, settings.bearer_token_file)
    if token is not None:
        sent["Authorization"] = f"Bearer {token}"
        secrets.append(token)
    password = _secret("password", settings.password, settings.password_file)
    if password is not None:
        pair = base64.b64encode(f"{settings.username}:{password}".encode()).decode()
        sent["Authorization"] = f"Basic {pair}"
        secrets += [password, pair]
    # http.client knows Latin-1 alone, and would show what it cannot encode.
    return {name: value.encode().decode("latin-1") for name, value in sent.items()}, tuple(secrets)


def tls_files(settings: Prometheus) -> tuple[object, ...]:
    """Changes whenever one of the TLS files does."""
    return tuple(_version(path) for path in (settings.ca_file, settings.cert_file, settings.key_file))


def tls_context(settings: Prometheus) -> ssl.SSLContext | None:
    """None for plain HTTP. Raises SourceError naming the file that is at fault."""
    if not settings.url.startswith("https:"):
        return None
    key, path = "ca_file", settings.ca_file
    try:
        context = ssl.create_default_context(cafile=settings.ca_file)
        if settings.cert_file is not None:
            key, path = "cert_file", settings.cert_file
            context.load_cert_chain(settings.cert_file, settings.key_file, password=_no_password)
    except (OSError, ValueError) as error:
        raise SourceError(f"{key} {path}: not usable: {error}") from error
    if settings.insecure_skip_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _no_password() -> str:
    raise ValueError("its key is encrypted, and nobody is there to be asked for the password")


def _secret(key: str, given: SecretStr | None, path: Path | None) -> str | None:
    if given is not None:
        return given.get_secret_value()
    return None if path is None else _read(f"{key}_file", path)


def _read(key: str, path: Path) -> str:
    try:
        # Nobody may ever write into a pipe.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise SourceError(f"{key} {path}: not a file")
            content = os.read(descriptor, _MOST + 1)
        finally:
            os.close(descriptor)
    except (OSError, ValueError) as error:
        raise SourceError(f"{key} {path}: cannot be read: {error}") from error
    try:
        text = content.decode("utf-8").strip()
    except UnicodeDecodeError:
        raise SourceError(f"{key} {path}: not text") from None  # the error would show the content
    if not text or len(content) > _MOST or not text.isprintable():
        raise SourceError(f"{key} {path}: must hold the secret, on one line, and nothing else")
    return text


def _version(path: Path | None) -> object:
    if path is None:
        return None
    try:
        seen = path.stat()
    except OSError:
        return None
    return seen.st_ino, seen.st_size, seen.st_mtime_ns
