"""The site's jobs fit onto its GPUs, and every rule that an hour can tell has one."""

from __future__ import annotations

from collections import Counter

from benchmarks.chaos.cases import INSTANCE_CASES, LOOKS, POD_CASES, SLURM_CASES
from benchmarks.chaos.site import POD_NODE
from tests.cluster.site import MINORS


def test_every_job_has_its_gpus() -> None:
    held: Counter[str] = Counter()
    for case in SLURM_CASES.values():
        for node in case.nodes:
            held[node] += case.gpus // len(case.nodes)
    assert max(held.values()) <= len(MINORS)
    assert {node for case in POD_CASES.values() for node in case.nodes} == {POD_NODE}


def test_every_rule_of_jobs_is_somebodys_to_expect() -> None:
    cases = [*SLURM_CASES.values(), *POD_CASES.values(), *(case for _, case in INSTANCE_CASES.values())]
    expected = {rule for case in cases for doing in case.course for rule in doing.wrong}
    assert expected == LOOKS.keys()
    # Of these it is the one that has to be told, and not only one that may be.
    first = {doing.wrong[0] for case in cases for doing in case.course if doing.wrong}
    assert first == LOOKS.keys() - {"underused"}
