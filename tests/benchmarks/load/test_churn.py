"""Jobs come and go for as long as is asked, the same by the same seed, and never two on one GPU."""

from __future__ import annotations

from itertools import pairwise

from benchmarks.load.churn import KINDS, SHORTEST, jobs

DAY = 24 * 3600.0


def test_a_seed_makes_the_same_jobs() -> None:
    assert list(jobs(3, 8, DAY)) == list(jobs(3, 8, DAY))
    assert list(jobs(3, 8, DAY)) != list(jobs(4, 8, DAY))


def test_no_gpu_has_two_jobs_at_once() -> None:
    coming = list(jobs(1, 8, DAY))
    assert [job.start for job in coming] == sorted(job.start for job in coming)
    for gpu in range(8):
        here = [job for job in coming if gpu in job.gpus]
        assert len(here) > 10
        assert all(before.end < after.start for before, after in pairwise(here))


def test_a_day_has_all_kinds_in_both_schedulers() -> None:
    coming = list(jobs(1, 8, DAY))
    assert {(job.kind, job.in_pod) for job in coming} == {(kind, pod) for kind in KINDS for pod in (False, True)}
    assert all(job.end - job.start >= SHORTEST for job in coming)
    assert len({job.number for job in coming}) == len(coming)
