"""The official client as a transport, with the credentials that are valid now.

With `loading`, which reads them, the only module that imports `kubernetes`, and imported only where a cluster is
configured: it takes time and memory.
"""

from __future__ import annotations

import http.client
import ipaddress
import math
import re
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from threading import Event, Lock
from typing import Any
from urllib.parse import urlencode, urlsplit

import urllib3
from kubernetes.client import ApiClient, ApiException
from urllib3.exceptions import HTTPError, ProxyError
from urllib3.util.ssl_ import create_urllib3_context

from dutycycle_alerter import __version__
from dutycycle_alerter.bounded_http import bound
from dutycycle_alerter.errors import ConfigError
from dutycycle_alerter.kubernetes.failures import ApiError, Failure
from dutycycle_alerter.kubernetes.loading import Loaded, Loader, configuration_problem, where
from dutycycle_alerter.printable import printable
from dutycycle_alerter.settings.kubernetes import KubernetesCluster

_CONNECT = 10.0
_REASON = 300
_KEPT = 4
"""Connections kept, beside those that watches hold."""


_EARLY = 60.0
"""Seconds before their end from which on credentials are renewed, and between two attempts at it."""


@dataclass(frozen=True, slots=True)
class _Connection:
    client: ApiClient
    loaded: Loaded


class Access:
    """One API server. Thread-safe. Raises ConfigError where there is no configuration that can be used. A program for
    credentials that fails or hangs is no such thing: requests fail until it is better.
    """

    def __init__(self, settings: KubernetesCluster) -> None:
        self._settings = settings
        self._closed = Event()
        self._loader = Loader(settings, self._closed)
        self._lock = Lock()
        self._reading = Lock()
        """Held while the configuration is read; never together with the other."""
        self._tried = -math.inf
        try:
            self._connection = self._read()
        except ApiError as error:
            raise ConfigError(str(error)) from error
        self.shown = _shown(settings, self._connection.client.configuration.host)

    def request(
        self, path: str, query: Mapping[str, str], *, accept: str, timeout: float, compressed: bool = True
    ) -> urllib3.BaseHTTPResponse:
        """The answer, whatever its status, its body not yet read. Raises ApiError.

        `timeout` is in seconds, for its beginning, and for each wait within the body. Redirects are not followed.
        """
        headers = {"Accept": accept, "User-Agent": f"dutycycle/{__version__}"}
        if compressed:
            headers["Accept-Encoding"] = "gzip"
        self._renew_in_time()
        try:
            with self._lock:
                client = self._connection.client
                headers |= _credentials(self._connection.loaded)
        except ApiError as error:
            raise ApiError(f"{self.shown}: {error}", error.failure) from error
        url = f"{client.configuration.host}{path}{'?' if query else ''}{urlencode(query)}"
        begun = time.monotonic()
        try:
            answer = client.call_api("GET", url, headers, _request_timeout=(min(_CONNECT, timeout), timeout))
        except (ApiException, HTTPError, OSError, http.client.HTTPException, ValueError) as error:
            late = time.monotonic() - begun >= timeout
            raise self.failed(path, TimeoutError() if late else error, timeout) from error
        response: urllib3.BaseHTTPResponse = answer.response
        if time.monotonic() - begun >= timeout:
            # Headers that were cut off look complete.
            response.close()
            raise self.failed(path, TimeoutError(), timeout)
        return response

    def failed(self, path: str, error: Exception, timeout: float) -> ApiError:
        """What an error of the transport means; without anything that may hold a secret."""
        failure, reason = _plain(error, timeout)
        return ApiError(f"{self.shown}: {path}: {reason}", failure)

    def renew(self) -> None:
        """Read the configuration again: what was loaded is no longer accepted. Raises ApiError; the old one stays.
        Where another thread does it already, its result is waited for.
        """
        before = self._connection
        if not self._reading.acquire(timeout=self._settings.timeout):
            raise ApiError(f"{self.shown}: {where(self._settings)}: still being read", Failure.CREDENTIALS)
        try:
            if self._connection is not before:
                return
            self._tried = time.monotonic()
            try:
                connection = self._read()
                _check_somebody(connection.loaded)
            except ApiError as error:
                raise ApiError(f"{self.shown}: {error}", error.failure) from error
            with self._lock:
                self._connection = connection
        finally:
            self._reading.release()
        before.client.close()  # type: ignore[no-untyped-call]

    def note(self) -> str:
        """What is careless about it: who sees its token; empty where nothing is."""
        configuration = self._connection.client.configuration
        if not configuration.api_key or _is_this_machine(configuration.host):
            return ""
        if configuration.host.startswith("http://"):
            return "the token is sent without encryption: the server's URL should begin with https://"
        if not configuration.verify_ssl:
            return "the token is sent to whoever answers: the kubeconfig says insecure-skip-tls-verify"
        return ""

    def close(self) -> None:
        """Close every connection that is not in use. A program for credentials that still runs is killed."""
        self._closed.set()
        with self._lock:
            self._connection.client.close()  # type: ignore[no-untyped-call]

    def _read(self) -> _Connection:
        loaded = self._loader.load()
        return _Connection(_connected(self._settings, loaded), loaded)

    def _renew_in_time(self) -> None:
        ends = self._connection.loaded.ends
        if ends is None or time.time() < ends - _EARLY or time.monotonic() - self._tried < _EARLY:
            return
        # The old ones may still do; if not, the server says so.
        with suppress(ApiError):
            self.renew()


