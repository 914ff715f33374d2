"""Reads the configuration by the official loader, which runs programs for credentials: bounded in time, and silent.

Where a program should say who we are and does not, the loader goes on as nobody; here that is told.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import ssl
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event, Thread, get_ident

import yaml
from kubernetes.client import Configuration
from kubernetes.config import ConfigException, load_incluster_config
from kubernetes.config.kube_config import KubeConfigLoader, KubeConfigMerger

from dutycycle_alerter.kubernetes.failures import ApiError, Failure
from dutycycle_alerter.printable import printable
from dutycycle_alerter.settings.kubernetes import KubernetesCluster

_REASON = 300
_LOOK = 0.05
_KILLED = 2.0
"""Seconds within which the loader goes on after the program that it waits for was killed."""
_TOLD = re.compile(r"(?:Invalid kube-config[^.]*\. )?((?:Expected|File does not exist:) .{1,200}?)(?: in |$)")
_SAID = re.compile(r"exec: process returned -?\d+|exec: [a-z ]+|\[Errno \d+\] [A-Za-z ]+")
"""What the loader says of a program itself; behind it stands what the program wrote, with its secrets."""
_NO_TOKENS = ("Bearer", "Bearer None")
_BY_PROGRAMS = ("exec", "auth-provider")


@dataclass(frozen=True, slots=True)
class Loaded:
    """A configuration. `missing` says why its user is nobody, where a program should have told who he is, and is else
    empty; `ends` is when his credentials end (Unix seconds), None where that is not said.
    """

    configuration: Configuration
    missing: str = ""
    ends: float | None = None


def where(settings: KubernetesCluster) -> str:
    """What is read, to people."""
    path = settings.kubeconfig
    return f"kubernetes.kubeconfig {path}" if path is not None else "the service account of this pod"


class Loader:
    """Reads one cluster's configuration, again and again. Belongs to who holds it: not thread-safe."""

    def __init__(self, settings: KubernetesCluster, closed: Event) -> None:
        self._settings = settings
        self._closed = closed
        self._reading: _Reading | None = None

    def load(self) -> Loaded:
        """What the kubeconfig, or the pod's service account, says now. Waits for the cluster's time-out at most, or
        until `closed`; a program that still runs then is killed. Raises ApiError.
        """
        timeout, shown = self._settings.timeout, where(self._settings)
        if self._reading is not None and self._reading.is_alive():
            raise ApiError(f"{shown}: still being read", Failure.CREDENTIALS)
        if self._closed.is_set():
            raise ApiError(f"{shown}: no longer read", Failure.CREDENTIALS)
        self._reading = reading = _Reading(self._settings)
        reading.start()
        deadline = time.monotonic() + timeout
        while reading.is_alive() and time.monotonic() < deadline and not self._closed.is_set():
            reading.join(_LOOK)
        late = reading.is_alive()
        deadline = time.monotonic() + _KILLED
        while reading.is_alive() and time.monotonic() < deadline:
            # Again: it may just be about to begin one.
            _kill_programs(reading.native_id)
            reading.join(_LOOK)
        if reading.error is not None:
            # Its texts may quote the file.
            raise ApiError(f"{shown}: {configuration_problem(reading.error)}", Failure.CREDENTIALS) from None
        if reading.loaded is None:
            raise ApiError(f"{shown}: not read within {timeout:g} s", Failure.CREDENTIALS)
        if late and reading.loaded.missing:
            return replace(reading.loaded, missing=f"the program for credentials did not end within {timeout:g} s")
        return reading.loaded


def configuration_problem(error: Exception) -> str:
    """What is wrong with it, without anything that may hold a secret."""
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


class _Reading(Thread):
    """One reading, in a thread of its own: nothing in it has a time-out."""

    def __init__(self, settings: KubernetesCluster) -> None:
        super().__init__(name=f"kubernetes-configuration-{settings.cluster}", daemon=True)
        self._settings = settings
        self.loaded: Loaded | None = None
        self.error: Exception | None = None

    def run(self) -> None:
        root, quiet = logging.getLogger(), _Quiet(get_ident())
        root.addFilter(quiet)
        try:
            self.loaded = _loaded(self._settings, quiet)
        except Exception as error:  # noqa: BLE001
            # The loader raises what its many parts raise, for a file that anybody wrote.
            self.error = error
        finally:
            root.removeFilter(quiet)


class _Quiet(logging.Filter):
    """Keeps what one thread logs at the root to itself: the loader repeats there what a program wrote."""

    def __init__(self, thread: int) -> None:
        super().__init__()
        self._thread = thread
        self.said = ""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.thread != self._thread:
            return True
        found = _SAID.match(record.getMessage())
        self.said = found[0].strip() if found else self.said
        return False


def _loaded(settings: KubernetesCluster, quiet: _Quiet) -> Loaded:
    configuration = Configuration()
    if settings.kubeconfig is None:
        load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
        return Loaded(configuration)
    path = settings.kubeconfig.expanduser()
    with path.open("rb"):
        # The loader leaves out files that it cannot find.
        pass
    config = KubeConfigMerger(str(path)).config  # type: ignore[no-untyped-call]
    if config is None:
        raise ConfigException
    loader = KubeConfigLoader(  # type: ignore[no-untyped-call]
        config_dict=config, active_context=settings.context or None, config_base_path=None
    )
    loader.load_and_set(configuration)  # type: ignore[no-untyped-call]
    # It would run the program again at any request, without a time-out.
    configuration.refresh_api_key_hook = None
    expiry = getattr(loader, "expiry", None)
    program = _program(config, loader.current_context)
    missing = ""
    if program and not _has_credentials(configuration):
        missing = f"no credentials by the {program} of its user" + (f": {quiet.said}" if quiet.said else "")
    return Loaded(configuration, missing, expiry.timestamp() if expiry is not None else None)


def _program(config: object, context: object) -> str:
    """What makes the credentials of the context's user; empty where they stand in the file."""
    name = context["context"].get("user")  # type: ignore[index]
    users = config.safe_get("users") if name else None  # type: ignore[attr-defined]
    found = next((one for one in users or () if one["name"] == name), None)
    user = found["user"] if found is not None else None
    return next((program for program in _BY_PROGRAMS if user and program in user), "")


def _has_credentials(configuration: Configuration) -> bool:
    token = str(configuration.api_key.get("BearerToken") or "").strip()
    return bool(configuration.cert_file or (token and token not in _NO_TOKENS))


def _kill_programs(thread: int | None) -> None:
    """Those that a thread of ours has begun, and theirs: they would hold its pipes open."""
    for process in _children(f"self/task/{thread}"):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(process, signal.SIGKILL)


def _children(task: str) -> list[int]:
    try:
        direct = [int(number) for number in Path(f"/proc/{task}/children").read_text().split()]
    except OSError:
        return []
    deeper = [found for one in direct for found in _children(f"{one}/task/{one}")]
    return [*direct, *deeper]
