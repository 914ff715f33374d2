"""Places requests on nodes and GPUs, as a scheduler does: in order of arrival, with backfill.

The first in the queue that does not fit has its nodes reserved for the time at which it will (ends are known here);
whoever came later may go first where that delays it by nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from .model import Gpu
from .workload import Request


@dataclass
class Pool:
    """Nodes of one scheduler and one model: which of their GPUs are free, and when those that are held fall free."""

    nodes: tuple[str, ...]
    per_node: int
    _free: dict[str, set[int]] = field(init=False)
    _held: list[tuple[float, tuple[Gpu, ...]]] = field(init=False, default_factory=list)
    _queue: list[Request] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self._free = {node: set(range(self.per_node)) for node in self.nodes}

    def place(self, requests: Iterable[Request], until: float) -> list[tuple[Request, float, tuple[Gpu, ...]]]:
        """Those that begin before `until`, with their beginning and their GPUs."""
        coming = sorted(requests, key=lambda one: one.at)
        placed: list[tuple[Request, float, tuple[Gpu, ...]]] = []
        while coming or self._queue:
            arrival = coming[0].at if coming else float("inf")
            end = min((end for end, _ in self._held), default=float("inf"))
            now = min(arrival, end)
            if now >= until:
                break
            while coming and coming[0].at <= now:
                self._queue.append(coming.pop(0))
            self._release(now)
            placed += self._start(now)
        return placed

    def _release(self, now: float) -> None:
        for _, gpus in (one for one in self._held if one[0] <= now):
            for node, gpu in gpus:
                self._free[node].add(gpu)
        self._held = [one for one in self._held if one[0] > now]

    def _start(self, now: float) -> list[tuple[Request, float, tuple[Gpu, ...]]]:
        started, waiting = [], []
        reserved: set[str] | None = None
        begins = float("inf")
        for request in self._queue:
            ends = now + request.seconds
            allowed = [node for node in self.nodes if not reserved or ends <= begins or node not in reserved]
            gpus = self._fit(request.gpus, allowed, self._free)
            if gpus is None:
                waiting.append(request)
                if reserved is None:
                    reserved, begins = self._reserve(request)
                continue
            for node, gpu in gpus:
                self._free[node].discard(gpu)
            self._held.append((ends, gpus))
            started.append((request, now, gpus))
        self._queue = waiting
        return started

    def _reserve(self, request: Request) -> tuple[set[str], float]:
        """On which nodes a request will fit, and when: as soon as enough of those that run have ended."""
        free = {node: set(gpus) for node, gpus in self._free.items()}
        for end, gpus in sorted(self._held):
            for node, gpu in gpus:
                free[node].add(gpu)
            found = self._fit(request.gpus, self.nodes, free)
            if found is not None:
                return {node for node, _ in found}, end
        raise ValueError(f"{request.gpus} GPUs fit on no node of {len(self.nodes)} with {self.per_node} each")

    def _fit(self, gpus: int, nodes: Iterable[str], free: dict[str, set[int]]) -> tuple[Gpu, ...] | None:
        """On the node that it fills best; whole nodes where it needs several."""
        if gpus > self.per_node:
            whole = [node for node in nodes if len(free[node]) == self.per_node]
            count = -(-gpus // self.per_node)
            if len(whole) < count:
                return None
            each = gpus // count
            return tuple((node, gpu) for node in whole[:count] for gpu in range(each))
        fitting = [node for node in nodes if len(free[node]) >= gpus]
        if not fitting:
            return None
        best = min(fitting, key=lambda node: len(free[node]))
        return tuple((best, gpu) for gpu in sorted(free[best])[:gpus])
