"""Why a rule on a GPU or a node fires, and what an operator does about it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from dutycycle_alerter.figures import count, gibibytes, percent
from dutycycle_alerter.incidents.model import Cause, Diagnosis
from dutycycle_alerter.model import Gpu
from dutycycle_alerter.rules import device_commands as commands
from dutycycle_alerter.rules.verdict import Verdict
from dutycycle_alerter.scale import format_duration

XIDS: dict[int, str] = {
    48: "an uncorrectable error in the GPU's memory",
    62: "the GPU's internal microcontroller halted",
    64: "a failing row or page of memory could not be recorded for replacement",
    74: "an error of an NVLink",
    79: "the GPU has fallen off the bus",
    94: "an uncorrectable error in the GPU's memory, contained to one program",
    95: "an uncorrectable error in the GPU's memory that could not be contained: any program on the GPU may be hit",
    119: "the GPU's firmware (GSP) did not answer in time",
    120: "the GPU's firmware (GSP) reported an error",
}
"""What NVIDIA's catalogue says of each XID (https://docs.nvidia.com/deploy/xid-errors), in few words."""

_MEMORY = frozenset({48, 64, 94, 95})
_FIRMWARE = frozenset({62, 119, 120})

ACTIONS: dict[int, str] = {
    1: "to reset the GPU",
    2: "to reboot the node",
    3: "to drain peer-to-peer traffic",
    4: "to drain the GPU and to reset it",
    5: "to recover the IMEX domain",
    6: "to reset the GPU's bus",
    7: "to reboot the system",
}
"""NVML's recovery actions (nvmlDeviceGpuRecoveryAction_t)."""

_FIRST_STEPS: dict[int, str] = {
    2: "Reboot the node; if the GPU does not come back, power-cycle the node.",
    3: "End what exchanges data with the GPU directly (over NVLink or PCIe); the driver then asks for what comes next.",
    5: "Restart nvidia-imex on the nodes of the GPU's domain; if that does not help, reboot the node.",
    6: "Reboot the node: a reset of the GPU alone leaves its bus as it is.",
    7: "Reboot the node; if the GPU does not come back, power-cycle the node.",
}
"""What to do where the driver does not ask for a reset of the GPU."""


_SHOWN_JOBS = 8


def diagnose_gpu(
    verdict: Verdict,
    gpu: Gpu,
    *,
    jobs: Sequence[str] = (),
    schedulers: Collection[str] = (),
    time_scale: float = 1.0,
) -> Diagnosis:
    """A rule that fires on a GPU. `jobs` hold it, `schedulers` are those of the cluster; `time_scale` turns wall
    seconds into shown ones.
    """
    if verdict.rule == "leaked_memory":
        return _leaked(verdict, gpu, schedulers, format_duration(verdict.window * time_scale))
    if verdict.rule == "throttled":
        return _throttled(verdict, gpu, jobs, format_duration(verdict.window * time_scale))
    return _fault(verdict, gpu, jobs, schedulers)


def diagnose_node(
    verdict: Verdict, node: str, lost: Sequence[Gpu], *, jobs: Sequence[str] = (), schedulers: Collection[str] = ()
) -> Diagnosis:
    """A node that lost GPUs; `lost` are those that were seen before and are not shown now."""
    expected, visible = (int(verdict.figures[name]) for name in ("expected", "visible"))
    evidence = [f"the PCI bus shows {count(expected, 'GPU')}, the driver {visible}"]
    if lost:
        evidence.append("no longer shown: " + ", ".join(gpu.uuid or gpu.index for gpu in lost[:_SHOWN_JOBS]))
    return Diagnosis(
        causes=(Cause.FAULT,),
        evidence=(*evidence, *_held(jobs, "the node")),
        advice=(
            "Keep new work off the node; what ran on the lost GPU has failed, what runs on the others may continue.",
            "Look for the XID that says why: most often the GPU has fallen off the bus (79).",
            "Reboot the node; if that does not bring the GPU back, power-cycle it.",
            "If it is lost again: check power cables, riser and slot, and have the GPU replaced.",
        ),
        commands=(
            *commands.keep_work_off(node, "dutycycle: GPU lost", schedulers),
            commands.count_on_bus(),
            commands.kernel_log(),
        ),
    )


def fault_signals(figures: Mapping[str, float]) -> list[str]:
    """What of a fault the figures tell, as fragments of a sentence."""
    said = []
    if "xid" in figures:
        xid = int(figures["xid"])
        said.append(f"XID {xid}: {XIDS.get(xid, 'see NVIDIA’s catalogue of XIDs')}")
    if action := int(figures.get("recovery_action", 0)):
        said.append(f"the driver asks {ACTIONS.get(action, f'for recovery action {action}')}")
    if figures.get("remap_failed"):
        said.append("a failing row of memory could not be replaced")
    return said


