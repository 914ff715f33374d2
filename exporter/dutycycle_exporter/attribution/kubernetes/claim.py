"""That a pod holds a device: what the resolver is told."""

from __future__ import annotations

from dataclasses import dataclass

from dutycycle_exporter.model import Workload

from .devices import Key


@dataclass(frozen=True, slots=True)
class PodClaim:
    """A pod holds a device: `containers` of it do, sorted. `start` is in Unix seconds, None where it is not known.

    `uid` is "" where it is not known. `slurm`: the pod's labels say that slurmd runs in it.
    """

    device: Key
    workload: Workload
    start: float | None = None
    containers: tuple[str, ...] = ()
    uid: str = ""
    slurm: bool = False
