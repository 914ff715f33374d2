"""Pods as they come, decoded into what is kept of those that hold or want GPUs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache

import msgspec
from msgspec import Raw, Struct

from dutycycle_alerter.kubernetes.containers import (
    Container,
    ContainerStatus,
    Quantities,
    Resources,
    ended_early,
    initializing,
    out_of_memory,
)
from dutycycle_alerter.kubernetes.model import Pod
from dutycycle_alerter.kubernetes.objects import (
    BROKEN,
    Identifier,
    MalformedError,
    Name,
    ObjectMeta,
    Seen,
    controller,
    seconds,
    texts,
)
from dutycycle_alerter.kubernetes.parts import is_part
from dutycycle_alerter.kubernetes.quantities import parse_quantity
from dutycycle_alerter.printable import printable
from dutycycle_alerter.settings.matching import matches_any

_REASON = 128
_STARTING = ("ContainerCreating", "PodInitializing")
"""Reasons for waiting of every pod that is about to run: another container's says more."""
_OVER = ("Succeeded", "Failed")


class _Claim(Struct, gc=False):
    name: Identifier


class _Spec(Struct, gc=False):
    containers: list[Container] | None = None
    initContainers: list[Container] | None = None  # noqa: N815
    overhead: Quantities | None = None
    resources: Resources | None = None
    resourceClaims: list[_Claim] | None = None  # noqa: N815 - here and below the API's names
    nodeName: Name = ""  # noqa: N815
    restartPolicy: str = ""  # noqa: N815


class _Condition(Struct, gc=False):
    type: str = ""
    status: str = ""
    reason: str = ""
    lastTransitionTime: str | None = None  # noqa: N815


class _Status(Struct, gc=False):
    phase: Name = ""
    reason: str = ""
    startTime: str | None = None  # noqa: N815
    conditions: list[_Condition] | None = None
    containerStatuses: list[ContainerStatus] | None = None  # noqa: N815
    initContainerStatuses: list[ContainerStatus] | None = None  # noqa: N815


class _Pod(Struct, gc=False):
    metadata: ObjectMeta
    spec: _Spec
    status: _Status = msgspec.field(default_factory=_Status)


_POD = msgspec.json.Decoder(_Pod)


def gpu_resources(patterns: str | tuple[str, ...]) -> Callable[[str], bool]:
    """Tells whether a resource is one of GPUs, by the configured patterns."""

    @lru_cache(4096)
    def is_gpu(name: str) -> bool:
        return matches_any(name, patterns)

    return is_gpu


class PodDecoder:
    """Decodes pods. `is_gpu` tells which resources are GPUs."""

    def __init__(self, is_gpu: Callable[[str], bool]) -> None:
        self._is_gpu = is_gpu

    def __call__(self, body: bytes | Raw) -> Seen[Pod]:
        """A pod; nothing is kept of one without GPUs and without claims. Raises MalformedError."""
        try:
            found = _POD.decode(body)
            asked = _requests(found.spec)
            gpus = math.ceil(sum(amount for name, amount in asked.items() if self._is_gpu(name)))
        except BROKEN as error:
            raise MalformedError(f"not a pod: {str(error)[:200]}") from None
        metadata, claims = found.metadata, tuple(claim.name for claim in found.spec.resourceClaims or ())
        kept = _pod(found, asked, gpus, claims, self._is_gpu) if gpus or claims else None
        return Seen(metadata.uid, metadata.name, metadata.resourceVersion, kept)


