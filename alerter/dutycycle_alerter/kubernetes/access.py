"""The official client: its configuration (kubeconfig, or the pod's service account) and its transport, nothing else.

The only module that imports `kubernetes`, and imported only where a cluster is configured: it takes time and memory.
"""

from __future__ import annotations

import http.client
import re
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import urlencode, urlsplit

import urllib3
import yaml
from kubernetes.client import ApiClient, ApiException, Configuration
from kubernetes.config import ConfigException, load_incluster_config, load_kube_config
from urllib3.exceptions import HTTPError, ProxyError

from dutycycle_alerter import __version__
from dutycycle_alerter.bounded_http import bound
from dutycycle_alerter.errors import ConfigError
from dutycycle_alerter.kubernetes.failures import ApiError, Failure
from dutycycle_alerter.printable import printable
from dutycycle_alerter.settings.kubernetes import KubernetesCluster

_CONNECT = 10.0
_REASON = 300
_KEPT = 4
"""Connections kept, beside those that watches hold."""


_TOLD = re.compile(r"(?:Invalid kube-config[^.]*\. )?((?:Expected|File does not exist:) .{1,200}?)(?: in |$)")


class Access:
    """One API server. Thread-safe. Raises ConfigError where there is no configuration that can be used."""

    def __init__(self, settings: KubernetesCluster) -> None:
        self._settings = settings
        self._lock = Lock()
        try:
            self._client = _connected(settings)
        except ApiError as error:
            raise ConfigError(str(error)) from error
        self.shown = _shown(settings, self._client.configuration.host)

    def request(
        self, path: str, query: Mapping[str, str], *, accept: str, timeout: float, compressed: bool = True
    ) -> urllib3.BaseHTTPResponse:
        """The answer, whatever its status, its body not yet read. Raises ApiError.

        `timeout` is in seconds, for its beginning, and for each wait within the body. Redirects are not followed.
        """
        headers = {"Accept": accept, "User-Agent": f"dutycycle/{__version__}"}
        if compressed:
            headers["Accept-Encoding"] = "gzip"
        try:
            with self._lock:
                client = self._client
                headers |= _credentials(client.configuration)
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
        """Read the configuration again: what was loaded is no longer accepted. Raises ApiError; the old one stays."""
        try:
            client = _connected(self._settings)
        except ApiError as error:
            raise ApiError(f"{self.shown}: {error}", error.failure) from error
        with self._lock:
            old, self._client = self._client, client
        old.close()  # type: ignore[no-untyped-call]

    def close(self) -> None:
        """Close every connection that is not in use."""
        with self._lock:
            self._client.close()  # type: ignore[no-untyped-call]


def _connected(settings: KubernetesCluster) -> ApiClient:
    """A client of the official library. Raises ApiError."""
    configuration = Configuration()
    path = settings.kubeconfig
    where = f"kubernetes.kubeconfig {path}" if path is not None else "the service account of this pod"
    try:
        if path is None:
            load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
        else:
            _check_readable(path.expanduser())
            load_kube_config(  # type: ignore[no-untyped-call]
                config_file=str(path.expanduser()),
                context=settings.context or None,
                client_configuration=configuration,
                persist_config=False,
            )
        configuration.retries = False
        configuration.keep_alive = True
        configuration.connection_pool_maxsize = _KEPT + 2 * max(1, len(settings.namespaces))
        client = ApiClient(configuration)
        bound(client.rest_client.pool_manager)
    except Exception as error:  # noqa: BLE001
        # The loader raises what its many parts raise, for a file that anybody wrote. Its texts may quote the file.
        raise ApiError(f"{where}: {_configuration_problem(error)}", Failure.CREDENTIALS) from None
    if not configuration.host.startswith(("http://", "https://")):
        raise ApiError(f"{where}: the server is no URL that begins with https://", Failure.CREDENTIALS)
    return client


def _check_readable(path: Path) -> None:
    # The loader leaves out files that it cannot find.
    with path.open("rb"):
        pass


def _configuration_problem(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return "a certificate or key in it cannot be used"
    if isinstance(error, OSError):
        return f"{error.strerror or 'cannot be read'}{f': {error.filename}' if error.filename else ''}"
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        return f"not YAML, in line {error.problem_mark.line + 1}"
    if isinstance(error, ConfigException):
        told = str(error)
        if "Service" in told:
            return f"{printable(told, _REASON)} Is this a pod? Elsewhere name a kubeconfig (kubernetes.kubeconfig)"
        # What stands after it is the part of the file, with its tokens.
        found = _TOLD.match(told)
        return printable(found[1], _REASON) if found else "not a kubeconfig that the official client can use"
    return f"not a kubeconfig that the official client can use ({type(error).__name__})"


def _credentials(configuration: Configuration) -> dict[str, str]:
    """The header that tells who we are; none where a certificate does. Raises ApiError."""
    try:
        auth: dict[str, dict[str, object]] = configuration.auth_settings()  # type: ignore[assignment]
    except Exception as error:  # noqa: BLE001
        # Whatever hooks of the loader raise: files that are gone, programs that fail.
        raise ApiError(f"the token cannot be had: {_configuration_problem(error)}", Failure.CREDENTIALS) from None
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
