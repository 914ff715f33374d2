"""The PromQL that several dashboards share: filters, usage over the dashboard's range, and histograms of users.

Usage comes from recorded increments (`recording.py`), of 5 minutes or of an hour: `${res}` is what suits the range.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

from dutycycle_dashboards import recording

FILTERS = ("cluster", "scheduler", "account", "partition", "namespace", "model", "user")
"""The dashboards' variables that choose owners; each is a label of every ownership series."""

TARGET_LABELS = ("instance", "job")
"""What Prometheus itself adds to whatever it scrapes: by these alone the exporter's own metrics, which have no label of
the node's, are told to be a node's.
"""

Usage = Literal["allocated", "observed", "busy", "energy"]

RANGE = "$__range"
INTERVAL = "$__interval"
OWNER_WINDOW = "15m"
"""For so long an owner counts after the alerter last published it."""
THROTTLE_STEP, ENERGY_STEP = "5m", "2m"
"""Least steps of panels over what throttle counters and the energy grew by. The exporter reads these each 30 and 10 s:
over little more than that a steady growth would swing by a third.
"""
BINS = tuple(range(0, 100, 5))
"""Lower edges of the bins of mean utilization, in percent; 100 % belongs to the last."""
KNOWN = 'user!=""'
"""Matches what is somebody's: GPU time of which nobody knows whose it is makes no user."""
LOW = 15
"""Percent of mean utilization under which a user counts as low."""

_RECORDED = {
    "allocated": "user:workload_gpu_allocated_seconds:increase${res}",
    "observed": "user:workload_gpu_observed_seconds:increase${res}",
    "busy": "user:workload_gpu_busy_seconds:increase${res}",
    "energy": "user:workload_gpu_energy_joules:increase${res}",
}
_SAMPLES = "user:workload_gpu_utilization_samples_bucket:increase${res}"
_PER_UNIT = {"allocated": 3600, "observed": 3600, "busy": 3600, "energy": 3_600_000}


def selector(metric: str, filters: Iterable[str] = FILTERS, *more: str) -> str:
    """The series of a metric that the dashboard's filters leave; `more` are further matchers."""
    matchers = [*(f'{name}=~"${name}"' for name in filters), *more]
    return f"{metric}{{{', '.join(matchers)}}}" if matchers else metric


def used(
    kind: Usage,
    by: Iterable[str] = (),
    *,
    over: str = RANGE,
    filters: Iterable[str] = FILTERS,
    more: Iterable[str] = (),
    at: str = "",
) -> str:
    """GPU-seconds (energy: joules) over a window, added up by these labels. `at` is a time to be asked at whatever the
    step, such as `end()`.
    """
    window = f"[{over}]{f' @ {at}' if at else ''}"
    return f"{_sum(by)} (sum_over_time({selector(_RECORDED[kind], filters, *more)}{window}))"


def hours(
    kind: Usage,
    by: Iterable[str] = (),
    *,
    over: str = RANGE,
    filters: Iterable[str] = FILTERS,
    more: Iterable[str] = (),
) -> str:
    """GPU-hours (energy: kWh) over a window, added up by these labels."""
    return f"{used(kind, by, over=over, filters=filters, more=more)} / {_PER_UNIT[kind]}"


def utilization(
    by: Iterable[str] = (), *, over: str = RANGE, filters: Iterable[str] = FILTERS, more: Iterable[str] = ()
) -> str:
    """Mean utilization in percent, weighted by time: 100 x busy / observed. Absent where nothing was measured, as it is
    for a GPU on which utilization cannot be.
    """
    by, more = tuple(by), tuple(more)
    observed = used("observed", by, over=over, filters=filters, more=more)
    return f"100 * {used('busy', by, over=over, filters=filters, more=more)} / ({observed} > 0)"


def wasted_hours(
    by: Iterable[str] = (), *, over: str = RANGE, filters: Iterable[str] = FILTERS, more: Iterable[str] = ()
) -> str:
    """GPU-hours that were measured and not busy. What was not measured is no waste."""
    by, more = tuple(by), tuple(more)
    observed = used("observed", by, over=over, filters=filters, more=more)
    busy = used("busy", by, over=over, filters=filters, more=more)
    return f"clamp_min({observed} - {busy}, 0) / 3600"


