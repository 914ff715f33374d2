"""Recording rules for dashboards: what each user's GPUs did in every five minutes, and in every hour.

A dashboard adds them up: `sum by (user) (sum_over_time(user:workload_gpu_busy_seconds:increase5m[7d]))`. They are made
from the copies of the counters (group `dutycycle-usage` in the same file), and telescope: what one evaluation counted
of a series the next one begins with. So their sum is what the counter grew by, which sums of PromQL's `increase`, with
its extrapolation, are not; and neither a gap nor an evaluation that was missed, up to an hour, loses or doubles
anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

GROUP, INTERVAL = "dutycycle-dashboards", "5m"
HOURLY_GROUP, HOURLY_INTERVAL = "dutycycle-dashboards-hourly", "1h"

BY = ("cluster", "scheduler", "namespace", "user", "account", "partition", "model")
"""By what a user's use is added up: the filters of the dashboards."""

DEVICE = ("node", "gpu", "gpu_uuid", "mig")
_WORKLOAD = (*DEVICE, "workload", *BY)
"""One workload on one GPU: of replicas of an exporter's series the higher one counts."""

COUNTERS = (
    "workload_gpu_allocated_seconds_total",
    "workload_gpu_observed_seconds_total",
    "workload_gpu_busy_seconds_total",
    "workload_gpu_energy_joules_total",
)
"""The counters that are copied."""

SAMPLES = "workload_gpu_utilization_samples_bucket"
VISIBLE = "gpu_visible"

Resolution = Literal["5m", "1h"]

_RECENT = "15m"
"""How long what ended is still looked at: two evaluations may be missed."""
_BACK = "75m"
"""How long a series is remembered: over a gap of an hour, with evaluations at either end."""
_FURTHER = "95m"
"""As far as what is remembered can reach back itself."""
_BEFORE = "150s"
"""Half an interval: what the previous evaluation recorded, whatever the engine's clock does to its milliseconds, and
never what this one records.
"""
_TWELVE = "59m59s999ms"
"""An hour less a millisecond has twelve evaluations, whether the engine's ranges include their beginning or not."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One recorded series: its name, expression, labels, unit of its values (as Grafana names it) and meaning."""

    record: str
    expr: str
    labels: tuple[str, ...]
    unit: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Group:
    """Rules that are evaluated one after the other, each `interval` (a Prometheus duration)."""

    name: str
    interval: str
    rules: tuple[Rule, ...]


def copy_of(counter: str) -> str:
    """A counter's copy, one sample a minute: what increments are made from."""
    return f"gpu_workload:{counter}:max"


def counted(counter: str) -> str:
    """Up to which value of its copy a series has been counted."""
    return f"gpu_workload:{counter}:counted"


def increase(metric: str, resolution: Resolution) -> str:
    """The recorded increments of a counter or of the histogram's buckets, by user and the other filters."""
    return f"user:{metric.removesuffix('_total')}:increase{resolution}"


def capacity(resolution: Resolution) -> str:
    """The recorded GPU-seconds of the whole fleet."""
    return f"fleet:{VISIBLE}_seconds:increase{resolution}"


def growth(counter: str) -> str:
    """What each workload on each GPU added since the last evaluation, in parts that are to be added up.

    The newest value less the one that was counted up to; of a new series less its lowest, because new series are held
    at 0 at first. Where the counter was reset, which is a drop between two minutes, the value before it comes back: so
    a restarted exporter costs what came after the last minute before it ended. A counter that within a minute is reset
    and passes its old value looks like one that went on.
    """
    copy, before = copy_of(counter), f"last_over_time({counted(counter)}[{_BACK}] offset {_BEFORE})"
    newest = f"last_over_time({copy}[{_RECENT}])"
    minutes = [f"last_over_time({copy}[{_FURTHER}]{f' offset {ago}m' if ago else ''})" for ago in range(5)]
    drops = [f"{older} > {newer}" for newer, older in zip(minutes, [*minutes[1:], before], strict=True)]
    parts = {
        "growth": f"{newest} - {before}",
        "new": f"{newest} - min_over_time({copy}[{_BACK}]) unless {before}",
        **{f"reset{ago}m": drop for ago, drop in enumerate(drops)},
    }
    return " or ".join(f'label_replace({expr}, "part", "{part}", "", "")' for part, expr in parts.items())


def groups() -> tuple[Group, ...]:
    """Every group, in the order in which the files have them."""
    increments = tuple(_increment(counter) for counter in COUNTERS)
    # After the increments, which look at what the evaluation before this one left.
    marks = tuple(_mark(counter) for counter in COUNTERS)
    five = (*increments, *marks, _samples(), _capacity())
    hourly = tuple(_hour(rule) for rule in five if rule not in marks)
    return Group(GROUP, INTERVAL, five), Group(HOURLY_GROUP, HOURLY_INTERVAL, hourly)


def recorded() -> dict[str, Rule]:
    """Every recorded series by its name."""
    return {rule.record: rule for group in groups() for rule in group.rules}


_MEANING = {
    "workload_gpu_allocated_seconds_total": "GPU-seconds allocated: share x time",
    "workload_gpu_observed_seconds_total": "GPU-seconds of these for which the duty cycle was measured",
    "workload_gpu_busy_seconds_total": "GPU-seconds busy",
    "workload_gpu_energy_joules_total": "Energy",
}


def _increment(counter: str) -> Rule:
    unit = "joule" if counter.endswith("_joules_total") else "s"
    meaning = f"{_MEANING[counter]}, since the last evaluation."
    return Rule(increase(counter, "5m"), f"sum by ({', '.join(BY)}) ({growth(counter)})", BY, unit, meaning)


def _mark(counter: str) -> Rule:
    unit = "joule" if counter.endswith("_joules_total") else "s"
    expr = f"last_over_time({copy_of(counter)}[{_RECENT}])"
    return Rule(counted(counter), expr, _WORKLOAD, unit, "Up to which value of its copy a series has been counted.")


def _samples() -> Rule:
    each = f"max by ({', '.join((*_WORKLOAD, 'le'))}) (increase({SAMPLES}[{INTERVAL}]))"
    expr = f"sum by ({', '.join((*BY, 'le'))}) ({each})"
    return Rule(
        increase(SAMPLES, "5m"),
        expr,
        (*BY, "le"),
        "s",
        "Seconds by utilization (cumulative in `le`), of the last 5 minutes: an estimate by PromQL's `increase`.",
    )


def _capacity() -> Rule:
    expr = f"sum(max by (node) (avg_over_time({VISIBLE}[{INTERVAL}]))) * 300"
    return Rule(
        capacity("5m"), expr, (), "s", "GPU-seconds that GPUs which NVML shows stood there, in the last 5 minutes."
    )


def _hour(rule: Rule) -> Rule:
    expr = f"sum_over_time({rule.record}[{_TWELVE}])"
    name = rule.record.removesuffix("5m") + "1h"
    return Rule(name, expr, rule.labels, rule.unit, "The same, of the last twelve of these.")
