"""What operators are told of GPUs and nodes: what was seen, and commands that can be pasted."""

import shlex
from dataclasses import replace

import pytest

from dutycycle_alerter.incidents.model import Cause, Diagnosis, Severity
from dutycycle_alerter.model import GpuEvidence, NodeEvidence
from dutycycle_alerter.rules.device_diagnosis import XIDS, diagnose_gpu, diagnose_node
from dutycycle_alerter.rules.device_fault import judge_gpu_fault, judge_node_fault
from dutycycle_alerter.rules.device_memory import judge_leaked_memory
from dutycycle_alerter.rules.device_throttled import judge_throttled
from tests.alerter.cases import LATER, SETTINGS
from tests.alerter.devices import GIB, GPU, device


def fault(evidence: GpuEvidence, *schedulers: str) -> Diagnosis:
    verdict = judge_gpu_fault(evidence, SETTINGS)
    return diagnose_gpu(verdict, evidence.gpu, jobs=evidence.jobs, schedulers=schedulers)


def test_every_xid_that_opens_an_incident_by_default_is_explained() -> None:
    assert set(SETTINGS.rules.gpu_fault.xids) <= set(XIDS)


@pytest.mark.parametrize("xid", SETTINGS.rules.gpu_fault.xids)
def test_a_fault_names_its_xid_and_what_it_means(xid: int) -> None:
    found = fault(device(xids={xid: LATER}))
    assert found.causes == (Cause.FAULT,)
    assert found.evidence == (f"XID {xid}: {XIDS[xid]}", "no job holds the GPU")
    assert f"Reason='dutycycle: XID {xid}'" in found.commands[0]


def test_an_xid_that_only_the_configuration_knows_is_told_as_such() -> None:
    rules = SETTINGS.rules
    odd = SETTINGS.model_copy(
        update={"rules": rules.model_copy(update={"gpu_fault": rules.gpu_fault.model_copy(update={"xids": (31,)})})}
    )
    evidence = device(xids={31: LATER})
    found = diagnose_gpu(judge_gpu_fault(evidence, odd), evidence.gpu)
    assert found.evidence[0] == "XID 31: see NVIDIA’s catalogue of XIDs"


def test_what_the_driver_asks_for_is_said_in_words() -> None:
    found = fault(device(recovery_action=2.0, remap_failed=True, jobs=("slurm/1", "k8s/a/b/c")))
    assert found.evidence == (
        "the driver asks to reboot the node",
        "a failing row of memory could not be replaced",
        "the GPU is held by slurm/1, k8s/a/b/c",
    )
    assert any("Reboot" in step for step in found.advice)
    assert any("replaced" in step for step in found.advice)
    again = fault(device(recovery_action=7.0))
    assert (again.evidence[0], again.advice[1]) == ("the driver asks to reboot the system", found.advice[1])
    for action, step in ((3, "End what exchanges data"), (5, "Restart nvidia-imex"), (6, "Reboot the node: a reset")):
        assert fault(device(recovery_action=float(action))).advice[1].startswith(step)
    assert fault(device(recovery_action=9.0)).evidence[0] == "the driver asks for recovery action 9"


def test_of_many_jobs_the_first_are_named() -> None:
    found = fault(device(remap_failed=True, jobs=tuple(f"slurm/{n}" for n in range(12))))
    assert found.evidence[-1].endswith("slurm/6, slurm/7 and 4 more")


@pytest.mark.parametrize(
    ("schedulers", "starts"),
    [
        (("slurm",), ["scontrol"]),
        (("k8s",), ["kubectl"]),
        (("k8s", "slurm", "local"), ["scontrol", "kubectl"]),
        ((), ["scontrol", "kubectl"]),
    ],
)
def test_new_work_is_kept_off_by_the_scheduler_that_there_is(schedulers: tuple[str, ...], starts: list[str]) -> None:
    found = fault(device(remap_failed=True), *schedulers)
    drains = [command.split()[0] for command in found.commands if command.startswith(("scontrol", "kubectl"))]
    assert drains == starts


def test_a_gpu_that_is_off_the_bus_is_not_asked_about_itself() -> None:
    found = fault(device(xids={79: LATER}, visible=False))
    assert not any(GPU.uuid in command for command in found.commands)
    assert any("lspci" in command for command in found.commands)


def test_an_nvlink_error_is_looked_at_by_link() -> None:
    assert "nvidia-smi nvlink -e -i GPU-3" in fault(device(xids={74: LATER})).commands


def test_a_leak_says_how_much_and_how_to_find_who_holds_it() -> None:
    verdict = judge_leaked_memory(device(memory=9 * GIB), SETTINGS)
    found = diagnose_gpu(verdict, GPU, time_scale=2)
    assert found.evidence[0] == "at least 9.0 GiB in use over 30 min, where a free GPU of the model shows 0.5 GiB"
    assert "fuser -v /dev/nvidia*" in found.commands


@pytest.mark.parametrize(
    ("thermal", "power_cap", "severity", "sentences"),
    [
        (0.25, 0.5, Severity.WARNING, 3),
        (0.25, None, Severity.WARNING, 2),
        (0.0, 0.75, Severity.INFO, 3),
    ],
)
def test_throttling_says_by_what(thermal: float, power_cap: float | None, severity: Severity, sentences: int) -> None:
    verdict = judge_throttled(device(thermal=thermal, power_cap=power_cap), SETTINGS)
    found = diagnose_gpu(verdict, GPU, jobs=("slurm/1",))
    assert (verdict.severity, found.causes, len(found.evidence)) == (severity, (Cause.THROTTLING,), sentences)
    assert ("normal" in found.advice[0]) == (severity is Severity.INFO)
    assert found.commands == ("nvidia-smi -q -d TEMPERATURE,POWER,PERFORMANCE,CLOCK -i GPU-3",)


def test_a_node_that_lost_gpus_names_them() -> None:
    verdict = judge_node_fault(NodeEvidence("node0", LATER, 8, 7), SETTINGS)
    found = diagnose_node(verdict, "node0", [GPU], jobs=["slurm/1"])
    assert found.evidence == (
        "the PCI bus shows 8 GPUs, the driver 7",
        "no longer shown: GPU-3",
        "the node is held by slurm/1",
    )
    assert len(diagnose_node(verdict, "node0", []).evidence) == 2


@pytest.mark.parametrize("name", ["a; reboot", "$(id)", "a b", "'", "-x\n"])
def test_names_from_outside_stay_one_word_of_a_command(name: str) -> None:
    gpu = replace(GPU, node=name, uuid=name, index=name)
    evidence = device(gpu, xids={74: LATER}, memory=9 * GIB, thermal=1.0)
    node = NodeEvidence(name, LATER, 8, 7)
    commands = [
        *fault(evidence).commands,
        *diagnose_gpu(judge_leaked_memory(evidence, SETTINGS), gpu).commands,
        *diagnose_gpu(judge_throttled(evidence, SETTINGS), gpu).commands,
        *diagnose_node(judge_node_fault(node, SETTINGS), name, [gpu]).commands,
    ]
    told = [command for command in commands if name in command or shlex.quote(name) in command]
    assert len(told) >= 6
    for command in told:
        words = shlex.split(command, comments=True)
        assert any(word in (name, f"NodeName={name}") for word in words)