def _connected(settings: KubernetesCluster, loaded: Loaded) -> ApiClient:
    """A client of the official library. Raises ApiError."""
    configuration = loaded.configuration
    try:
        configuration.retries = False
        configuration.keep_alive = True
        configuration.connection_pool_maxsize = _KEPT + 2 * max(1, len(settings.namespaces))
        client = ApiClient(configuration)
        pool = client.rest_client.pool_manager
        bound(pool)
        pool.connection_pool_kw.setdefault("ssl_context", _judging(configuration))
    except Exception as error:  # noqa: BLE001
        # Whatever a certificate or an address that anybody wrote makes it raise.
        raise ApiError(f"{where(settings)}: {configuration_problem(error)}", Failure.CREDENTIALS) from None
    if not configuration.host.startswith(("http://", "https://")):
        raise ApiError(f"{where(settings)}: the server is no URL that begins with https://", Failure.CREDENTIALS)
    return client


def _check_somebody(loaded: Loaded) -> None:
    if loaded.missing:
        # As nobody we would be told that we may see nothing.
        raise ApiError(loaded.missing, Failure.CREDENTIALS)


def _credentials(loaded: Loaded) -> dict[str, str]:
    """The header that tells who we are; none where a certificate does. Raises ApiError."""
    _check_somebody(loaded)
    try:
        auth: dict[str, dict[str, object]] = loaded.configuration.auth_settings()  # type: ignore[assignment]
    except Exception as error:  # noqa: BLE001
        # Whatever hooks of the loader raise: files that are gone, programs that fail.
        raise ApiError(f"the token cannot be had: {configuration_problem(error)}", Failure.CREDENTIALS) from None
    headers = {}
    for one in auth.values():
        value = str(one["value"]).strip()
        if not re.fullmatch(r"[\x20-\x7e]+", value):
            raise ApiError("the token is none: it holds characters that no token has", Failure.CREDENTIALS)
        headers[str(one["key"])] = value
    return headers


def _shown(settings: KubernetesCluster, host: str) -> str:
    """What to call it: without credentials that a URL may hold."""
    parts = urlsplit(host)
    name = settings.cluster or settings.context or ("" if settings.kubeconfig is not None else "of this pod")
    return f"Kubernetes cluster {name}".rstrip() + f" ({parts.scheme}://{parts.netloc.rpartition('@')[2]})"


def _judging(configuration: Any) -> ssl.SSLContext:
    """What certificates are judged by: the authorities of many clusters (EKS, MicroK8s) lack extensions that Python
    asks for from 3.13 on. All else holds.
    """
    context = create_urllib3_context(cert_reqs=ssl.CERT_REQUIRED if configuration.verify_ssl else ssl.CERT_NONE)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not configuration.ssl_ca_cert and not configuration.ca_cert_data:
        context.load_default_certs()
    return context


def _is_this_machine(host: str) -> bool:
    name = urlsplit(host).hostname or ""
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name == "localhost"


def _plain(error: Exception, timeout: float) -> tuple[Failure, str]:
    """The kind of a failure, and what it was in plain words."""
    causes = list(_causes(error))
    through = "through the proxy: " if any(isinstance(one, ProxyError) for one in causes) else ""
    for cause in causes:
        failure, told = _meaning(cause, timeout)
        if failure is not None:
            return failure, through + told
    return Failure.CUT, f"{through}no complete answer ({type(error).__name__})"


def _meaning(cause: Any, timeout: float) -> tuple[Failure | None, str]:
    found: tuple[Failure | None, str] = None, ""
    match cause:
        case ssl.SSLCertVerificationError():
            found = Failure.TLS, f"its certificate is not trusted: {printable(cause.verify_message, _REASON)}"
        case TimeoutError() | urllib3.exceptions.TimeoutError():
            found = Failure.TIMEOUT, f"no answer within {round(timeout, 2):g} s"
        case socket.gaierror():
            found = Failure.UNREACHABLE, f"its name is not known ({cause.strerror})"
        case ssl.SSLError():
            found = Failure.TLS, f"no TLS connection: {printable(cause.reason or 'refused', _REASON)}"
        case ConnectionResetError() | BrokenPipeError() | http.client.HTTPException():
            found = Failure.CUT, "the connection was cut off"
        case OSError() if cause.strerror:
            found = Failure.UNREACHABLE, f"not reached: {cause.strerror}"
    return found


def _causes(error: BaseException) -> Iterator[Any]:
    """The error, and those beneath it, the deepest first: they say what it was."""
    found: list[BaseException] = []
    one: BaseException | None = error
    while one is not None and one not in found and len(found) < 10:
        found.append(one)
        inner = next((part for part in one.args if isinstance(part, BaseException)), None)
        one = one.__cause__ or inner or one.__context__
    yield from reversed(found)