def mean_of_users() -> str:
    """Mean utilization by user, of those who are known and of whom anything was measured."""
    return utilization(["user"], more=(KNOWN,))


def users_per_bin() -> str:
    """Number of users by `bin`, the lower edge of 5 points of mean utilization as two digits; bins of nobody are 0."""
    return _filled(_padded(f'count_values("bin", {_bin()})'))


def hours_per_bin() -> str:
    """Measured GPU-hours of the users in each `bin`; the bins of `users_per_bin`."""
    bins = _padded(f'count_values by (user) ("bin", {_bin()})')
    observed = hours("observed", ["user"], more=(KNOWN,))
    return _filled(f"sum by (bin) ({observed} * on (user) group_left (bin) {bins})")


def samples(*, over: str = RANGE, filters: Iterable[str] = FILTERS, more: Iterable[str] = ()) -> str:
    """GPU-seconds by utilization: a histogram's buckets, cumulative by `le`."""
    return f"sum by (le) (sum_over_time({selector(_SAMPLES, filters, *more)}[{over}]))"


def share_of_low_users() -> str:
    """Share (0..1) of the users whose GPUs were measured that are under `LOW` percent."""
    mean = mean_of_users()
    return f"(count({mean} < {LOW}) or vector(0)) / count({mean})"


def median_user() -> str:
    """The median of users' mean utilization, in percent."""
    return f"quantile(0.5, {mean_of_users()})"


def owned(
    metric: str,
    filters: Iterable[str] = FILTERS,
    *more: str,
    form: str = "{}",
    window: str = f"[{OWNER_WINDOW}]",
    each: str = "max",
) -> str:
    """Return an ownership series with the user and account that the alerter resolved, else with the exporter's. The
    filters apply to these. `form` is made of the selector, such as `increase({}[$__range])`. `window` is the owners'.
    `each` joins the parts of a series whose exporter changed these labels: "sum" where they are increases.
    """
    filters = tuple(filters)
    others = [name for name in filters if name not in recording.OWNED]
    theirs = [one for one in more if re.match(r"\w+", one)[0] in recording.OWNED]  # type: ignore[index]
    chosen = selector("", [name for name in filters if name in recording.OWNED], *theirs)
    own = form.format(selector(metric, others, *(one for one in more if one not in theirs)))
    owners = (
        recording.chosen_owner(window, own, chosen, form.format(selector(metric, filters, *more)))
        if chosen
        else recording.newest_owner(window, own)
    )
    return recording.by_owner(f"{each} without ({', '.join(recording.OWNED)}) ({own})", owners)


def allocations(filters: Iterable[str] = FILTERS, *more: str) -> str:
    """Who holds which GPU now, as shares of it: what device series are joined to, as the "many" side."""
    return owned("gpu_allocation", filters, *more)


def of_devices(metric: str, owners: str = "") -> str:
    """A device metric for every workload on the device, with the owner's labels; `owners` is `allocations()` unless
    given. An exporter that is scraped twice tells of each device twice.
    """
    device = "(node, gpu_uuid, mig)"
    return f"(0 * {owners or allocations()} + on {device} group_left () max by {device} ({metric}))"


def grown(counter: str, by: str) -> str:
    """What a counter grew by in each step, where it did; also one whose series begins with the first event."""
    began = f"({counter} unless last_over_time({counter}[1h] offset $__rate_interval))"
    return f"sum by ({by}) ({began} or increase({counter}[$__rate_interval])) > 0"


def _bin() -> str:
    # A mean that lies on an edge but for rounding belongs to the upper bin, as in the alerter's own histogram.
    return f"clamp_max(floor({mean_of_users()} / 5 + 1e-9) * 5, {BINS[-1]})"


def _padded(expr: str) -> str:
    return rf'label_replace({expr}, "bin", "0$1", "bin", "(\\d)")'


def _filled(expr: str) -> str:
    zeros = " or ".join(f'label_replace(vector(0), "bin", "{edge:02d}", "", "")' for edge in BINS)
    # Of nobody nothing is known: then there are no zeros, either.
    return f"({expr} or on (bin) ({zeros})) and on () count({mean_of_users()})"


def _sum(by: Iterable[str]) -> str:
    names = ", ".join(by)
    return f"sum by ({names})" if names else "sum"
