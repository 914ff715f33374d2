"""General steps and signs of each cause: for whom they are meant."""

from __future__ import annotations

import pytest

from dutycycle_alerter.incidents.model import Cause
from dutycycle_alerter.rules.advice import ADVICE, steps
from dutycycle_alerter.rules.commands import confirm
from tests.alerter.cases import evidence, job
from tests.alerter.rules.spinning import at_power, counters
from tests.alerter.rules.test_diagnosis import diagnosis


@pytest.mark.parametrize("cause", list(Cause))
def test_a_job_of_several_gpus_is_told_all_steps(cause: Cause) -> None:
    assert steps([cause], gpus=2) == list(ADVICE[cause])


@pytest.mark.parametrize(
    ("causes", "told"),
    [
        ([Cause.HANG], True),
        ([Cause.HANG, Cause.IDLE_NOTEBOOK], True),
        ([Cause.NO_PROCESS, Cause.HANG, Cause.IDLE_NOTEBOOK, Cause.CPU_ONLY], True),
        # On its other GPUs it works.
        ([Cause.OVER_REQUEST, Cause.HANG], False),
        # It may only be slow.
        ([Cause.HANG, Cause.SMALL_WORK], False),
        ([Cause.THROTTLING, Cause.HANG], False),
        ([Cause.DATA_LOADING, Cause.HANG], False),
    ],
)
def test_a_job_that_may_work_is_not_one_to_cancel(causes: list[Cause], told: bool) -> None:
    assert any(step.startswith("Cancel it") for step in steps(causes, gpus=8)) is told
    ends = [command for command in confirm(job(8, id="slurm/7", job_id="7"), tuple(causes)) if "scancel" in command]
    assert ends == (["scancel 7"] if told else [])


@pytest.mark.parametrize("cause", list(Cause))
def test_a_job_of_one_gpu_has_no_ranks(cause: Cause) -> None:
    """Nothing is compared, nothing communicates; what it may do all the same is left."""
    said = " ".join(steps([cause], gpus=1))
    for of_ranks in ("NCCL", "collective", "every rank", "Compare the ranks", "gradient buckets"):
        assert of_ranks not in said
    assert bool(said) is (cause is not Cause.COMMUNICATION)


def test_steps_are_in_the_order_of_the_causes() -> None:
    found = steps([Cause.DATA_LOADING, Cause.SMALL_WORK], gpus=8)
    assert found == [*ADVICE[Cause.DATA_LOADING], *ADVICE[Cause.SMALL_WORK]]


@pytest.mark.parametrize(("gpus", "told"), [(1, False), (2, True)])
def test_a_hang_of_one_gpu_is_no_collective(gpus: int, told: bool) -> None:
    item = evidence([1.0] * gpus, gpu_fields=at_power(75) | counters(sm=0.9, tensor=0.0, dram=0.0, link=0.0))
    found = diagnosis("hung", item)
    assert found.causes[0] is Cause.HANG
    assert any(step.startswith("Dump the stacks") for step in found.advice)
    assert any("flight recorder" in step for step in found.advice) is told


def test_the_flight_recorder_is_called_as_every_release_knows_it() -> None:
    """PyTorch reads the names of 2.5 still; it writes nothing before a collective times out, and by default where
    nobody looks, or nothing outlives the job.
    """
    (said,) = (step for step in ADVICE[Cause.HANG] if "flight recorder" in step)
    for name in (
        "TORCH_NCCL_TRACE_BUFFER_SIZE=2000",
        "TORCH_NCCL_DUMP_ON_TIMEOUT=1",
        "TORCH_NCCL_DEBUG_INFO_TEMP_FILE=",
        "TORCH_FR_BUFFER_SIZE",
        "TORCH_FR_DUMP_TEMP_FILE",
        "times out",
    ):
        assert name in said
