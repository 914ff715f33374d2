"""Containers of a pod as they come, and what they tell of why its GPUs do nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from dutycycle_alerter.kubernetes.model import Standing
from dutycycle_alerter.kubernetes.objects import seconds
from dutycycle_alerter.printable import printable

_LONGEST = 80
Quantities = dict[str, str | float]


class Resources(Struct, gc=False):
    """What a container requests. Of its claims only that there are some is of interest."""

    requests: Quantities | None = None
    limits: Quantities | None = None
    claims: list[msgspec.Raw] | None = None


class Container(Struct, gc=False):
    """One container of a pod's specification."""

    name: str = ""
    resources: Resources | None = None
    tty: bool | None = None
    stdin: bool | None = None
    restartPolicy: str | None = None  # noqa: N815 - here and below the API's names


class Waiting(Struct, gc=False):
    """Why a container does not run."""

    reason: str = ""


class Running(Struct, gc=False):
    """Since when it does."""

    startedAt: str | None = None  # noqa: N815


class Terminated(Struct, gc=False):
    """With what it ended."""

    reason: str = ""
    finishedAt: str | None = None  # noqa: N815


class State(Struct, gc=False):
    """One of the three."""

    waiting: Waiting | None = None
    running: Running | None = None
    terminated: Terminated | None = None


class ContainerStatus(Struct, gc=False):
    """What has become of one container."""

    name: str = ""
    state: State | None = None
    lastState: State | None = None  # noqa: N815
    restartCount: Annotated[int, Meta(ge=0, le=2**31)] = 0  # noqa: N815


def ended_early(
    containers: Sequence[Container],
    statuses: Sequence[ContainerStatus],
    policy: str,
    is_gpu: Callable[[str], bool],
) -> Standing | None:
    """A container with GPUs that has ended for good while another of the pod runs on; None while one with GPUs may do
    something still. `policy` is the pod's `restartPolicy`.
    """
    over = {one.name: one.state.terminated for one in statuses if one.state and one.state.terminated}
    if not over or not any(one.state and one.state.running for one in statuses):
        return None
    holding = [one for one in containers if _holds(one.resources, is_gpu)]
    if not holding or not all(one.name in over and _is_final(over[one.name], one, policy) for one in holding):
        return None
    # One that failed says more.
    name, last = min(((one.name, over[one.name]) for one in holding), key=lambda found: found[1].reason == "Completed")
    return _standing(name, last.reason, seconds(last.finishedAt))


def initializing(containers: Iterable[Container], statuses: Iterable[ContainerStatus]) -> Standing | None:
    """The init container that runs, and for which the others wait."""
    beside = {one.name for one in containers if one.restartPolicy == "Always"}
    for one in statuses:
        if one.state and one.state.running and one.name not in beside:
            return _standing(one.name, "", seconds(one.state.running.startedAt))
    return None


def out_of_memory(statuses: Iterable[ContainerStatus]) -> Standing | None:
    """A container whose last end was that it took more memory than it may."""
    for one in statuses:
        for state in (one.state, one.lastState):
            last = state.terminated if state else None
            if last is not None and last.reason == "OOMKilled":
                return _standing(one.name, last.reason, seconds(last.finishedAt))
    return None


def _holds(resources: Resources | None, is_gpu: Callable[[str], bool]) -> bool:
    if resources is None:
        return False
    asked = (resources.requests or {}) | (resources.limits or {})
    return bool(resources.claims) or any(is_gpu(name) and amount not in ("0", 0) for name, amount in asked.items())


def _is_final(last: Terminated, container: Container, policy: str) -> bool:
    own = container.restartPolicy or policy
    return own == "Never" or (own == "OnFailure" and last.reason == "Completed")


def _standing(name: str, reason: str, since: float | None) -> Standing:
    return Standing(printable(name, _LONGEST), printable(reason, _LONGEST), since)
