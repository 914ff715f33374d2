"""Asks a container as the kubelet does: whether it has started, is ready, is alive."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from .network import Network
from .spec import Probe


def succeeds(network: Network, address: str, probe: Probe) -> bool:
    """Whether a request is answered by 200 to 399 in time."""
    deadline = time.monotonic() + probe.timeout
    try:
        connection = http.client.HTTPConnection(address, probe.port, timeout=probe.timeout)
        connection.sock = network.connect(address, probe.port, probe.timeout)
        try:
            connection.request("GET", probe.path, headers={"User-Agent": "kube-probe/1.36", **probe.headers})
            status = connection.getresponse().status
        finally:
            connection.close()
    except (OSError, http.client.HTTPException):
        return False
    return 200 <= status < 400 and time.monotonic() <= deadline


@dataclass
class Asked:
    """What a probe's answers come to. `state` changes after so many of the same kind in turn."""

    probe: Probe
    state: bool
    _turn: int = field(default=0, init=False)

    def take(self, success: bool) -> bool:
        """Whether the state is another now."""
        self._turn = 0 if success == self.state else self._turn + 1
        needed = self.probe.successes if success else self.probe.failures
        if success == self.state or self._turn < needed:
            return False
        self.state, self._turn = success, 0
        return True


class Prober:
    """Carries out one container's probes until `stop`. `failed` is called when it has to be started again, `ready` when
    its readiness has become another.
    """

    def __init__(
        self,
        network: Network,
        address: str,
        probes: dict[str, Probe],
        failed: Callable[[str], None],
        ready: Callable[[bool], None],
    ) -> None:
        self._network, self._address, self._probes = network, address, probes
        self._failed, self._ready = failed, ready
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _run(self) -> None:
        if (startup := self._probes.get("startup")) and not self._started(startup):
            return
        if "readiness" not in self._probes:
            self._ready(True)
        asked = {
            kind: Asked(probe, state=kind == "liveness") for kind, probe in self._probes.items() if kind != "startup"
        }
        began = time.monotonic()
        due = {kind: began + one.probe.delay for kind, one in asked.items()}
        while due and not self._stopping.wait(max(0.0, min(due.values()) - time.monotonic())):
            kind = min(due, key=lambda one: due[one])
            due[kind] = time.monotonic() + asked[kind].probe.period
            changed = asked[kind].take(succeeds(self._network, self._address, asked[kind].probe))
            if self._stopping.is_set():
                return
            if changed and kind == "readiness":
                self._ready(asked[kind].state)
            elif changed:
                self._failed("liveness")
                return

    def _started(self, probe: Probe) -> bool:
        failures = 0
        if self._stopping.wait(probe.delay):
            return False
        while not succeeds(self._network, self._address, probe):
            failures += 1
            if failures >= probe.failures:
                self._failed("startup")
                return False
            if self._stopping.wait(probe.period):
                return False
        return not self._stopping.is_set()
