"""The prose of docs/rules.md: when each rule fires and clears, what it needs, and where its numbers come from.

Every number is formatted from the settings that are given, or from a constant of the code that judges.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dutycycle_alerter.incidents.model import Cause
from dutycycle_alerter.model import LOW_SAMPLE
from dutycycle_alerter.rules.causes import MEMORY_BOUND_DRAM, MEMORY_BOUND_TENSOR
from dutycycle_alerter.rules.idle_causes import POLLING_CORES, WORKING_CORES
from dutycycle_alerter.rules.stalled import BEGUN
from dutycycle_alerter.rules.underused_causes import FED, PAUSE_SHARE
from dutycycle_alerter.scale import format_duration
from dutycycle_alerter.settings import Judging
from dutycycle_exporter.contract import GAP_LENGTHS


@dataclass(frozen=True)
class Text:
    """What is said of one rule, with its numbers; empty where there is nothing to say."""

    fires: str
    window: str
    severity: str
    clears: str
    needs: str
    more: str = ""


def described(judging: Judging) -> Mapping[str, Text]:
    """Every rule by name."""
    return {**_jobs(judging), **_reports(judging), **_devices(judging)}


def _jobs(judging: Judging) -> dict[str, Text]:
    rules = judging.rules
    hung, idle, partly, stalled = rules.hung, rules.idle, rules.partially_idle, rules.stalled
    uneven, low, under = rules.uneven, rules.low_sm_activity, rules.underused
    return {
        "hung": Text(
            fires=f"""every GPU spins (U >= {_pct(hung.spinning_at_least)} while (power - idle power) / (power limit -
                idle power) <= {hung.power_share:g}) or waits (U <= {_pct(hung.idle_below)}), and at least one spins""",
            window=_time(hung.window),
            severity=f"""warning, and for operators only; critical only where every counter that is measured confirms
                it: tensor cores and memory bandwidth at {_pct(hung.active_below)} of the time or less, links at
                {hung.link_bytes_below / 1e6:g} MB/s per GPU or less""",
            clears="a GPU does neither, or none spins",
            needs="energy counter and power limit; idle power, which is learned per model from GPUs that nobody holds",
        ),
        "idle": Text(
            fires=f"every GPU at U <= {_pct(idle.below)}",
            window=f"{_time(idle.window)}; for serving jobs {_time(idle.serving_window)}",
            severity=f"warning; critical when it also holds over {_time(idle.critical_window)}, and for serving jobs",
            clears=f"""a GPU at more than {_pct(idle.clear_above)} over {_time(idle.clear_window)}; if it fires again
                within {_time(judging.reopen_within)}, the same incident is reopened""",
            needs="utilization",
            more="The test is on the exact mean, which is not rounded: just above the bound is not idle.",
        ),
        "partially_idle": Text(
            fires=f"""at least one GPU, but not every one, at U <= {_pct(partly.below)}, and the busiest at U >=
                {_pct(partly.busiest_at_least)}; where the busiest works less, the GPUs that had neither a process nor
                memory in use since the job began, beside one at U > {_pct(partly.below)}""",
            window=_time(partly.window),
            severity="warning",
            clears=f"every GPU at more than {_pct(partly.clear_above)}",
            needs=f"""utilization; two GPUs or more; for GPUs that were never used, processes and memory since the job
                began, as far as evidence reaches back (over Prometheus {_time(idle.critical_window)})""",
        ),
        "stalled": Text(
            fires=f"""{_pct(stalled.at_least)} <= U < {_pct(stalled.below)}, and one of: idle gaps of up to
                {_longest_short_gap()} s for >= {_pct(stalled.gap_share)} of the measured time; CPU >=
                {_pct(stalled.cpu_of_limit)} of the job's limit, on the node where it is highest; some task waiting for
                I/O or a CPU for >= {_pct(stalled.pressure)} of the time (PSI); not where U before the window, as far
                back as {_time(max(idle.critical_window, stalled.window))} ago, is known to be under {_pct(BEGUN)} of
                that in it: such a job was loading until then""",
            window=_time(stalled.window),
            severity="warning",
            clears=f"""U > {_pct(stalled.clear_above)}; or gaps < {_pct(stalled.clear_gap_share)}, CPU <
                {_pct(stalled.clear_cpu_of_limit)} and pressure < {_pct(stalled.clear_pressure)}, of which those that
                are not measured are left out""",
            needs="idle gaps, or CPU and pressure from the job's cgroup; with none of these it is not evaluable",
        ),
        "uneven": Text(
            fires=f"""1 - min/max >= {uneven.spread:g} over the job's GPUs, or over its nodes' means, with the busiest
                at U >= {_pct(uneven.busiest_at_least)}; not where `partially_idle` fires""",
            window=_time(uneven.window),
            severity="warning",
            clears=f"1 - min/max < {uneven.clear_spread:g}",
            needs="utilization; two GPUs or more; a job that has not said that its ranks differ by design",
        ),
        "low_sm_activity": Text(
            fires=f"""U >= {_pct(low.at_least)}, and multiprocessors active for < {_pct(low.below)} of the busy time,
                also over the last {_time(min(rules.idle.clear_window, low.window))} alone""",
            window=_time(low.window),
            severity="warning",
            clears=f">= {_pct(low.clear_above)} of the busy time, or no GPU was busy at all",
            needs="GPM: Hopper and later",
            more="Tiny kernels that come often read as full utilization: this is the rule that sees them.",
        ),
        "underused": Text(
            fires=f"""U < {_pct(under.below)}, also over the last
                {_time(min(rules.idle.clear_window, under.window))} alone, and no rule above fires""",
            window=_time(under.window),
            severity="warning",
            clears=f"""U > {_pct(under.clear_above)}, or every GPU at U <= {_pct(idle.below)}, over the last
                {_time(min(rules.idle.clear_window, under.window))}""",
            needs="utilization",
        ),
    }


def _reports(judging: Judging) -> dict[str, Text]:
    small, full, over = judging.rules.memory_underused, judging.rules.memory_pressure, judging.rules.overallocated
    once = f"the job's life, of at least {_time(over.shortest)}"
    return {
        "memory_underused": Text(
            fires=f"""no GPU ever had {_pct(small.peak_below)} of its memory in use, and U <
                {_pct(small.utilization_below)}""",
            window=once,
            severity="information: it is listed, and sent only by routes with `severity: info`",
            clears="",
            needs="GPU memory of all of its life: of a job that ran before anybody watched, nobody knows",
        ),
        "memory_pressure": Text(
            fires=f"""some GPU had >= {_pct(full.peak_at_least)} of its memory in use, and U <
                {_pct(full.utilization_below)}""",
            window=once,
            severity="information",
            clears="",
            needs="GPU memory",
            more="A framework that takes all memory at its start looks the same.",
        ),
        "overallocated": Text(
            fires=f"""one of: busy cores < {_pct(over.cpu_used_below)} of those asked for (and more than one core a GPU
                was asked for); peak host memory < {_pct(over.memory_used_below)} of what was asked for; run time <
                {_pct(over.time_used_below)} of the time limit, of a job that ended well; every GPU a whole strong model
                at U <= {_pct(over.gpu_utilization_below)} with at most {over.gpu_memory_below_bytes / 1e9:g} GB of its
                memory and, where that is known, {over.host_memory_below_bytes / 1e9:g} GB of the host's in use""",
            window=once,
            severity="information",
            clears="",
            needs="Slurm, for CPU time, host memory and the time limit",
        ),
    }


