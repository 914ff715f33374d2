"""What Kubernetes says is wrong with the pods of a job, in words for its owner."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from dutycycle_alerter.kubernetes.model import Node, Pod
from dutycycle_alerter.printable import printable

_SHOWN = 3
_LONG_START = 600.0
"""Seconds for which an init container may run before that is worth a word."""
_WAITING = {
    "CrashLoopBackOff": "its container ends and is started again",
    "ImagePullBackOff": "its image cannot be pulled",
    "ErrImagePull": "its image cannot be pulled",
    "InvalidImageName": "its image has no possible name",
    "CreateContainerConfigError": "a ConfigMap or Secret that it needs is missing or wrong",
    "CreateContainerError": "its container cannot be made",
    "RunContainerError": "its container cannot be started",
    "Unschedulable": "no node has room for it, and the other pods may wait for it",
    "SchedulingGated": "it is held back, and the other pods may wait for it",
}


def troubles(pods: Iterable[Pod], nodes: Mapping[str, Node] | None, now: float) -> Iterator[str]:
    """One sentence for each thing that is wrong at the instant `now` (Unix seconds); nothing of pods that are over, but
    that they were evicted or took too much memory. `nodes` are by name, None where they are not known.
    """
    pods = sorted(pods, key=lambda pod: pod.name)
    alive = [pod for pod in pods if not pod.over]
    yield from _not_running(alive)
    yield from _without_work(alive)
    yield from _initializing(alive, now)
    yield from _out_of_memory(pods)
    yield from _on_dead_nodes(alive, nodes or {})
    if evicted := [pod for pod in pods if pod.over and pod.reason == "Evicted"]:
        yield f"Kubernetes evicted {_named(evicted)}."


def _not_running(pods: Iterable[Pod]) -> Iterator[str]:
    waiting: defaultdict[str, list[Pod]] = defaultdict(list)
    for pod in pods:
        if pod.waiting in _WAITING:
            waiting[pod.waiting].append(pod)
    for reason, some in sorted(waiting.items()):
        restarts = sum(pod.restarts for pod in some)
        again = f", {restarts} restarts so far" if restarts and reason == "CrashLoopBackOff" else ""
        yield f"Kubernetes says {reason} of {_named(some)}: {_WAITING[reason]}{again}."


def _without_work(pods: Iterable[Pod]) -> Iterator[str]:
    ended: defaultdict[tuple[str, str], list[Pod]] = defaultdict(list)
    for pod in pods:
        if pod.ended is not None:
            ended[pod.ended.container, pod.ended.reason].append(pod)
    for (container, reason), some in sorted(ended.items()):
        how = f" ({reason})" if reason else ""
        yield (
            f"The container {container} of {_named(some)}, for which the GPUs are, has ended{how}, and another one "
            "keeps the pod and its GPUs: a sidecar that does not end by itself."
        )


def _initializing(pods: Iterable[Pod], now: float) -> Iterator[str]:
    slow: defaultdict[str, list[Pod]] = defaultdict(list)
    for pod in pods:
        since = pod.starting.since if pod.starting is not None else None
        if pod.starting is not None and since is not None and now - since > _LONG_START:
            slow[pod.starting.container].append(pod)
    for container, some in sorted(slow.items()):
        yield (
            f"The init container {container} of {_named(some)} has run for more than 10 min, and the others wait for "
            "it: something is downloaded or waited for while the GPUs are held."
        )


def _out_of_memory(pods: Iterable[Pod]) -> Iterator[str]:
    killed: defaultdict[str, list[Pod]] = defaultdict(list)
    for pod in pods:
        if pod.killed is not None:
            killed[pod.killed.container].append(pod)
    for container, some in sorted(killed.items()):
        restarts = sum(pod.restarts for pod in some)
        again = f", {restarts} restarts so far" if restarts else ""
        yield (
            f"The container {container} of {_named(some)} was last killed because it took more memory than it may "
            f"(OOMKilled){again}."
        )


def _on_dead_nodes(pods: Iterable[Pod], nodes: Mapping[str, Node]) -> Iterator[str]:
    dead: defaultdict[str, list[Pod]] = defaultdict(list)
    for pod in pods:
        if (node := nodes.get(pod.node)) is not None and not node.ready:
            dead[node.name].append(pod)
    for name, some in sorted(dead.items()):
        yield f"The node {printable(name, 80)} of {_named(some)} is not ready."


def _named(pods: list[Pod]) -> str:
    names = [printable(pod.name, 80) for pod in pods[:_SHOWN]]
    more = len(pods) - len(names)
    return f"pod {names[0]}" if len(pods) == 1 else f"{len(pods)} pods ({', '.join(names)}{', ...' if more else ''})"
