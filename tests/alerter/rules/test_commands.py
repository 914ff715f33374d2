"""Commands that a job's owner is shown: each runs where the job runs, and none does more than it says."""

import shlex
from dataclasses import replace

import pytest

from dutycycle_alerter.incidents.model import Cause
from dutycycle_alerter.model import Gpu
from dutycycle_alerter.rules.commands import confirm
from tests.alerter.cases import evidence, job
from tests.alerter.rules.test_diagnosis import diagnosis


def test_commands_are_quoted_and_only_for_the_jobs_own_scheduler() -> None:
    hostile = evidence([0.0], gpu_fields={"processes": 0.0}, job_id="7; rm -rf /")
    commands = diagnosis("idle", hostile).commands
    assert "scancel '7; rm -rf /'" in commands
    assert all("'7; rm -rf /'" in command for command in commands if "--jobid" in command)
    pod = evidence([0.0], id="k8s/ns/p/u", scheduler="k8s", namespace="ns", pod="p $(reboot)", job_id="")
    commands = diagnosis("idle", pod).commands
    assert "kubectl delete -n ns 'pod/p $(reboot)'" in commands
    assert not any("scancel" in command for command in commands)
    local = evidence([0.0], id="local/1-2", scheduler="local", job_id="")
    assert diagnosis("idle", local).commands[0] == "nvidia-smi"


@pytest.mark.parametrize("cause", [Cause.SMALL_WORK, Cause.MEMORY_BOUND, Cause.DATA_LOADING, Cause.CHECKPOINT])
def test_what_a_profile_shows_comes_with_the_profilers(cause: Cause) -> None:
    commands = "\n".join(confirm(job(), (cause,)))
    for profiler in (
        "nsys profile --trace=cuda,nvtx,osrt",
        "torch.profiler.profile(",
        "tf.keras.callbacks.TensorBoard(",
    ):
        assert profiler in commands


def test_a_slurm_job_is_profiled_with_a_report_for_each_rank() -> None:
    (nsys,) = [c for c in confirm(job(), (Cause.SMALL_WORK,)) if "nsys" in c]
    assert nsys.startswith("srun nsys profile ")
    assert "--output=profile-%q{SLURM_JOB_ID}-%q{SLURM_PROCID} python train.py" in nsys
    (alone,) = [c for c in confirm(job(scheduler="local"), (Cause.SMALL_WORK,)) if "nsys" in c]
    assert alone.startswith("nsys profile ")


def test_what_is_profiled_goes_on_after_the_profile() -> None:
    """Nsight Systems ends what it started when the collection is over; PyTorch's schedule begins anew without end."""
    commands = confirm(job(), (Cause.SMALL_WORK,))
    assert all("--duration=60 --kill=none " in c for c in commands if "nsys" in c)
    assert [c for c in commands if "schedule(wait=10, warmup=5, active=10, repeat=1)" in c]


def test_the_stacks_of_a_hang_are_taken_on_every_node() -> None:
    """Whose each is can be seen: srun numbers the lines, and the first of each node has its name."""
    commands = confirm(job(8, nodes=2, id="slurm/7", job_id="7"), (Cause.HANG,))
    assert commands[0] == "srun --jobid=7 --overlap --label --nodes=2 --ntasks-per-node=1 nvidia-smi"
    (stacks,) = [shlex.split(c) for c in commands if "py-spy" in c]
    assert stacks[:6] == ["srun", "--jobid=7", "--overlap", "--label", "--nodes=2", "--ntasks-per-node=1"]
    # The shell on the node gets one word.
    assert stacks[6:8] == ["sh", "-c"]
    assert stacks[8].startswith("hostname; for pid in ")
    assert stacks[8].endswith('py-spy dump --pid "$pid"; done')
    assert stacks[9:] == ["|", "tee", "-a", "stacks.txt"]
    assert commands[-1] == "scancel 7"


def test_the_stacks_of_one_node_have_no_numbers() -> None:
    (stacks,) = [c for c in confirm(job(8, id="slurm/7", job_id="7"), (Cause.HANG,)) if "py-spy" in c]
    assert "--label" not in stacks
    assert "hostname" not in stacks


@pytest.mark.parametrize(("user", "of"), [("alice", "alice"), ("a b", "'a b'"), ("", '"$(id -u)"')])
def test_on_a_node_of_slurm_the_stacks_are_those_of_the_job_s_user_whoever_takes_them(user: str, of: str) -> None:
    item = replace(job(8, id="slurm/7", job_id="7"), user=user)
    (stacks,) = [shlex.split(c) for c in confirm(item, (Cause.HANG,)) if "py-spy" in c]
    assert any(f"pgrep -u {of} python" in word for word in stacks)


@pytest.mark.parametrize(("pods", "hint"), [(2, "  # once for each pod: this is the first"), (1, "")])
def test_the_stacks_of_pods_are_taken_in_each(pods: int, hint: str) -> None:
    gpus = tuple(Gpu(f"n{n}", "0", f"GPU-{n}", "", "H100", f"k8s/ml/train-{n % pods}/uid-{n % pods}") for n in range(4))
    item = replace(job(4, scheduler="k8s", job_id="", namespace="ml", pod="train-0"), gpus=gpus)
    (stacks,) = [c for c in confirm(item, (Cause.HANG,)) if "py-spy" in c]
    assert stacks.startswith("kubectl exec -n ml train-0 -- sh -c 'for pid in ")
    assert stacks.endswith(f"done' | tee -a stacks.txt{hint}")


def test_why_clocks_are_held_down_is_asked_of_the_driver() -> None:
    assert any("nvidia-smi -q -d PERFORMANCE" in c for c in confirm(job(), (Cause.THROTTLING,)))


def test_a_job_that_has_ended_is_asked_of_accounting_only() -> None:
    (command,) = confirm(job(job_id="7; rm"), (Cause.OVER_REQUEST,), ended=True)
    assert command.startswith("sacct --jobs='7; rm' ")
    assert confirm(job(scheduler="k8s"), (Cause.OVER_REQUEST,), ended=True) == ()