def _devices(judging: Judging) -> dict[str, Text]:
    fault, leak, slow = judging.rules.gpu_fault, judging.rules.leaked_memory, judging.rules.throttled
    return {
        "gpu_fault": Text(
            fires="""an XID of the list; a recovery action that the driver asks for; a row of memory that could not be
                replaced; on a node: NVML shows fewer GPUs than the PCI bus, in two answers in a row""",
            window="at once",
            severity="warning; critical while a job holds the GPU, or runs on the node",
            clears=f"""no such XID for {_time(fault.quiet)}, and the driver takes back what it asked for; on a node,
                NVML shows as many GPUs as the bus showed when the incident opened""",
            needs="driver events and, for recovery actions and remapped rows, a driver and GPU that report them",
        ),
        "leaked_memory": Text(
            fires=f"""always >= {leak.above_bytes / 2**20:g} MiB of GPU memory above what a free GPU of the model has in
                use, with no process on the GPU, no owner and a mean utilization of {_pct(judging.rules.idle.below)} or
                less; a GPU that works without a process hides its processes""",
            window=_time(leak.window),
            severity="warning",
            clears=f"< {leak.clear_below_bytes / 2**20:g} MiB above it, whoever holds the GPU then",
            needs="a free GPU of the model that was seen before: the baseline is learned",
        ),
        "throttled": Text(
            fires=f"""clocks held down by heat or the power brake for >= {_pct(slow.thermal)} of the time; at the power
                limit for >= {_pct(slow.power_cap)} of the time""",
            window=_time(slow.window),
            severity="warning for heat and brake; information for the power limit",
            clears=f"""< {_pct(slow.clear_below)} for heat and brake; information also not before
                < {_pct(slow.clear_power_cap)} at the limit""",
            needs="the driver's throttle counters",
        ),
    }


