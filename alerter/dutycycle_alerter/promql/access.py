"""How to get in: the headers with their credentials, and what a TLS server is judged by."""

from __future__ import annotations

import ssl

from dutycycle_alerter.credentials import basic, secret, sendable, version
from dutycycle_alerter.errors import SourceError
from dutycycle_alerter.settings.prometheus import Prometheus


def headers(settings: Prometheus) -> tuple[dict[str, str], tuple[str, ...]]:
    """The request's headers, and what of them must never be shown. Files are read anew. Raises SourceError."""
    sent = {name: value.get_secret_value() for name, value in settings.headers.items()}
    secrets = list(sent.values())
    token = secret("bearer_token", settings.bearer_token, settings.bearer_token_file)
    if token is not None:
        sent["Authorization"] = f"Bearer {token}"
        secrets.append(token)
    password = secret("password", settings.password, settings.password_file)
    if password is not None:
        pair = basic(settings.username, password)
        sent["Authorization"] = f"Basic {pair}"
        secrets += [password, pair]
    return {name: sendable(value) for name, value in sent.items()}, tuple(secrets)


def tls_files(settings: Prometheus) -> tuple[object, ...]:
    """Changes whenever one of the TLS files does."""
    return tuple(version(path) for path in (settings.ca_file, settings.cert_file, settings.key_file))


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
    raise ValueError("its key is encrypted, and there is nobody to ask for the password")
