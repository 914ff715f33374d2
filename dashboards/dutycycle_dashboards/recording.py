"""Recording rules for dashboards: what each user's GPUs did in every five minutes, and in every hour.

A dashboard adds them up: `sum by (user) (sum_over_time(user:workload_gpu_busy_seconds:increase5m[7d]))`. They are made
from the copies of the counters (group `dutycycle-usage` in the same file), and telescope: what one evaluation counted
of a series the next one begins with. So their sum is what the counter grew by, which sums of PromQL's `increase`, with
its extrapolation, are not; and neither a gap of the copies, up to an hour, nor two evaluations that were missed lose or
double anything. Of hours one evaluation may be missed; of two in a row the first hour is lost.

All that reads what another group records reads it as it was a minute ago: rules are evaluated and stored one after the
other, and what is stored between two of them would be seen by one and not by the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

OWNERS_GROUP, OWNERS_INTERVAL = "dutycycle-owners", "1m"
GROUP, INTERVAL = "dutycycle-dashboards", "5m"
HOURLY_GROUP, HOURLY_INTERVAL = "dutycycle-dashboards-hourly", "1h"

BY = ("cluster", "scheduler", "namespace", "user", "account", "partition", "model")
"""By what a user's use is added up: the filters of the dashboards."""

OWNER = "workload:dutycycle_workload_owner:timestamp"
"""The recorded owners of workloads. A workload whose owner changes has two of them for a while."""
OWNED = ("user", "account")
"""What an owner is known by. Exporters have these labels, too, but on Kubernetes they hold the pod's own word."""
_BY_OWNER = ("cluster", "workload")
_OWNER = (*_BY_OWNER, *OWNED)
_REST = tuple(name for name in BY if name not in OWNED)

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

QUANTILES = (0.1, 0.5, 0.9)
"""Of GPUs' means: the lowest tenth, the median, the highest tenth."""

Resolution = Literal["5m", "1h"]

_SETTLED = 1
"""Minutes after which what another group recorded is taken to be there: its evaluation may take as long."""
_RECENT = "15m"
"""How long what ended is still looked at, and since when what is new has been seen: two evaluations may be missed."""
_LOOK = f"[{_RECENT}] offset {_SETTLED}m"
_BACK = "75m"
"""How long a series is remembered: over a gap of an hour, with evaluations at either end."""
_FURTHER = "95m"
"""As far as what is remembered can reach back itself."""
_BEFORE = "150s"
"""Half an interval: what the previous evaluation recorded, whatever the engine's clock does to its milliseconds, and
never what this one records.
"""
_HOUR_BEFORE = "[10m] offset 55m"
"""Where the previous evaluation of the hourly group is found."""
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


def quantiles() -> str:
    """The recorded quantiles of GPUs' means."""
    return "fleet:gpu_utilization_percent:quantile5m"


def growth(counter: str) -> str:
    """What workloads on GPUs added since the last evaluation, by user and the other filters.

    The newest value less the one that was counted up to; of a new series less its lowest, because new series are held
    at 0 at first. Where the counter was reset, which is a drop between two minutes, the value before it comes back: so
    a restarted exporter costs what came after the last minute before it ended. A counter that within a minute is reset
    and passes its old value looks like one that went on.
    """
    copy, before = copy_of(counter), f"last_over_time({counted(counter)}[{_BACK}] offset {_BEFORE})"
    newest, lowest = _newest(counter), f"min_over_time({copy}{_LOOK})"
    minutes = [f"last_over_time({copy}[{_FURTHER}] offset {_SETTLED + ago}m)" for ago in range(5)]
    drops = [f"{older} > {newer}" for newer, older in zip(minutes, [*minutes[1:], before], strict=True)]
    parts = {
        "growth": f"{newest} - {before}",
        "new": f"{newest} - {lowest} unless {before}",
        **{f"reset{ago}m": drop for ago, drop in enumerate(drops)},
    }
    # First for each workload: its owner is joined once, to few rows. The exporter's is that of its copies.
    each = _added(parts, (*_REST, "workload"))
    return f"sum by ({', '.join(BY)}) ({by_owner(each, newest_owner(_LOOK, newest))})"


def by_owner(expr: str, owners: str) -> str:
    """Return the series of `expr`, which have the label `workload`, with the user and account of its owner in `owners`.

    `expr` must have no labels `user` and `account` of its own: while an exporter's label changes, two series would
    become the same one, and the whole query would fail.
    """
    return f"({expr} * on ({', '.join(_BY_OWNER)}) group_left ({', '.join(OWNED)}) {owners})"


def newest_owner(window: str, own: str, matchers: str = "") -> str:
    """Return 1 for each workload, with the user and account of its newest owner in the window (`[15m]`), else with the
    exporter's labels, which `own` has. So it is where there is no alerter.

    Each workload is there once: a join would fail if it were there twice, as while an owner changes.
    """
    owner, one = ", ".join(_OWNER), ", ".join(_BY_OWNER)
    recorded = f"last_over_time({OWNER}{matchers}{window})"
    # The exporter's has 1, which is less than any timestamp.
    return f"group by ({owner}) (topk by ({one}) (1, {recorded} or group by ({owner}) ({own})))"


