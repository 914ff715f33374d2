"""One Kubernetes cluster, watched: pods that hold GPUs, their owners and the nodes, as a snapshot at any time."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from threading import Event, Lock
from types import MappingProxyType

from dutycycle_alerter.errors import SourceError
from dutycycle_alerter.kubernetes.client import Client, Transport
from dutycycle_alerter.kubernetes.fetching import Fetcher
from dutycycle_alerter.kubernetes.lookups import Lookups
from dutycycle_alerter.kubernetes.model import Owner, Pod, Snapshot
from dutycycle_alerter.kubernetes.nodes import NodeDecoder
from dutycycle_alerter.kubernetes.owners import OwnerFinder
from dutycycle_alerter.kubernetes.pace import Pace
from dutycycle_alerter.kubernetes.pods import PodDecoder, gpu_resources
from dutycycle_alerter.kubernetes.reflector import Reflector
from dutycycle_alerter.kubernetes.tables import NodeTable, PodTable
from dutycycle_alerter.settings.kubernetes import KubernetesCluster
from dutycycle_alerter.views import WatchCounts

REMEMBER = 3600.0
"""Seconds for which pods are remembered after their end, so that it can be told."""
RENEWAL = 600.0
"""Seconds after which what is written on owners is read again: people declare things of jobs that run."""
PER_SECOND = 20.0
"""Requests for single objects, at most."""
_DENIED_NODES = 600.0
_NODES_SILENT = 300.0
"""Seconds without a word of nodes after which what was known of them is not any more."""
_JOIN = 2.0

_PODS, _NODES = "PodList", "NodeList"


class Cluster:
    """Watches one cluster from `start` to `close`, in threads of its own. Raises ConfigError where there is no usable
    access: a kubeconfig that cannot be read, no pod around. A server that does not answer is no such thing.

    The time scale shortens how long ended pods are remembered, and the renewal of what is written on owners.
    """

    def __init__(
        self,
        settings: KubernetesCluster,
        *,
        time_scale: float = 1.0,
        pace: Pace | None = None,
        transport: Transport | None = None,
        per_second: float = PER_SECOND,
        remember: float = REMEMBER,
    ) -> None:
        if transport is None:
            # The official client: it takes time and memory to load.
            from dutycycle_alerter.kubernetes.access import Access  # noqa: PLC0415

            transport = Access(settings)
        pace = pace or Pace()
        self._stop = Event()
        self._client = Client(transport, settings.timeout)
        self._fetcher = Fetcher(self._client, _Paced(per_second, self._stop).wait)
        is_gpu = gpu_resources(settings.resources)
        decode = PodDecoder(is_gpu)
        selector = {"labelSelector": settings.label_selector} if settings.label_selector else {}
        self._lookups = Lookups(
            OwnerFinder(self._fetcher.fetch),
            self._pod,
            self._pods,
            self._tidy,
            self._stop,
            renewal=RENEWAL / time_scale,
            name=settings.cluster,
        )
        self._tables: list[PodTable] = []
        self._reflectors: list[Reflector] = []
        for namespace in settings.namespaces or ("",):
            table = PodTable(decode, self._lookups.want, remember / time_scale)
            where = f"/api/v1/namespaces/{namespace}/pods" if namespace else "/api/v1/pods"
            what = f"pods of {namespace}" if namespace else "pods"
            self._tables.append(table)
            self._reflectors.append(
                Reflector(self._client, where, selector, kind=_PODS, what=what, table=table, pace=pace)
            )
        self._nodes = NodeTable(NodeDecoder(is_gpu))
        self._node_reflector: Reflector | None = None
        if settings.nodes:
            self._node_reflector = Reflector(
                self._client,
                "/api/v1/nodes",
                {},
                kind=_NODES,
                what="nodes",
                table=self._nodes,
                pace=pace,
                denied_pause=_DENIED_NODES,
            )
        self._lock = Lock()
        self._merged: tuple[tuple[int, ...], Mapping[str, Pod], Mapping[str, Owner]] = ((), {}, {})

    def start(self) -> None:
        """Begin to list and to watch."""
        for reflector in self._every_reflector():
            reflector.start()
        self._lookups.start()

    def snapshot(self) -> Snapshot:
        """What is known now. From any thread; costs next to nothing where nothing has changed."""
        problem = next((found for one in self._reflectors if (found := one.problem())), "")
        pods, owners = self._views()
        # What was true before it was read is true of what was read: nothing is taken away in between.
        problem = problem or next((found for one in self._reflectors if (found := one.problem())), "")
        heard = [one.heard_at for one in self._reflectors]
        known = [at for at in heard if at is not None]
        read_at = min(known) if len(known) == len(heard) else None
        return Snapshot(
            pods=pods,
            owners=owners,
            nodes=None if self._nodes_silent() else self._nodes.nodes(),
            fresh=not problem,
            read_at=time.time() if not problem else read_at,
            error=problem,
            note="; ".join(filter(None, self._notes())),
        )

    def counters(self) -> WatchCounts:
        """What happened since the start."""
        every = self._every_reflector()
        failures: Counter[str] = Counter()
        for reflector in every:
            failures.update(dict(reflector.failures))
        if self._lookups.failures:
            failures["owner"] = self._lookups.failures
        silent = [reflector.silent_for() for reflector in self._reflectors]
        known = [seconds for seconds in silent if seconds is not None]
        return WatchCounts(
            events=sum(reflector.events for reflector in every),
            relists=sum(max(0, reflector.lists - 1) for reflector in every),
            malformed=sum(table.malformed for table in self._tables) + self._nodes.malformed,
            failures=dict(failures),
            silent=max(known) if len(known) == len(silent) else None,
            waiting=self._lookups.waiting(),
        )

    def wait_synced(self, timeout: float) -> bool:
        """Waits until all pods are known, and the owner of each was looked for; at most so many seconds."""
        return self._wait(lambda: not any(one.problem() for one in self._reflectors) and not self.waiting(), timeout)

    def waiting(self) -> int:
        """How many pods' owners are still to be found, of those that are not over."""
        pods, owners = self._views()
        return sum(not pod.over and uid not in owners for uid, pod in pods.items())

    def close(self) -> None:
        """End it, also where the server hangs: what still waits for an answer then ends with it."""
        self._stop.set()
        deadline = time.monotonic() + _JOIN
        for reflector in self._every_reflector():
            reflector.close(0.0)
        # Whoever waits for a program that gives credentials goes on then, and others' connections come back later.
        self._client.close()
        for reflector in self._every_reflector():
            reflector.close(max(0.0, deadline - time.monotonic()))
        self._lookups.close(max(0.0, deadline - time.monotonic()))
        self._client.close()

    def _wait(self, reached: Callable[[], bool], timeout: float) -> bool:
        deadline = time.monotonic() + timeout
        while not reached():
            if time.monotonic() > deadline or self._stop.wait(0.02):
                return False
        return True

    def _every_reflector(self) -> list[Reflector]:
        return [*self._reflectors, *((self._node_reflector,) if self._node_reflector is not None else ())]

    def _notes(self) -> list[str]:
        notes = [self._client.note(), self._fetcher.note(), self._lookups.problem()]
        nodes = self._node_reflector
        if nodes is not None and nodes.denied:
            notes.append("may not read nodes: grant list and watch, or set nodes to false")
        elif nodes is not None and (problem := nodes.problem()):
            notes.append(problem)
        if self._nodes_silent():
            notes.append("what was known of nodes is too old")
        malformed = sum(table.malformed for table in self._tables)
        if malformed:
            notes.append(f"{malformed} times a pod could not be read")
        return notes

    def _nodes_silent(self) -> bool:
        seconds = self._node_reflector.silent_for() if self._node_reflector is not None else None
        return seconds is not None and seconds > _NODES_SILENT

    def _views(self) -> tuple[Mapping[str, Pod], Mapping[str, Owner]]:
        """Pods and their owners; the same ones again where nothing has changed."""
        with self._lock:
            version = (*(table.version for table in self._tables), self._lookups.version)
            if version != self._merged[0]:
                pods = self._pods()
                owners = {uid: owner for uid, owner in self._lookups.owners().items() if uid in pods}
                self._merged = version, MappingProxyType(dict(pods)), MappingProxyType(owners)
            return self._merged[1], self._merged[2]

    def _pod(self, uid: str) -> Pod | None:
        return next((pod for table in self._tables if (pod := table.get(uid)) is not None), None)

    def _pods(self) -> Mapping[str, Pod]:
        found: dict[str, Pod] = {}
        for table in self._tables:
            found.update(table.pods())
        return found

    def _tidy(self) -> None:
        for table in self._tables:
            table.forget()


class _Paced:
    """Lets so many through a second."""

    def __init__(self, per_second: float, stop: Event) -> None:
        self._interval = 1.0 / per_second
        self._stop = stop
        self._next = 0.0

    def wait(self) -> None:
        """Until the next may go. Raises SourceError where all comes to an end. For one thread."""
        now = time.monotonic()
        if self._stop.wait(max(0.0, self._next - now)):
            raise SourceError("it is being ended")
        self._next = max(self._next, now) + self._interval
