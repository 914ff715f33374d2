"""What Kubernetes says is wrong with the pods of a job, in words for its owner."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from dutycycle_alerter.kubernetes.model import Pod
from dutycycle_alerter.printable import printable

_SHOWN = 3
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


def troubles(pods: Iterable[Pod]) -> Iterator[str]:
    """One sentence for each thing that is wrong now; nothing of pods that are over, but that they were evicted."""
    waiting: defaultdict[str, list[Pod]] = defaultdict(list)
    evicted = []
    for pod in pods:
        if pod.over:
            if pod.reason == "Evicted":
                evicted.append(pod)
        elif pod.waiting in _WAITING:
            waiting[pod.waiting].append(pod)
    for reason, some in sorted(waiting.items()):
        restarts = sum(pod.restarts for pod in some)
        again = f", {restarts} restarts so far" if restarts and reason == "CrashLoopBackOff" else ""
        yield f"Kubernetes says {reason} of {_named(some)}: {_WAITING[reason]}{again}."
    if evicted:
        yield f"Kubernetes evicted {_named(evicted)}."


def _named(pods: list[Pod]) -> str:
    names = [printable(pod.name, 80) for pod in sorted(pods, key=lambda pod: pod.name)[:_SHOWN]]
    more = len(pods) - len(names)
    return f"pod {names[0]}" if len(pods) == 1 else f"{len(pods)} pods ({', '.join(names)}{', ...' if more else ''})"
