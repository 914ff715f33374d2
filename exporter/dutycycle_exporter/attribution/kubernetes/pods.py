"""Asks the kubelet and the API server, each on a thread of its own, and says at any time what is known of pods.

Neither delays who asks: what is told is what they last answered. The kubelet is asked every few seconds (it rejects
tight loops); the API server when there is a pod to be named, and else now and then while pods hold devices: rarely, for
it is asked by every node of the cluster.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from dutycycle_exporter.attribution.errors import UnusableError
from dutycycle_exporter.model import GpuReading, Workload

from .api_server import ApiServer
from .claim import PodClaim
from .container_logs import ContainerLogs
from .devices import Key, Selection
from .holders import Holders
from .loop import Loop, Pause
from .messages import PodResources, decode_pods
from .pod_cgroups import PodGroups
from .records import Naming, parse_pods, parse_slices
from .sources import API, KUBELET, SLICES, SourceHealth, Sources

LARGEST_REPLY = 16 * 2**20
"""Bytes that are taken of the kubelet, and of the API server: some times what the largest node has to say. What is made
of them while they are read has to fit into the pod's memory as well.
"""

_METHOD = "/v1.PodResourcesLister/List"
_SLICE_VERSIONS = ("v1", "v1beta2", "v1beta1")
_SHORTEST_GAP, _LONGEST_GAP = 1.0, 60.0


@dataclass(frozen=True, slots=True)
class Pace:
    """All in seconds, of the wall's clock."""

    interval: float = 5.0
    """Between questions to the kubelet."""

    timeout: float = 5.0
    """For the kubelet's answer."""

    api_timeout: float = 10.0
    """For the API server's."""

    refresh: float = 30.0
    """Between questions that perhaps the API server alone can answer, and between looks at whether there are any."""

    calm: float = 300.0
    """Between questions to the API server when nothing has changed, up to twice as long: nodes must not keep step."""

    patience: float = 15.0
    """For the names of a pod that holds a device."""

    start_up: float = 300.0
    """For the first container of a pod that begins, whose images may have to be fetched."""

    stale: float = 600.0
    """Until the silence of both means that nothing is known."""