def chosen_owner(window: str, own: str, matchers: str, own_chosen: str) -> str:
    """Return the rows of `newest_owner` whose user and account match. `own_chosen` are the series of `own` that match.
    An earlier owner that matches does not count.
    """
    matching = f"last_over_time({OWNER}{matchers}{window}) or {own_chosen}"
    return f"({newest_owner(window, own)} and on ({', '.join(_OWNER)}) ({matching}))"


def groups() -> tuple[Group, ...]:
    """Every group, in the order in which the files have them."""
    # Two alerters publish the same series.
    seen = f"max by ({', '.join(_OWNER)}) (timestamp(dutycycle_workload_owner))"
    owners = Rule(OWNER, seen, _OWNER, "s", "When the alerter last published this owner of a workload: Unix seconds.")
    increments = tuple(_increment(counter) for counter in COUNTERS)
    # After the increments, which look at what the evaluation before this one left.
    marks = tuple(_mark(counter) for counter in COUNTERS)
    five = (*increments, *marks, _samples(), _capacity())
    hourly = tuple(_hour(rule) for rule in five if rule not in marks)
    five = (*five, _quantiles())
    return (
        Group(OWNERS_GROUP, OWNERS_INTERVAL, (owners,)),
        Group(GROUP, INTERVAL, five),
        Group(HOURLY_GROUP, HOURLY_INTERVAL, hourly),
    )


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
    return Rule(increase(counter, "5m"), growth(counter), BY, unit, meaning)


def _newest(counter: str) -> str:
    return f"last_over_time({copy_of(counter)}{_LOOK})"


def _added(parts: Mapping[str, str], by: tuple[str, ...]) -> str:
    """Their sum by these labels, whichever of them there are. Each is added up first: that leaves few rows to join."""
    grouped = f"sum by ({', '.join(by)})" if by else "sum"
    named = (f'label_replace({grouped} ({expr}), "part", "{part}", "", "")' for part, expr in parts.items())
    return f"{grouped} ({' or '.join(named)})"


def _mark(counter: str) -> Rule:
    unit = "joule" if counter.endswith("_joules_total") else "s"
    return Rule(
        counted(counter), _newest(counter), _WORKLOAD, unit, "Up to which value of its copy a series has been counted."
    )


def _samples() -> Rule:
    each = f"max by ({', '.join((*_WORKLOAD, 'le'))}) (increase({SAMPLES}[{INTERVAL}]))"
    added = f"sum by ({', '.join((*_REST, 'workload', 'le'))}) ({each})"
    # Each series that grew has a sample in the range.
    own = f'last_over_time({SAMPLES}{{le="+Inf"}}[{INTERVAL}])'
    expr = f"sum by ({', '.join((*BY, 'le'))}) ({by_owner(added, newest_owner(_LOOK, own))})"
    return Rule(
        increase(SAMPLES, "5m"),
        expr,
        (*BY, "le"),
        "s",
        "Seconds by utilization (cumulative in `le`), of the last 5 minutes: an estimate by PromQL's `increase`.",
    )


def _capacity() -> Rule:
    # A site's label: where several clusters are in one engine, each may have a node of the same name.
    expr = f"sum(max by (cluster, node) (avg_over_time({VISIBLE}[{INTERVAL}]))) * 300"
    return Rule(
        capacity("5m"), expr, (), "s", "GPU-seconds that GPUs which NVML shows stood there, in the last 5 minutes."
    )


def _quantiles() -> Rule:
    by = ("node", "gpu_uuid", "mig")
    busy, observed = (
        # What `increase` extrapolates, it does to both.
        f"sum by ({', '.join(by)}) (increase({copy_of(counter)}[{INTERVAL}] offset {_SETTLED}m))"
        for counter in ("workload_gpu_busy_seconds_total", "workload_gpu_observed_seconds_total")
    )
    means = f"100 * {busy} / ({observed} > 0)"
    each = (f'label_replace(quantile({q}, {means}), "quantile", "{q}", "", "")' for q in QUANTILES)
    return Rule(
        quantiles(),
        " or ".join(each),
        ("quantile",),
        "percent",
        "Quantiles of the mean utilization, over 5 minutes, of each GPU that was allocated and measured.",
    )


def _hour(rule: Rule) -> Rule:
    name = rule.record.removesuffix("5m") + "1h"
    expr = _added(
        {
            "hour": f"sum_over_time({rule.record}[{_TWELVE}] offset {_SETTLED}m)",
            "missed": f"sum_over_time({rule.record}[{_TWELVE}] offset {60 + _SETTLED}m)"
            f" unless last_over_time({name}{_HOUR_BEFORE})",
        },
        rule.labels,
    )
    return Rule(name, expr, rule.labels, rule.unit, "The same, of the last twelve of these that are a minute old.")
