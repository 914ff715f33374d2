"""A job as the labels of its series, or of a recording's rows, describe it, and as the configuration calls it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from dutycycle_alerter.model import Gpu, Job
from dutycycle_alerter.settings import JobMatch, KindMatch
from dutycycle_alerter.settings.matching import kind_of

_NONE: Mapping[str, str] = {}


def describe(
    owner: Mapping[str, str],
    *,
    kinds: Iterable[KindMatch],
    uneven_by_design: Iterable[JobMatch],
    job_id: str,
    gpus: tuple[Gpu, ...],
    start: float,
    start_told: bool = True,
    first_process: float | None = None,
    labels: Mapping[str, str] = _NONE,
) -> Job:
    """The job; `owner` are the labels that name it and its owner (what they lack is empty), `labels` those of its pods.

    `job_id` is its id with us, `owner["job_id"]` its scheduler's.
    """
    job = Job(
        id=job_id,
        gpus=gpus,
        start=start,
        first_process=first_process,
        cluster=owner.get("cluster", ""),
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
    kind, uneven = kind_of(job, kinds), any(match.matches_job(job) for match in uneven_by_design)
    return job if kind is None and not uneven else replace(job, kind=kind or job.kind, expect_uneven=uneven)