def _fault(verdict: Verdict, gpu: Gpu, jobs: Sequence[str], schedulers: Collection[str]) -> Diagnosis:
    xid = int(verdict.figures.get("xid", 0))
    said = fault_signals(verdict.figures)
    reason = f"dutycycle: XID {xid}" if xid else "dutycycle: GPU fault"
    sections = ("ECC", "ROW_REMAPPER", "PERFORMANCE") if xid in _MEMORY | {0} else ("PERFORMANCE", "TEMPERATURE")
    gone = xid == 79
    return Diagnosis(
        causes=(Cause.FAULT,),
        evidence=(*said, *_held(jobs, "the GPU")),
        advice=tuple(_fault_advice(verdict, xid)),
        commands=(
            *commands.keep_work_off(gpu.node, reason, schedulers),
            commands.count_on_bus() if gone else commands.look(gpu, *sections),
            commands.kernel_log(),
            *((commands.links(gpu),) if xid == 74 else ()),
            *(() if gone else (commands.reset(gpu), commands.diagnose(gpu))),
        ),
    )


def _fault_advice(verdict: Verdict, xid: int) -> list[str]:
    advice = ["Keep new work off the node until the GPU has been inspected."]
    action = 2 if xid == 79 else int(verdict.figures.get("recovery_action", 0))
    advice.append(_FIRST_STEPS.get(action, "Reset the GPU once no process is on it; if that fails, reboot the node."))
    if verdict.figures.get("remap_failed"):
        advice.append("Have the GPU replaced: it has no spare rows of memory left.")
    elif xid in _MEMORY:
        advice.append("After the reset, check whether the failing row was replaced; if errors return, replace the GPU.")
    elif xid == 74:
        advice.append("Check the link's error counters, its peer and the fabric manager; reseat or replace.")
    elif xid in _FIRMWARE:
        advice.append("If it comes back on several nodes, update driver and firmware.")
    advice.append("Resolve this incident when the GPU is healthy again; a new error opens another.")
    return advice


def _leaked(verdict: Verdict, gpu: Gpu, schedulers: Collection[str], span: str) -> Diagnosis:
    used, baseline = verdict.figures["memory_used"], verdict.figures["memory_baseline"]
    return Diagnosis(
        causes=(Cause.FAULT,),
        evidence=(
            f"at least {gibibytes(used)} in use over {span}, where a free GPU of the model shows {gibibytes(baseline)}",
            "no process is on it, and no job has it allocated",
        ),
        advice=(
            "Find what still has the device open: a process that died, or sleeps in the kernel, may hold the memory.",
            "Keep new work off the node: a job that gets this GPU runs out of memory.",
            "Reset the GPU once nothing has it open; if that does not free the memory, reboot the node.",
        ),
        commands=(
            *commands.who_uses(gpu),
            *commands.keep_work_off(gpu.node, "dutycycle: leaked GPU memory", schedulers),
            commands.reset(gpu),
        ),
    )


def _throttled(verdict: Verdict, gpu: Gpu, jobs: Sequence[str], span: str) -> Diagnosis:
    heat, capped = verdict.figures.get("thermal"), verdict.figures.get("power_cap")
    evidence = []
    if heat is not None:
        evidence.append(f"clocks held down by heat or the power brake for {percent(heat)} of {span}")
    if capped is not None:
        evidence.append(f"at the power limit for {percent(capped)} of {span}")
    cooling = (
        "Check inlet temperature, fans and cooling loop, and the GPUs beside it: if only one is hot, it is at fault.",
        "A power brake comes from the server: check its power supplies and the limits set in the management board.",
    )
    limit = ("Running at the power limit is normal for heavy work; compare with the limit that the model should have.",)
    return Diagnosis(
        causes=(Cause.THROTTLING,),
        evidence=(*evidence, *_held(jobs, "the GPU")),
        advice=limit if verdict.severity.rank == 0 else cooling,
        commands=(commands.look(gpu, "TEMPERATURE", "POWER", "PERFORMANCE", "CLOCK"),),
    )


def _held(jobs: Sequence[str], what: str) -> tuple[str, ...]:
    """Who is affected, by id."""
    if not jobs:
        return (f"no job holds {what}",)
    more = f" and {len(jobs) - _SHOWN_JOBS} more" if len(jobs) > _SHOWN_JOBS else ""
    return (f"{what} is held by {', '.join(jobs[:_SHOWN_JOBS])}{more}",)
