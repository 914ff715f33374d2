"""Incidents of GPUs and nodes beside the faults that were played."""

from __future__ import annotations

import pytest

from benchmarks.box.model import Fault, SeenIncident
from benchmarks.box.scoring import figures, score
from benchmarks.box.scoring.devices import longest_free
from tests.benchmarks.box.scored import HOUR, incident, job, observed, scenario, truth


def _of_device(kind: str, at: float, gpu: str = "n0/0", **changes: object) -> SeenIncident:
    return incident(at, rule=kind, causes=("fault",), kind=kind, gpu=gpu, workload="", **changes)


FAULTS = {
    # fault, incidents -> expected, found, outcomes
    "a critical XID": (Fault(("n0", 0), HOUR, "xid", 79), [_of_device("gpu_fault", HOUR + 60)], "must", True, ["true"]),
    "a critical XID, told long after it": (
        Fault(("n0", 0), HOUR, "xid", 79),
        [_of_device("gpu_fault", 2 * HOUR)],
        "must",
        False,
        ["false"],
    ),
    "one of another GPU": (
        Fault(("n0", 0), HOUR, "xid", 79),
        [_of_device("gpu_fault", HOUR + 60, "n0/1")],
        "must",
        False,
        ["false"],
    ),
    "an application's XID": (
        Fault(("n0", 0), HOUR, "xid", 13),
        [_of_device("gpu_fault", HOUR + 60)],
        "no rule",
        False,
        ["false"],
    ),
    "a lost GPU, told of its node": (
        Fault(("n0", 0), HOUR, "lost"),
        [_of_device("gpu_fault", HOUR + 60, "n0")],
        "must",
        True,
        ["true"],
    ),
    "heat": (
        Fault(("n0", 0), HOUR, "thermal", 0.3, 3 * HOUR),
        [_of_device("throttled", HOUR + 960)],
        "must",
        True,
        ["true"],
    ),
    "a little heat": (Fault(("n0", 0), HOUR, "thermal", 0.05, 3 * HOUR), [], "may", False, []),
    "a leak on a free GPU": (
        Fault(("n1", 0), HOUR, "leaked", 2e9, 3 * HOUR),
        [_of_device("leaked_memory", HOUR + 960, "n1/0")],
        "must",
        True,
        ["true"],
    ),
    "a leak on a GPU that is held": (Fault(("n0", 0), HOUR, "leaked", 2e9, 3 * HOUR), [], "may", False, []),
    "power alone is information": (
        Fault(("n0", 0), 20 * HOUR, "xid", 13),
        [_of_device("throttled", HOUR, severity="info")],
        "no rule",
        False,
        ["unjudged"],
    ),
}


@pytest.mark.parametrize("case", FAULTS)
def test_faults_of_gpus_are_scored(case: str) -> None:
    fault, seen, expected, found, outcomes = FAULTS[case]
    held = job(start=0.0)
    result = score(scenario([held], [fault]), {1: truth(held)}, observed(seen))
    assert [(one.expected, one.found) for one in result.conditions] == [(expected, found)]
    assert [one.outcome for one in result.incidents] == outcomes


EXCUSED = {
    # fault, rule -> outcome
    "a lost GPU does nothing": (Fault(("n0", 1), 2 * HOUR, "lost"), "uneven", "excused"),
    "a lost GPU does not make others spin": (Fault(("n0", 1), 2 * HOUR, "lost"), "hung", "false"),
    "one that is held down is waited for": (
        Fault(("n0", 1), 2 * HOUR, "thermal", 0.3, 4 * HOUR),
        "stalled",
        "excused",
    ),
    "heat makes nobody idle": (Fault(("n0", 1), 2 * HOUR, "thermal", 0.3, 4 * HOUR), "idle", "false"),
    "heat that is over": (Fault(("n0", 1), HOUR, "thermal", 0.3, 1.2 * HOUR), "uneven", "false"),
    "an XID leaves the job as it is": (Fault(("n0", 1), 2 * HOUR, "xid", 79), "uneven", "false"),
    "another job's GPU": (Fault(("n1", 1), 2 * HOUR, "lost"), "uneven", "false"),
}


@pytest.mark.parametrize("case", EXCUSED)
def test_a_fault_excuses_only_what_is_told_under_a_rule_that_holds_because_of_it(case: str) -> None:
    fault, rule, outcome = EXCUSED[case]
    one = job()
    result = score(scenario([one], [fault]), {1: truth(one)}, observed([incident(3 * HOUR, rule=rule)]))
    assert [i.outcome for i in result.incidents] == [outcome]
    assert [s.outcome for s in result.standings] == [outcome]
    judged = figures.precision(figures.efficiency(result))
    assert judged.of == (outcome == "false")


def test_the_longest_time_in_which_a_gpu_is_free() -> None:
    held = [job(1, start=10.0, end=20.0), job(2, start=15.0, end=30.0), job(3, start=70.0, end=90.0)]
    assert longest_free(("n0", 0), 0, 100, held) == (30, 70)
    assert longest_free(("n0", 0), 12, 28, held) is None
    assert longest_free(("n1", 0), 5, 9, held) == (5, 9)
