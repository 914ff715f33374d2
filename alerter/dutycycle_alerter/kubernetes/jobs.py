"""The evidence of one job of pods: what is known of it from exporters and from the API server."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from dutycycle_alerter.grouping import together
from dutycycle_alerter.kubernetes.kinds import expects_uneven, kind_of
from dutycycle_alerter.kubernetes.model import Node, Owner, Pod
from dutycycle_alerter.kubernetes.troubles import troubles
from dutycycle_alerter.kubernetes.users import user_of
from dutycycle_alerter.model import Job, JobEvidence, job_id
from dutycycle_alerter.settings import Judging, KubernetesCluster

UNSEEN = 300.0
"""Seconds, unscaled, within which an exporter shows a pod that has begun, and a pod is gone that is to be deleted."""
RETRY = 360.0
"""Seconds, unscaled, that Kubernetes waits at most until it tries a failed pod of a Job again."""
BETWEEN = 60.0
"""The same until the next pod of a job begins after one that did not fail."""


@dataclass(frozen=True, slots=True)
class Member:
    """A pod that an exporter shows, or showed, and what it knows of it."""

    item: JobEvidence
    pod: Pod


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What is the same for all jobs of a pass. `scale` is the time scale; `judging` is scaled. `nodes` are by name,
    None where they are not known.
    """

    settings: KubernetesCluster
    judging: Judging
    now: float
    scale: float
    nodes: Mapping[str, Node] | None


def member(item: JobEvidence, pod: Pod, settings: KubernetesCluster) -> Member:
    """The part, ended where the API server says so; not seen where exporters lost what is still there.

    A pod that lost the label by which pods are watched looks gone: then it is for its exporter to say.
    """
    may_be_hidden = bool(settings.label_selector) and pod.phase not in ("Succeeded", "Failed")
    if pod.over and not may_be_hidden:
        item = replace(item, ended=min(item.at, end_of(pod) or item.at))
    elif item.ended is not None and pod.deleted is None and pod.phase == "Running":
        item = replace(item, ended=None, visible=False)
    return Member(item, pod)


def job_of(owner: Owner, members: Sequence[Member], known: Sequence[Pod], around: Surroundings) -> JobEvidence:
    """All of a job. `members` are those of its pods that exporters show, `known` those that the API server does."""
    members = sorted(members, key=lambda one: (one.pod.namespace, one.pod.name))
    shown = {one.pod.uid for one in members}
    unseen = [pod for pod in known if pod.uid not in shown and _should_be_seen(pod, members, around)]
    young = [pod for pod in unseen if around.now - (pod.started or pod.created or 0.0) < UNSEEN / around.scale]
    members = [_let_go(one, around) for one in members]
    found = together(
        _described(owner, members, known, around),
        [one.item for one in members],
        around.judging,
        to_come=sum(max(1, pod.gpus) for pod in young),
    )
    if found.ended is None and len(unseen) > len(young):
        why = f"{len(unseen) - len(young)} of its pods run, and no exporter shows them"
        found = replace(found, visible=False, unseen=why)
    begun = _begun(found.job.start, known, around)
    found = replace(found, job=replace(found.job, start=begun))
    return found if owner.uid not in shown or len(members) > 1 else _by_itself(found)


def is_over(owner: Owner, known: Sequence[Pod], around: Surroundings) -> bool:
    """Whether a job of which no pod holds GPUs is over: none is left, and none is about to follow."""
    if any(not pod.over and not _never_gone(pod, around) for pod in known):
        return False
    last = max(known, key=end_of, default=None)
    return last is None or owner.kind == "Pod" or around.now - end_of(last) >= _until_the_next(last, around)


def end_of(pod: Pod) -> float:
    """When a pod ended; where nobody knows, not before it was made, 0 where not even that is known."""
    return pod.finished or pod.deleted or pod.created or 0.0


def _until_the_next(pod: Pod, around: Surroundings) -> float:
    return (RETRY if pod.phase == "Failed" else BETWEEN) / around.scale


def _begun(start: float, known: Sequence[Pod], around: Surroundings) -> float:
    """When the run of a job began whose oldest pod of now began at `start`: one pod after the other is one run. What
    was deleted and made anew is another.
    """
    finished = [pod for pod in known if pod.phase in ("Succeeded", "Failed") and pod.started is not None]
    for pod in sorted(finished, key=end_of, reverse=True):
        if pod.started is not None and pod.started < start <= end_of(pod) + _until_the_next(pod, around):
            start = pod.started
    return start


def _let_go(one: Member, around: Surroundings) -> Member:
    """A pod that a lost node keeps holds up nobody: nothing is seen of it, and it should be gone."""
    pod, item = one.pod, one.item
    if pod.deleted is None or item.visible or item.ended is not None or not _never_gone(pod, around):
        return one
    return Member(replace(item, ended=min(item.at, pod.deleted)), pod)


def _should_be_seen(pod: Pod, members: Sequence[Member], around: Surroundings) -> bool:
    """Whether an exporter should show a pod. A claim is for GPUs where those of its siblings are."""
    if pod.over or not pod.node or pod.phase != "Running":
        return False
    if _never_gone(pod, around):
        return False
    return pod.gpus > 0 or (bool(pod.claims) and any(one.pod.claims for one in members))


def _never_gone(pod: Pod, around: Surroundings) -> bool:
    """Whether it should be gone by now: on a node that was lost a pod never is."""
    return pod.deleted is not None and around.now - pod.deleted >= UNSEEN / around.scale


def _described(owner: Owner, members: Sequence[Member], known: Sequence[Pod], around: Surroundings) -> Job:
    first = members[0].item.job
    alive = [one.pod for one in members if not one.pod.over] or [one.pod for one in members]
    cpus, memory = [pod.cpus for pod in alive], [pod.memory for pod in alive]
    told = next((user for one in members if (user := one.item.job.user) not in ("", one.pod.namespace)), "")
    return replace(
        first,
        id=job_id(first.cluster, owner.workload),
        gpus=(),
        kind=kind_of([one.pod for one in members], owner),
        user=user_of(alive[0], owner, around.settings, told=told),
        namespace=owner.namespace,
        pod=alive[0].name,
        name=owner.name,
        owner=owner.kind,
        owner_group=owner.group,
        expect_uneven=any(one.item.job.expect_uneven for one in members) or expects_uneven(owner),
        labels={**_merged(pod.labels for pod in reversed(alive)), **first.labels, **owner.labels},
        cpus=_total(cpus),
        memory=_total(memory),
        troubles=tuple(troubles(known, around.nodes, around.now)),
    )


def _total(amounts: Sequence[float | None]) -> float | None:
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if len(known) == len(amounts) else None


def _by_itself(found: JobEvidence) -> JobEvidence:
    """A pod that is a job by itself need not be named at each of its GPUs."""
    return replace(found, job=replace(found.job, gpus=tuple(replace(gpu, workload="") for gpu in found.job.gpus)))


def _merged(labels: Iterable[Mapping[str, str]]) -> dict[str, str]:
    return {name: value for some in labels for name, value in some.items()}
