"""The recording rules: copies of the counters, one sample a minute, from which long windows are read.

A day of scrapes of ten thousand GPUs is more samples than a Prometheus lets one query touch; a day of minutes is not.
A copy loses nothing at either end of a series: it begins with the lowest value of its first minute (the exporter holds
a new series at 0 for two scrapes, which a minute may miss otherwise), and it looks back a minute, so that the final
value arrives. Between them a counter that was reset drops in the copy as well, and `increase` undoes that.
"""

from __future__ import annotations

from dataclasses import dataclass

INTERVAL = "1m"
GROUP = "dutycycle-usage"
LABELS = (
    "cluster",
    "node",
    "gpu",
    "gpu_uuid",
    "mig",
    "scheduler",
    "workload",
    "namespace",
    "user",
    "account",
    "partition",
    "model",
)
"""What a copy keeps: enough to judge, and to add up by owner. Those of the scraped target go, so that a replaced pod of
the exporter goes on with the series of the one before.
"""

COPIED = (
    "workload_gpu_allocated_seconds_total",
    "workload_gpu_observed_seconds_total",
    "workload_gpu_busy_seconds_total",
    "workload_gpu_energy_joules_total",
)


@dataclass(frozen=True, slots=True)
class Rule:
    """One recording rule."""

    record: str
    expr: str


def copy_of(metric: str) -> str:
    """The name of a counter's copy."""
    return f"gpu_workload:{metric}:max"


def rules() -> tuple[Rule, ...]:
    """Every rule, in the order in which the files have them."""
    return tuple(Rule(copy_of(metric), _copy(metric)) for metric in COPIED)


def _copy(metric: str) -> str:
    new = f"min_over_time({metric}[{INTERVAL}]) unless last_over_time({metric}[{INTERVAL}] offset {INTERVAL})"
    return f"max by ({', '.join(LABELS)}) (({new}) or last_over_time({metric}[{INTERVAL}]))"