def _pod(
    found: _Pod, asked: Mapping[str, float], gpus: int, claims: tuple[str, ...], is_gpu: Callable[[str], bool]
) -> Pod:
    metadata, spec, status = found.metadata, found.spec, found.status
    containers = status.containerStatuses or []
    every = [*(status.initContainerStatuses or ()), *containers]
    over = status.phase in _OVER
    return Pod(
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        owner=controller(metadata),
        node=spec.nodeName,
        phase=status.phase,
        reason=printable(_reason(status, over=over), _REASON),
        waiting="" if over else printable(_waiting(status, every), _REASON),
        restarts=sum(one.restartCount for one in every),
        created=seconds(metadata.creationTimestamp),
        started=seconds(status.startTime),
        finished=_finished(status, every) if over else None,
        deleted=seconds(metadata.deletionTimestamp),
        gpus=gpus,
        parts=math.ceil(sum(amount for name, amount in asked.items() if is_gpu(name) and is_part(name))),
        claims=claims,
        cpus=asked.get("cpu"),
        memory=asked.get("memory"),
        attended=any(one.tty or one.stdin for one in spec.containers or ()),
        ended=None if over else ended_early(spec.containers or (), containers, spec.restartPolicy, is_gpu),
        starting=None if over else initializing(spec.initContainers or (), status.initContainerStatuses or ()),
        killed=out_of_memory(every),
        labels=texts(metadata.labels),
        annotations=texts(metadata.annotations),
    )


def _requests(spec: _Spec) -> dict[str, float]:
    """What a pod requests of each resource, as the scheduler reckons: whatever runs at once, at its highest.

    Init containers run one after the other before the others. Those that restart always stay, and run beside all that
    begin later.
    """
    asked: dict[str, float] = {}
    staying: dict[str, float] = {}
    peak: dict[str, float] = {}
    for one in spec.initContainers or ():
        wanted = _wanted(one.resources)
        if one.restartPolicy == "Always":
            _add(staying, wanted)
            _raise(peak, staying)
        else:
            _raise(peak, _sum(wanted, staying))
    for one in spec.containers or ():
        _add(asked, _wanted(one.resources))
    _add(asked, staying)
    _raise(asked, peak)
    asked |= _wanted(spec.resources)
    _add(asked, _numbers(spec.overhead))
    return asked


def _wanted(resources: Resources | None) -> dict[str, float]:
    """Requests; of what has only a limit, that."""
    if resources is None:
        return {}
    return _numbers(resources.limits) | _numbers(resources.requests)


def _numbers(quantities: Quantities | None) -> dict[str, float]:
    return {name: parse_quantity(text) for name, text in (quantities or {}).items()}


def _add(total: dict[str, float], more: Mapping[str, float]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0.0) + amount


def _sum(one: Mapping[str, float], other: Mapping[str, float]) -> dict[str, float]:
    total = dict(one)
    _add(total, other)
    return total


def _raise(highest: dict[str, float], other: Mapping[str, float]) -> None:
    for name, amount in other.items():
        highest[name] = max(highest.get(name, 0.0), amount)


def _reason(status: _Status, *, over: bool) -> str:
    """Why it is in its phase: its own word, what took it away, or what its container ended with."""
    if status.reason or not over:
        return status.reason
    for condition in status.conditions or ():
        if condition.type == "DisruptionTarget" and condition.status == "True" and condition.reason:
            return condition.reason
    ends = [one.state.terminated.reason for one in status.containerStatuses or () if one.state and one.state.terminated]
    return next((reason for reason in ends if reason and reason != "Completed"), "")


def _waiting(status: _Status, containers: Iterable[ContainerStatus]) -> str:
    """Why containers do not run: what is wrong before what is usual; else why no node was found."""
    reasons = [
        one.state.waiting.reason for one in containers if one.state is not None and one.state.waiting is not None
    ]
    odd = next((reason for reason in reasons if reason and reason not in _STARTING), "")
    if odd or any(reasons):
        return odd or next(filter(None, reasons))
    for condition in status.conditions or ():
        if condition.type == "PodScheduled" and condition.status == "False":
            return condition.reason
    return ""


def _finished(status: _Status, containers: Iterable[ContainerStatus]) -> float | None:
    """When the last container ended. A pod whose node was lost, or that never began, has only conditions to tell."""
    ended = [seconds(one.state.terminated.finishedAt) for one in containers if one.state and one.state.terminated]
    known = [time for time in ended if time is not None]
    if not known:
        told = [one for one in status.conditions or () if one.type in ("Ready", "DisruptionTarget")]
        known = [time for one in told if (time := seconds(one.lastTransitionTime)) is not None]
    return max(known, default=seconds(status.startTime))