def alone(judging: Judging) -> Mapping[Cause, str]:
    """Where each cause is named without another beside it."""
    rules = judging.rules
    return {
        Cause.NO_PROCESS: f"""no process held the GPUs over the last {_time(rules.idle.clear_window)} of an idle job,
            and no memory was in use beyond what a GPU without a process shows""",
        Cause.IDLE_NOTEBOOK: f"""a process holds the GPUs of an idle job, which uses under {WORKING_CORES:g} CPU
            cores; of a batch job only where these are known not to have worked since it began, and a process holds one
            of them""",
        Cause.CPU_ONLY: f"""never: it is named beside others where an idle job uses {WORKING_CORES:g} CPU cores or more
            and it is not known whether a process holds its GPUs; a process or memory on them excludes it""",
        Cause.HOST_WORK: f"""processes hold the GPUs of an idle job, and it uses more than {POLLING_CORES:g} CPU cores
            for each: what polls keeps one busy""",
        Cause.DATA_LOADING: f"""a stalled job waits for I/O for {_pct(rules.stalled.pressure)} of the time or more; or
            its CPU is at {_pct(rules.stalled.cpu_of_limit)} of its limit or more and idle gaps of up to
            {_longest_short_gap()} s take {_pct(rules.stalled.gap_share)} of the time or more""",
        Cause.SMALL_WORK: f"""multiprocessors hardly work ({_pct(rules.hung.active_below)} of the busy time or less), or
            little on a single GPU or over quiet links; an underused job has idle gaps for under
            {_pct(rules.stalled.clear_gap_share)} of the time and is not seen to work at two levels, or works in what
            reads as one idle gap; GPU memory was full and its bandwidth not the limit""",
        Cause.MEMORY_BOUND: f"""memory bandwidth is at {_pct(MEMORY_BOUND_DRAM)} of the busy time or more and tensor
            cores at {_pct(MEMORY_BOUND_TENSOR)} or less""",
        Cause.COMMUNICATION: """GPUs or nodes of an uneven job differ, and no clock was held down; so do those of a
            stalled job, of which the busiest hardly idles and draws as much for its work as the slowest, of the same
            model, both whole GPUs""",
        Cause.CHECKPOINT: f"""pauses of {_longest_short_gap()} s to 10 min take {_pct(PAUSE_SHARE)} of the time or more,
            and without them the job would not be underused; where each GPU is at 5 to {_pct(LOW_SAMPLE)} for as
            long in place of pauses, and at {_pct(FED)} or more in the rest, small work is named beside it""",
        Cause.HANG: """counters confirm a hang on several GPUs, and multiprocessors are not at the floor as well; of an
            idle job never, as nothing measured tells it from a notebook, a server or a program that is done""",
        Cause.THROTTLING: """the GPUs whose clocks were held down are exactly those that lag, or all the others; and of
            the rule `throttled`""",
        Cause.OVER_REQUEST: """no process has lately held the idle ones of several GPUs, which are known not to have
            worked since the job began, or whose job is a notebook or a shell; or more was asked for than used""",
        Cause.FAULT: "the driver says so, a GPU is lost, or its memory is held by nobody",
    }


