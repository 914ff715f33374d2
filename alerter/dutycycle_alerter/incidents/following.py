"""Which GPUs an open incident is about now: others of the job may do nothing by now, and pods move. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from dutycycle_alerter.incidents.model import Incident
from dutycycle_alerter.model import Gpu
from dutycycle_alerter.rules.verdict import Judgement, Outcome, Verdict


def followed(incident: Incident, judgement: Judgement) -> Judgement | None:
    """The judgement with the GPUs that the incident's rule is about from now on; None where they are those that it was
    about, or where it does not fire.

    A GPU joins by the rule's bound and leaves by that of its clearing: one that works about as much as the bound says
    would come and go at every pass, and labels of alerts and places in routes with it.
    """
    verdict = judgement.verdict(incident.rule)
    if verdict.outcome is not Outcome.FIRING:
        return None
    gpus = named(incident.gpus, verdict, judgement)
    if not gpus or _named(gpus) == _named(incident.gpus):
        return None
    verdicts = (replace(one, gpus=gpus) if one is verdict else one for one in judgement.verdicts)
    return replace(judgement, verdicts=tuple(verdicts))


def named(before: Iterable[Gpu], verdict: Verdict, judgement: Judgement) -> tuple[Gpu, ...]:
    """Return the GPUs that a rule which fires is about, given those that it was about."""
    known, joined, kept = set(before), set(verdict.gpus), set(verdict.nearly)
    return tuple(gpu for gpu in judgement.evidence.job.gpus if gpu in joined or (gpu in kept and gpu in known))


def _named(gpus: Iterable[Gpu]) -> set[tuple[Gpu, str]]:
    # The pod that holds a GPU is no part of which GPU it is.
    return {(gpu, gpu.workload) for gpu in gpus}
