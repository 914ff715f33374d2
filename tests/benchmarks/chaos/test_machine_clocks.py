"""What a clock that is set excuses."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.chaos.faults.machine_clocks import NodeClockBack, NodeClockForward
from benchmarks.chaos.promises.ledger import bounds

from .evidence import KILLED, clean


@pytest.mark.parametrize("kind", [NodeClockForward, NodeClockBack])
def test_while_a_node_s_clock_is_set_no_second_of_a_job_that_runs_on_may_be_missing(
    kind: type[NodeClockForward],
) -> None:
    record = clean()
    _, job = record.jobs
    [node] = KILLED.blinds
    stepped = kind(node).happened(KILLED.began, KILLED.ended, took=True)
    assert node in job.nodes
    assert bounds(replace(record, faults=(stepped,)), job) == bounds(replace(record, faults=()), job)
    assert bounds(replace(record, faults=(KILLED,)), job) != bounds(replace(record, faults=()), job)
