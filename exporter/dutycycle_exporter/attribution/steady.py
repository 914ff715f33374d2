"""Keeps allocations from flickering: one empty answer about processes does not end them. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from dutycycle_exporter.model import Allocation, Workload

MISSES = 2
"""Consecutive resolutions without a claim after which an allocation that only processes proved has ended."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A workload holds a GPU now. `by_file`: a prolog's file says so, whose absence is the end. `containers` are a
    pod's that have it.
    """

    device: str
    workload: Workload
    by_file: bool
    start: float | None = None
    first_process: float | None = None
    containers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Held:
    claim: Claim
    misses: int = 0


class SteadyAllocations:
    """The allocations of one resolution after another."""

    def __init__(self) -> None:
        self._held: dict[tuple[str, str], _Held] = {}

    def settle(self, claims: Iterable[Claim]) -> tuple[Allocation, ...]:
        """One allocation for each workload on each GPU, sorted; of claims there is one at most for each.

        `first_process` stays the earliest that was seen while the allocation lasts, and so does the `start` of one
        that only processes prove.
        """
        held: dict[tuple[str, str], _Held] = {}
        for claim in claims:
            key = claim.device, claim.workload.id
            before = self._held.get(key)
            held[key] = _Held(claim if before is None else _continued(before.claim, claim))
        for key, before in self._held.items():
            if key not in held and not before.claim.by_file and before.misses + 1 < MISSES:
                held[key] = replace(before, misses=before.misses + 1)
        self._held = held
        claimed = (one.claim for _, one in sorted(held.items(), key=lambda item: item[0]))
        return tuple(
            Allocation(claim.device, claim.workload, claim.start, claim.first_process, claim.containers)
            for claim in claimed
        )


def earliest(*times: float | None) -> float | None:
    """The least of the times that are known."""
    return min((time for time in times if time is not None), default=None)


def _continued(before: Claim, now: Claim) -> Claim:
    if now.by_file and before.by_file and now.start != before.start:
        # The job was requeued and has come back to this GPU.
        return now
    start = now.start if now.by_file and now.start is not None else earliest(before.start, now.start)
    return replace(now, start=start, first_process=earliest(before.first_process, now.first_process))