BEFORE: tuple[Callable[[Judging], str], ...] = (
    lambda judging: (
        f"""
        U is utilization: busy time over measured time, of one GPU or of a whole job, over the rule's window. A rule is
        judged once its whole window lies after the job's grace ({_time(judging.grace.batch)} from the first process,
        else from the allocation; up to {_time(judging.grace.loading)} while GPU memory still grows;
        {_time(judging.grace.interactive)} for notebooks and shells), on GPUs that were measured for
        {_pct(judging.coverage)} of it. What is not measured is unknown and never idle: nothing opens on it, and nothing
        resolves. A rule whose evidence a GPU or a site does not give is **not evaluable**: the page and `dutycycle
        analyze` say for how many jobs, and why. `analyze` also lists the rules for which a recording has too little of
        a job.
    """
    ),
    lambda judging: (
        f"""
        Every number here is a default of [`judging`](configuration.md#judging) and can be set; a window is one of the
        few for which evidence is kept. While a job runs it has at most one incident of these rules. The first rule that
        fires, in the order below, is the incident's; others that fire are listed with it. A condition that comes back
        within {_time(judging.reopen_within)} reopens its incident; one about which nothing was known for
        {_time(judging.lost_after)} resolves as `lost`. Who is notified of what is in [notifications](notifications.md);
        exceptions are [policies](policies.md).
    """
    ),
)
"""What stands before the rules."""

AFTER: tuple[Callable[[Judging], str], ...] = (
    lambda _: (
        """
        More on [GPUs and nodes](devices.md): XIDs, lost GPUs, baselines, throttling, and the hours of the fleet. What
        the rules would have reported about the past, with other numbers: [`dutycycle backtest`](backtest.md).
    """
    ),
)
"""What stands after them."""

_SHIELD = "https://princetonuniversity.github.io/job_defense_shield/alert"
_ICSE = "Gao et al., [ICSE 2024](https://doi.org/10.1145/3597503.3639232)"
_ACME = "Hu et al., [NSDI 2024](https://www.usenix.org/conference/nsdi24/presentation/hu)"

SOURCES: Mapping[str, tuple[str, ...]] = {
    "hung": (
        (
            "longer than the time-out of PyTorch's NCCL process group, which ends most hangs: "
            "[10 min](https://github.com/pytorch/pytorch/pull/110947)"
        ),
        (
            "power by the energy counter: sensors of A100 and H100 look a quarter of the time "
            "([arXiv:2312.02741](https://arxiv.org/abs/2312.02741))"
        ),
    ),
    "idle": (
        "gpu-pruner's default of [30 min](https://github.com/wseaton/gpu-pruner)",
        f"critical as long as Princeton waits before it cancels a job at 0 %: [2 h]({_SHIELD}/cancel_gpu_jobs/)",
    ),
    "partially_idle": (
        "our own; job_defense_shield counts [GPU-hours at 0 %](" + _SHIELD + "/zero_gpu_util/) per GPU as well",
    ),
    "stalled": (
        f"46 % of 706 issues behind low utilization were data operations: {_ICSE}",
        "the bounds are our own: six samples a second tell gaps of that length from steady work",
    ),
    "uneven": ("our own",),
    "low_sm_activity": (
        (
            f"GPUs that are busy by utilization and whose multiprocessors are not, as the traces of {_ACME} show them; "
            "the bound is our own"
        ),
    ),
    "underused": (
        f"Princeton's threshold of [25 %]({_SHIELD}/low_gpu_util/)",
        (
            "nearly a third of Weights & Biases' users average under 15 %, "
            "[as quoted by lakeFS](https://lakefs.io/blog/gpu-utilization/)"
        ),
    ),
    "memory_underused": ("our own",),
    "memory_pressure": ("our own",),
    "overallocated": (
        (
            "utilization, GPU memory and host memory as in job_defense_shield's "
            f"[GPU model too powerful]({_SHIELD}/gpu_model_too_powerful/); its own rules for "
            f"[time limits]({_SHIELD}/time_limits_gpu/), cores and host memory have other bounds"
        ),
    ),
    "gpu_fault": (
        (
            "[NVIDIA's catalogue of XIDs](https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html): those "
            "that ask for a reset, a reboot or a repair"
        ),
    ),
    "leaked_memory": ("our own",),
    "throttled": ("our own",),
}
"""Where the defaults come from: a publication, what others use, or our own judgement."""


def _pct(ratio: float) -> str:
    return f"{100 * ratio:g} %"


def _time(seconds: float) -> str:
    return format_duration(seconds)


def _longest_pause() -> int:
    return int(GAP_LENGTHS[2].partition("to")[2])


def _longest_short_gap() -> int:
    """Seconds: up to here an idle gap counts as short (`2to30` among the lengths of gaps)."""
    return int(GAP_LENGTHS[1].partition("to")[2])


__all__ = ["AFTER", "BEFORE", "SOURCES", "Text", "alone", "described"]
