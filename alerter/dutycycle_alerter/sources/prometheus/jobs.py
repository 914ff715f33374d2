"""A job as the labels of its series describe it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dutycycle_alerter.model import Gpu, Job, job_id
from dutycycle_alerter.settings import Settings
from dutycycle_alerter.settings.matching import kind_of

_NONE: Mapping[str, str] = {}


def describe(
    settings: Settings,
    owner: Mapping[str, str],
    *,
    gpus: tuple[Gpu, ...],
    start: float,
    start_told: bool,
    first_process: float | None = None,
    labels: Mapping[str, str] = _NONE,
) -> Job:
    """The job; `owner` are the labels that name it and its owner, `labels` those of its pods."""
    job = Job(
        id=job_id(owner["cluster"], owner["workload"]),
        gpus=gpus,
        start=start,
        first_process=first_process,
        cluster=owner["cluster"],
        scheduler=owner.get("scheduler", ""),
        user=owner.get("user", ""),
        account=owner.get("account", ""),
        partition=owner.get("partition", ""),
        namespace=owner.get("namespace", ""),
        pod=owner.get("pod", ""),
        job_id=owner.get("job_id", ""),
        start_told=start_told,
        labels=labels,
    )
    kind = kind_of(job, settings.kinds)
    uneven = any(match.matches_job(job) for match in settings.uneven_by_design)
    if kind is None and not uneven:
        return job
    return replace(job, kind=kind or job.kind, expect_uneven=uneven)
