"""The incident that a judgement of a job begins: what is known of it, of its owner and of what it wasted so far."""

from __future__ import annotations

from dutycycle_alerter.incidents.model import Diagnosis, Incident, OpenRule, State
from dutycycle_alerter.incidents.open_rules import highest
from dutycycle_alerter.model import latest_workloads
from dutycycle_alerter.rules.diagnosis import waste
from dutycycle_alerter.rules.verdict import Judgement, Verdict


def opened(
    judgement: Judgement,
    verdict: Verdict,
    diagnosis: Diagnosis,
    rules: tuple[OpenRule, ...],
    *,
    at: float,
    since: float,
) -> Incident:
    """An open incident whose primary rule is that of `verdict`; `at` is when it opens, `since` when its condition
    began (Unix seconds). It did not begin before its job.
    """
    evidence, job = judgement.evidence, judgement.evidence.job
    of_job, energy = waste(judgement, verdict)
    wasted = {gpu.key: of_job[gpu.key] for gpu in verdict.gpus}
    return Incident(
        subject=job.id,
        rule=verdict.rule,
        severity=highest(rules),
        state=State.OPEN,
        started_at=max(job.start, since),
        opened_at=at,
        updated_at=evidence.at,
        known_at=evidence.at,
        diagnosis=diagnosis,
        gpus=verdict.gpus,
        rules=rules,
        wasted=sum(wasted.values()),
        waste_by_gpu=wasted,
        job_wasted=sum(of_job.values()),
        energy=energy,
        cluster=job.cluster,
        scheduler=job.scheduler,
        user=job.user,
        account=job.account,
        partition=job.partition,
        namespace=job.namespace,
        job_gpus=len(job.gpus) + evidence.left_out,
        workloads=latest_workloads((), job),
        figures=dict(verdict.figures),
    )