class KubernetesPods:
    """Thread-safe. `node` is this node's name in Kubernetes; without `api`, uids come from `logs` and from cgroups.

    `groups` are the pods' cgroups, None where these are not looked at. `expected` tells that there is a kubelet: where
    it is missing that is a failure.
    """

    def __init__(
        self,
        *,
        node: str,
        socket: Path,
        selection: Selection,
        api: ApiServer | None = None,
        naming: Naming | None = None,
        pace: Pace | None = None,
        groups: PodGroups | None = None,
        logs: ContainerLogs | None = None,
        expected: bool = False,
    ) -> None:
        self._node = node
        self._socket = socket
        self._api = api
        self._where = "" if api is None else api.url
        self._naming = naming or Naming()
        self._pace = pace or Pace()
        self._logs = logs
        self._holders = Holders(
            selection,
            api=api is not None,
            patience=self._pace.patience,
            start_up=self._pace.start_up,
            stale=self._pace.stale,
            groups=groups,
        )
        self._lock = threading.Lock()
        self._sources = Sources()
        self._pools: Mapping[tuple[str, str], str] = {}
        self._slices = 0
        self._slices_refused = False
        # A node of another scheduler's has no kubelet, and that is no failure.
        self._expected = expected or api is not None
        self._begun = time.monotonic()
        self._answered: float | None = None
        self._hopeless = False
        """Whether there is no socket that would be answered at, if one but waited."""
        self._kubelet_gap = self._pace.interval
        self._api_gap = _SHORTEST_GAP
        self._api_asked = self._api_due = float("-inf")
        self._loops = [Loop("kubelet", self._ask_kubelet)]
        if api is not None:
            self._loops.append(Loop("kubernetes-api", self._ask_api))

    def apply(self, selection: Selection, naming: Naming) -> None:
        """Look at other devices, and name pods otherwise, from the next answers on. Who holds what now still does."""
        with self._lock:
            self._holders.selection = selection
            self._naming = naming
            self._api_due = float("-inf")
        for loop in self._loops:
            loop.wake()

    def start(self) -> None:
        """Begins to ask."""
        for loop in self._loops:
            loop.start()

    def stop(self) -> None:
        """Ends. A question that is under way is left to its timeout."""
        for loop in self._loops:
            loop.stop()

    def allocations(
        self, gpus: Sequence[GpuReading], processes: Mapping[Key, Collection[str]], inner: Collection[str] = ()
    ) -> tuple[PodClaim, ...]:
        """Which pods hold the devices, sorted; never waits.

        `gpus` are a snapshot's readings, () while there are none: names such as `nvidia0` then mean what they meant.
        `processes` are the pod uids of the processes on each device, from their cgroups; `inner` those of them that lie
        in another pod.
        """
        with self._lock:
            claims, unknown = self._holders.claims(gpus, processes, self._pools, time.monotonic(), inner)
            if self._holders.asks():
                self._loops[0].wake()
            self._wake_api()
        self._sources.unusable(KUBELET, "unknown_device", unknown)
        return claims

    def workload_of(self, uid: str) -> Workload | None:
        """The workload of the pod whose cgroup a process is in; None while that is being found out, for some seconds.

        Ask after `allocations`. The answer does not change while it is asked for.
        """
        with self._lock:
            workload = self._holders.workload_of(uid, time.monotonic())
            self._wake_api()
        return workload

    def settling(self) -> bool:
        """Whether it is not yet known which pods held the devices when this began. Ask after `allocations`."""
        now = time.monotonic()
        with self._lock:
            if self._hopeless or now - self._begun >= self._pace.stale:
                return False
            if self._answered is None:
                return True
            # A node without any pod is given the time in which a kubelet that was just started tells of them.
            return self._holders.unsettled() and now - self._answered < 2 * self._pace.patience

    def labels(self) -> Mapping[str, tuple[tuple[str, str], ...]]:
        """The pod labels that are let through, by workload id."""
        with self._lock:
            return self._holders.labels()

    def take_failures(self) -> Mapping[tuple[str, str], int]:
        """What could not be used since this was last called, by (source, reason)."""
        return self._sources.take_failures()

    def health(self) -> Mapping[str, SourceHealth]:
        """Of each source that has been asked."""
        return self._sources.health()

    def _wake_api(self) -> None:
        """Of what it has been asked for already it is asked again when its time has come."""
        since = self._holders.unrecorded()
        if len(self._loops) > 1 and since is not None and since >= self._api_asked:
            self._loops[1].wake()

    def _ask_kubelet(self) -> Pause:
        began = time.monotonic()
        try:
            pods = self._list()
        except UnusableError as error:
            nobody = error.reason == "missing" and not self._expected
            self._hopeless = nobody or error.reason == "permission"
            if nobody:
                return Pause(self._pace.interval)
            self._sources.failed(KUBELET, error.reason, self._socket)
            # Who asks too often is told so, and asks less.
            exhausted = error.reason == "grpc_resource_exhausted"
            self._kubelet_gap = min(2 * self._kubelet_gap, _LONGEST_GAP) if exhausted else self._pace.interval
            return Pause(self._kubelet_gap)
        with self._lock:
            failures = self._holders.listed(pods, began, time.monotonic(), time.time())
            unnamed = self._holders.unnamed()
            self._answered = self._answered or time.monotonic()
            self._wake_api()
        self._name(unnamed)
        for reason, count in failures.items():
            self._sources.unusable(KUBELET, reason, count)
        self._sources.succeeded(KUBELET, time.monotonic() - began)
        self._expected, self._hopeless = True, False
        self._kubelet_gap = self._pace.interval
        least = min(_SHORTEST_GAP, self._pace.interval)
        return Pause(least, self._pace.interval - least)

    def _name(self, unnamed: bool) -> None:
        uids = self._logs.uids() if unnamed and self._logs is not None else None
        if uids is not None:
            with self._lock:
                self._holders.named(uids, time.monotonic())

    def _list(self) -> tuple[PodResources, ...]:
        try:
            self._socket.stat()
        except (FileNotFoundError, NotADirectoryError) as error:
            raise UnusableError("missing") from error
        except OSError:
            # The call will say why.
            pass
        from .call import call  # noqa: PLC0415 - h2 takes its memory only where there is a kubelet

        return decode_pods(call(self._socket, _METHOD, b"", timeout=self._pace.timeout, limit=LARGEST_REPLY))

    def _ask_api(self) -> Pause:
        began = time.monotonic()
        with self._lock:
            since = self._holders.unrecorded()
            due = self._holders.doubtful(began) or (len(self._holders) and began >= self._api_due)
            if since is None and not due:
                return Pause(0.0, self._pace.refresh)
            if since is not None and since >= self._api_asked:
                # A pod that has just come does not wait for as long as one that the API server does not know.
                self._api_gap = _SHORTEST_GAP
            self._api_asked = began
            unpublished = self._holders.unpublished()
        target = f"/api/v1/pods?fieldSelector=spec.nodeName%3D{quote(self._node, safe='')}&resourceVersion=0"
        try:
            records, bad = parse_pods(self._get(target), self._naming)
        except UnusableError as error:
            self._sources.failed(API, error.reason, self._where)
            return self._asked_in_vain(_LONGEST_GAP)
        with self._lock:
            self._holders.recorded(records, began)
            unrecorded = self._holders.unrecorded() is not None
            self._api_due = began + self._pace.calm * random.uniform(1.0, 2.0)  # noqa: S311 - no secret
        self._sources.unusable(API, "bad_pod", bad)
        self._sources.succeeded(API, time.monotonic() - began)
        if unpublished:
            self._ask_slices()
        if unrecorded:
            return self._asked_in_vain(self._pace.refresh)
        self._api_gap = _SHORTEST_GAP
        return Pause(_SHORTEST_GAP, self._pace.refresh)

    def _asked_in_vain(self, longest: float) -> Pause:
        """Ever longer, but for what comes meanwhile: that may wake the loop."""
        self._api_gap = min(2 * self._api_gap, longest)
        least = min(_SHORTEST_GAP, self._api_gap)
        return Pause(least, self._api_gap - least)

    def _ask_slices(self) -> None:
        """What DRA drivers publish. Clusters older than Kubernetes 1.34 have it under another version's path.

        Where that was not to be had, it is asked for soon again, but where it is not there, or refused twice in a row:
        a server that has just started refuses everybody for a moment.
        """
        selector = f"fieldSelector=spec.nodeName%3D{quote(self._node, safe='')}&resourceVersion=0"
        for version in range(self._slices, len(_SLICE_VERSIONS)):
            began = time.monotonic()
            try:
                path = f"/apis/resource.k8s.io/{_SLICE_VERSIONS[version]}/resourceslices?{selector}"
                pools = parse_slices(self._get(path))
            except UnusableError as error:
                if error.reason == "not_found" and version + 1 < len(_SLICE_VERSIONS):
                    continue
                self._sources.failed(SLICES, error.reason, self._where)
                refused = error.reason == "forbidden"
                if error.reason != "not_found" and not (refused and self._slices_refused):
                    with self._lock:
                        self._api_due = began
                self._slices_refused = refused
                return
            self._slices, self._slices_refused = version, False
            with self._lock:
                self._pools = pools
            self._sources.succeeded(SLICES, time.monotonic() - began)
            return

    def _get(self, target: str) -> bytearray:
        if self._api is None:
            raise UnusableError("unreachable")
        return self._api.get(target, timeout=self._pace.api_timeout, limit=LARGEST_REPLY)
