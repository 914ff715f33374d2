"""Which signal picks which cause, and where the evidence leaves a hesitation."""

import pytest

from dutycycle_alerter.incidents.model import Cause, Diagnosis
from dutycycle_alerter.model import HostUsage, JobEvidence
from dutycycle_alerter.rules import Outcome, judge
from dutycycle_alerter.rules.advice import ADVICE
from dutycycle_alerter.rules.diagnosis import diagnose
from tests.alerter.cases import SETTINGS, evidence
from tests.alerter.rules.test_rules import NO_GAPS, gaps

GIB = 2.0**30
HELD = {"processes": 1.0, "memory_used": 20 * GIB, "memory_total": 141 * GIB}


def diagnosis(rule: str, item: JobEvidence, time_scale: float = 1.0) -> Diagnosis:
    judgement = judge(item, SETTINGS)
    assert judgement.verdict(rule).outcome is Outcome.FIRING
    return diagnose(judgement, rule, SETTINGS, time_scale=time_scale)


@pytest.mark.parametrize(
    ("rule", "item", "causes"),
    [
        ("idle", evidence([0.0], gpu_fields={"processes": 0.0}), [Cause.NO_PROCESS]),
        ("idle", evidence([0.0], gpu_fields=HELD, host=HostUsage(cpu_cores=0.02)), [Cause.IDLE_NOTEBOOK]),
        ("idle", evidence([0.0], gpu_fields=HELD, host=HostUsage(cpu_cores=0.5)), [Cause.CPU_ONLY]),
        ("idle", evidence([0.0], gpu_fields=HELD), [Cause.IDLE_NOTEBOOK, Cause.CPU_ONLY]),
        ("idle", evidence([0.0]), [Cause.NO_PROCESS, Cause.IDLE_NOTEBOOK, Cause.CPU_ONLY]),
        ("partially_idle", evidence([0.9, 0.0], gpu_fields={"processes": 0.0}), [Cause.OVER_REQUEST]),
        ("partially_idle", evidence([0.9, 0.0], gpu_fields=HELD), [Cause.OVER_REQUEST, Cause.COMMUNICATION]),
        ("partially_idle", evidence([0.9, 0.0]), [Cause.OVER_REQUEST, Cause.COMMUNICATION]),
        # Data loading: I/O pressure, or CPU near its limit together with gaps; neither half of the latter alone.
        ("stalled", evidence([0.3], gpu_fields=NO_GAPS, host=HostUsage(io_pressure=0.2)), [Cause.DATA_LOADING]),
        ("stalled", evidence([0.3], gpu_fields=gaps(0.2), host=HostUsage(cpu_of_limit=0.9)), [Cause.DATA_LOADING]),
        (
            "stalled",
            evidence([0.3], gpu_fields=gaps(0.19), host=HostUsage(cpu_of_limit=0.9)),
            [Cause.DATA_LOADING, Cause.COMMUNICATION, Cause.SMALL_WORK],
        ),
        (
            "stalled",
            evidence([0.3], gpu_fields=gaps(0.5), host=HostUsage(cpu_of_limit=0.89)),
            [Cause.DATA_LOADING, Cause.COMMUNICATION, Cause.SMALL_WORK],
        ),
        # Waiting for a CPU is not waiting for data.
        (
            "stalled",
            evidence([0.3], gpu_fields=NO_GAPS, host=HostUsage(cpu_pressure=0.9, io_pressure=0.0)),
            [Cause.DATA_LOADING, Cause.COMMUNICATION, Cause.SMALL_WORK],
        ),
        ("uneven", evidence([0.9, 0.3]), [Cause.COMMUNICATION]),
        ("underused", evidence([0.12], gpu_fields=NO_GAPS), [Cause.SMALL_WORK]),
        ("underused", evidence([0.12], gpu_fields=gaps(0.15)), [Cause.SMALL_WORK, Cause.DATA_LOADING]),
        # Pauses are the cause only where the job would not be underused without them.
        ("underused", evidence([0.2], gpu_fields=NO_GAPS | {"gap_30to600_share": 0.2}), [Cause.CHECKPOINT]),
        (
            "underused",
            evidence([0.2], gpu_fields=NO_GAPS | {"gap_30to600_share": 0.19}),
            [Cause.SMALL_WORK, Cause.CHECKPOINT],
        ),
        (
            "underused",
            evidence([0.08], gpu_fields=NO_GAPS | {"gap_ge600_share": 0.11}),
            [Cause.SMALL_WORK, Cause.OVER_REQUEST, Cause.CHECKPOINT],
        ),
        (
            "underused",
            evidence([0.2], gpu_fields=NO_GAPS | {"gap_ge600_share": 0.6}),
            [Cause.OVER_REQUEST, Cause.CHECKPOINT],
        ),
        ("underused", evidence([0.12]), [Cause.SMALL_WORK, Cause.DATA_LOADING]),
    ],
)
def test_cause(rule: str, item: JobEvidence, causes: list[Cause]) -> None:
    found = diagnosis(rule, item)
    assert list(found.causes) == causes
    assert found.evidence
    assert found.advice
    assert bool(found.tell_apart) == (len(causes) > 1)
    # Each cause that it hesitates about has its advice and its sign.
    assert all(step in found.advice for cause in causes for step in ADVICE[cause])
    assert len(found.tell_apart.split("; ")) == max(1, len(causes))


def test_every_cause_has_advice() -> None:
    assert set(ADVICE) == set(Cause)
    assert len(Cause) == 12


@pytest.mark.parametrize(("time_scale", "span"), [(1.0, "30 min"), (30.0, "15 h")])
def test_the_evidence_names_the_window_as_people_count_it(time_scale: float, span: str) -> None:
    assert span in diagnosis("idle", evidence([0.0]), time_scale).evidence[0]


def test_a_stall_says_what_utilization_could_be() -> None:
    """Utilization ~ 1 - stall share: 30 % with half of the time in gaps is 60 % while it is fed."""
    assert "without them about 60 %" in " ".join(diagnosis("stalled", evidence([0.3], gpu_fields=gaps(0.5))).evidence)


def test_what_is_not_zero_does_not_read_as_zero() -> None:
    assert "under 0.1 %" in diagnosis("idle", evidence([0.0004])).evidence[0]


def test_commands_are_quoted_and_only_for_the_jobs_own_scheduler() -> None:
    hostile = evidence([0.0], gpu_fields={"processes": 0.0}, job_id="7; rm -rf /")
    commands = diagnosis("idle", hostile).commands
    assert "scancel '7; rm -rf /'" in commands
    pod = evidence([0.0], id="k8s/ns/p/u", scheduler="k8s", namespace="ns", pod="p $(reboot)", job_id="")
    commands = diagnosis("idle", pod).commands
    assert "kubectl delete pod -n ns 'p $(reboot)'" in commands
    assert not any("scancel" in command for command in commands)
    local = evidence([0.0], id="local/1-2", scheduler="local", job_id="")
    assert diagnosis("idle", local).commands[0] == "nvidia-smi"
