"""GET requests to the Kubernetes API server with the pod's service account: http.client and ssl, nothing else."""

from __future__ import annotations

import http.client
import re
import socket
import ssl
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from dutycycle_exporter.attribution.errors import UnusableError
from dutycycle_exporter.errors import ExporterError

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_LONGEST_TOKEN = 1 << 16
_CHUNK = 1 << 16
_REASONS = {401: "unauthorized", 403: "forbidden", 404: "not_found", 410: "gone", 429: "throttled", 504: "timeout"}


@dataclass(frozen=True, slots=True)
class ApiServer:
    """Where it is and how to be believed. Without a token file no Authorization is sent (a local `kubectl proxy`).

    Token and certificate are read for each request: the kubelet renews the token every hour.
    """

    url: str
    token_file: Path | None = None
    ca_file: Path | None = None

    def __post_init__(self) -> None:
        try:
            parts = urlsplit(self.url)
            # What is no visible ASCII the HTTP client refuses at each request, with an error of another kind.
            named = parts.hostname is not None and re.fullmatch(r"[!-~]+", parts.hostname)
            usable = parts.scheme in ("http", "https") and named and (parts.port or 1)
        except ValueError:
            usable = False
        if not usable:
            raise ExporterError(
                f"the API server's address {self.url!r} is not one: write it like https://10.0.0.1:6443"
            )

    @classmethod
    def of_pod(cls, environ: Mapping[str, str], directory: Path = SERVICE_ACCOUNT) -> ApiServer | None:
        """The cluster's own, as a pod's environment tells; None outside a pod, or without a service account's token."""
        host, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", "443")
        if not host or not (directory / "token").exists():
            return None
        return cls(f"https://{f'[{host}]' if ':' in host else host}:{port}", directory / "token", directory / "ca.crt")

    def get(self, target: str, *, timeout: float, limit: int) -> bytearray:
        """The body of a 200, of at most `limit` bytes, within about `timeout` seconds for connecting and as much again.

        Raises UnusableError: credentials (a file cannot be used), unreachable, tls, timeout, closed, protocol,
        too_large, unauthorized, forbidden, not_found, gone, throttled, server_error.
        """
        connection = self._connection(timeout)
        late = threading.Event()
        try:
            connection.connect()
        except ssl.SSLError as error:
            raise UnusableError("tls") from error
        except TimeoutError as error:
            raise UnusableError("timeout") from error
        except (OSError, UnicodeError) as error:
            raise UnusableError("unreachable") from error
        # A timeout of the socket's is one for each read: a server that sends a byte now and then never meets it.
        watch = threading.Timer(timeout, _cut, (connection.sock, late))
        watch.daemon = True
        watch.start()
        try:
            return self._exchange(connection, target, limit)
        except (TimeoutError, OSError, http.client.HTTPException, ValueError) as error:
            if late.is_set() or isinstance(error, TimeoutError):
                raise UnusableError("timeout") from error
            closed = isinstance(error, ConnectionError | http.client.IncompleteRead | ssl.SSLError)
            raise UnusableError("closed" if closed else "protocol") from error
        finally:
            watch.cancel()
            connection.close()

    def _connection(self, timeout: float) -> http.client.HTTPConnection:
        parts = urlsplit(self.url)
        # Without one, the client would look for it in the last group of an IPv6 address.
        host, port = parts.hostname or "", parts.port or (80 if parts.scheme == "http" else 443)
        if parts.scheme == "http":
            return http.client.HTTPConnection(host, port, timeout=timeout)
        try:
            context = ssl.create_default_context(cafile=None if self.ca_file is None else str(self.ca_file))
        except (OSError, ValueError) as error:
            raise UnusableError("credentials") from error
        # Authorities of many clusters (EKS, MicroK8s) lack extensions that Python asks for from 3.13 on.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        return http.client.HTTPSConnection(host, port, timeout=timeout, context=context)

    def _exchange(self, connection: http.client.HTTPConnection, target: str, limit: int) -> bytearray:
        headers = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "dutycycle-exporter"}
        if self.token_file is not None:
            headers["Authorization"] = f"Bearer {_token(self.token_file)}"
        connection.request("GET", target, headers=headers)
        with connection.getresponse() as response:
            if response.status != http.HTTPStatus.OK:
                raise UnusableError(_reason(response.status))
            body = bytearray()
            while chunk := response.read(_CHUNK):
                body += chunk
                if len(body) > limit:
                    raise UnusableError("too_large")
            if response.length:
                raise UnusableError("closed")
        return body


def _cut(connection: socket.socket, late: threading.Event) -> None:
    late.set()
    try:
        # The plain socket's: a TLS socket's own drops what the reading thread is using.
        socket.socket.shutdown(connection, socket.SHUT_RDWR)
    except OSError:
        return


def _reason(status: int) -> str:
    if status in _REASONS:
        return _REASONS[status]
    return "server_error" if status >= 500 else "protocol"


def _token(path: Path) -> str:
    try:
        with path.open("rb") as file:
            token = file.read(_LONGEST_TOKEN).decode("ascii").strip()
    except (OSError, ValueError) as error:
        raise UnusableError("credentials") from error
    if not token or not token.isprintable():
        raise UnusableError("credentials")
    return token
