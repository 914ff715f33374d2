"""Who may be served, and how: what the web configuration says, read again when its files change."""

from __future__ import annotations

import base64
import binascii
import logging
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dutycycle_exporter.errors import ConfigError
from dutycycle_exporter.web import config as web_config
from dutycycle_exporter.web.config import RateLimit, WebConfig
from dutycycle_exporter.web.passwords import Passwords

if TYPE_CHECKING:
    import ssl

log = logging.getLogger(__name__)

_RETRY = 10.0
"""Seconds between readings of what could not be used: a file that it names may come without its own changing."""

_Signature = tuple[tuple[int, int, int, int] | None, ...]


@dataclass(frozen=True, slots=True)
class Policy:
    """What holds for a request. `passwords` is None where everybody may come."""

    config: WebConfig
    context: ssl.SSLContext | None
    passwords: Passwords | None
    limiter: Limiter | None

    def admits(self, authorization: str) -> bool:
        """Whether the value of a request's Authorization header is enough. Raises BusyError."""
        if self.passwords is None:
            return True
        scheme, _, encoded = authorization.strip().partition(" ")
        if scheme.lower() != "basic":
            return False
        try:
            user, colon, password = base64.b64decode(encoded.strip(), validate=True).decode().partition(":")
        except (binascii.Error, ValueError):
            return False
        return bool(colon) and self.passwords.right(user, password)


class Limiter:
    """A token bucket over all requests: `burst` at once, then one in every `interval` seconds. Thread-safe."""

    def __init__(self, limit: RateLimit, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit = limit
        self._clock = clock
        self._tokens = float(limit.burst)
        self._at = clock()
        self._lock = threading.Lock()

    def allows(self) -> bool:
        """Whether one more request may be answered now."""
        with self._lock:
            now = self._clock()
            self._tokens = min(self._limit.burst, self._tokens + (now - self._at) / self._limit.interval)
            self._at = now
            if self._tokens < 1:
                return False
            self._tokens -= 1
            return True


class Access:
    """The policy in force. Thread-safe.

    Files that change are read again at the next connection. One that cannot be used changes nothing but the log: the
    policy before goes on, so that what is half-written, or empty for now, neither opens nor closes anything.
    """

    def __init__(self, path: Path | None = None) -> None:
        """Raises ConfigError where the file cannot be used."""
        self._path = path
        self._lock = threading.Lock()
        self._policy = Policy(WebConfig(), None, None, None)
        self._signature: _Signature = ()
        self._wrong = ""
        """What is wrong with the files as they are now."""
        self._retry_at = 0.0
        if path is not None:
            self.reload()

    def reload(self) -> tuple[str, ...]:
        """Read the files, whether they changed or not. Returns the sections of the web configuration that changed,
        without their values. Raises ConfigError, and the policy before stays in force.
        """
        if self._path is None:
            return ()
        with self._lock:
            return self._read(self._path)

    def policy(self) -> Policy:
        """What holds now."""
        if self._path is None:
            return self._policy
        said = None
        with self._lock:
            signature = _signature(self._path, self._policy.config)
            if signature != self._signature or (self._wrong and time.monotonic() >= self._retry_at):
                said = self._read_again(self._path, signature)
            policy = self._policy
        # Not under the lock: who does not read the log would keep all others waiting.
        if said is not None:
            log.log(*said)
        return policy

    def _read_again(self, path: Path, signature: _Signature) -> tuple[int, str] | None:
        """What there is to be logged: at which level, and what."""
        try:
            new = self._read(path)
        except ConfigError as error:
            wrong = str(error)
        except Exception as error:  # noqa: BLE001 - a defect of ours must not turn everybody away
            # Its kind alone: its text may quote the file, which has secrets.
            wrong = f"--web.config.file={path}: cannot be used: {type(error).__name__}"
        else:
            return logging.INFO, f"--web.config.file was read again; changed: {', '.join(new) or 'nothing'}"
        known = wrong == self._wrong
        self._signature, self._wrong = signature, wrong
        self._retry_at = time.monotonic() + _RETRY
        return None if known else (logging.ERROR, f"{wrong}; what held before goes on")

    def _read(self, path: Path) -> tuple[str, ...]:
        before, signature = self._policy.config, self._signature
        self._policy, self._signature = _read(path, self._policy)
        self._wrong = ""
        renewed = bool(signature) and signature[1:] != self._signature[1:]
        return web_config.changed(before, self._policy.config, renewed=renewed)

    def wrap(self, connection: socket.socket) -> ssl.SSLSocket | None:
        """The same connection for TLS, before its handshake; None where the web configuration has no TLS."""
        context = self.policy().context
        if context is None:
            return None
        return context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)

    def greet(self, connection: ssl.SSLSocket) -> None:
        """The handshake. Raises OSError where client and server do not agree, or the client may not come."""
        from dutycycle_exporter.web import tls  # noqa: PLC0415 - only where TLS is used

        connection.do_handshake()
        config = self.policy().config.tls
        allowed = config.client_allowed_sans if config is not None else frozenset()
        if allowed and not allowed & tls.names(connection):
            raise ConnectionRefusedError("the client's certificate has no name in client_allowed_sans")


def _read(path: Path, before: Policy) -> tuple[Policy, _Signature]:
    config = web_config.load(path, had_keys=before.config.has_keys)
    # Before the certificates are read: a change between the two is then seen the next time.
    signature = _signature(path, config)
    context = None
    if config.tls is not None:
        from dutycycle_exporter.web import tls  # noqa: PLC0415

        try:
            context = tls.make_context(config.tls)
        except ConfigError as error:
            raise ConfigError(f"--web.config.file={path}: {error}") from None
    passwords = Passwords(config.users) if config.users else None
    limiter = Limiter(config.rate_limit) if config.rate_limit else None
    if config.users == before.config.users:
        # With the verdicts that it keeps.
        passwords = before.passwords
    if config.rate_limit == before.config.rate_limit:
        limiter = before.limiter
    return Policy(config, context, passwords, limiter), signature


def _signature(path: Path, config: WebConfig) -> _Signature:
    """Differs when one of the files was changed or replaced."""
    return tuple(_stat(file) for file in (path, *(config.tls.files if config.tls else ())))


def _stat(path: Path) -> tuple[int, int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size
