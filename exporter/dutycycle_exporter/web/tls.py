"""Makes what the web configuration says of TLS into a context of the ssl module, the one place that knows it."""

from __future__ import annotations

import ipaddress
import os
import ssl
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from dutycycle_exporter.errors import ConfigError
from dutycycle_exporter.web.config import TlsConfig

_MOST_BYTES = 1024 * 1024
_CLIENTS = {"none": ssl.CERT_NONE, "optional": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
_VERSIONS = {
    "TLS10": ssl.TLSVersion.TLSv1,
    "TLS11": ssl.TLSVersion.TLSv1_1,
    "TLS12": ssl.TLSVersion.TLSv1_2,
    "TLS13": ssl.TLSVersion.TLSv1_3,
}


def make_context(config: TlsConfig) -> ssl.SSLContext:
    """A server's context, its files read now. Raises ConfigError that names the file; it never shows what is in it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSIONS[config.min_version]
    context.maximum_version = _VERSIONS[config.max_version]
    context.verify_mode = _CLIENTS[config.clients]
    # Python's own contexts have it set.
    context.options &= ~ssl.OP_CIPHER_SERVER_PREFERENCE
    if config.prefer_server_ciphers:
        context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE
    try:
        if config.ciphers:
            context.set_ciphers(":".join(config.ciphers))
        _choose_curves(context, config.curves)
    except ssl.SSLError as error:
        raise ConfigError(f"tls_server_config: this system's OpenSSL refuses it: {error.reason}") from None
    _load_certificate(context, config)
    if config.clients != "none":
        _load_authorities(context, config)
    return context


def names(connection: ssl.SSLSocket) -> frozenset[str]:
    """The alternative names in the client's verified certificate: DNS, IP (in its usual form), e-mail, URI."""
    certificate: Mapping[str, Any] = connection.getpeercert() or {}
    found = set()
    for kind, name in certificate.get("subjectAltName", ()):
        if kind in ("DNS", "email", "URI"):
            found.add(str(name))
        elif kind == "IP Address":
            found.add(str(ipaddress.ip_address(str(name))))
    return frozenset(found)


def _choose_curves(context: ssl.SSLContext, curves: tuple[str, ...]) -> None:
    if hasattr(context, "set_groups"):
        if curves:
            context.set_groups(":".join(curves))
    elif len(curves) == 1:
        context.set_ecdh_curve(curves[0])
    elif curves:
        raise ConfigError(
            "tls_server_config: curve_preferences: this Python can be held to one curve only; name one, or leave it out"
        )


def _load_certificate(context: ssl.SSLContext, config: TlsConfig) -> None:
    named = f"cert_file {config.cert_file or 'in cert'}, key_file {config.key_file or 'in key'}"
    with ExitStack() as stack:
        try:
            cert = stack.enter_context(_path(config.cert_file, config.cert))
            key = stack.enter_context(_path(config.key_file, config.key))
            # Without a password OpenSSL would ask for one at the terminal.
            context.load_cert_chain(cert, key, password="")
        except ssl.SSLError as error:
            reason = (error.reason or "not PEM, or the key has a password").replace("_", " ").lower()
            raise ConfigError(f"tls_server_config: {named}: not a certificate and its key: {reason}") from None
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else "the key has a password"
            raise ConfigError(f"tls_server_config: {named}: cannot be read: {why}") from None


def _load_authorities(context: ssl.SSLContext, config: TlsConfig) -> None:
    named = f"client_ca_file {config.client_ca_file}" if config.client_ca_file else "client_ca"
    try:
        content = (config.client_ca or "").encode()
        if config.client_ca_file is not None:
            with config.client_ca_file.open("rb") as file:
                content = file.read(_MOST_BYTES)
        # Python takes ASCII alone. Comments between the certificates, which OpenSSL passes over, are in any language.
        context.load_verify_locations(cadata=content.decode("ascii", errors="ignore"))
    except (ssl.SSLError, ValueError, TypeError):
        # ValueError where there is nothing to be read in it.
        raise ConfigError(f"tls_server_config: {named}: no certificate in PEM") from None
    except OSError as error:
        raise ConfigError(f"tls_server_config: {named}: cannot be read: {error.strerror}") from None


@contextmanager
def _path(file: Path | None, text: str | None) -> Iterator[str]:
    """A path to read from: OpenSSL takes nothing else. A text lies in memory meanwhile, never on a disk."""
    if file is not None:
        yield str(file)
        return
    descriptor = os.memfd_create("web-config", os.MFD_CLOEXEC)
    try:
        with open(descriptor, "wb", closefd=False) as memory:
            memory.write((text or "").encode())
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
