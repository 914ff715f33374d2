"""What a query is made of: selectors of metrics, labels by which answers are told apart, lengths of time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dutycycle_alerter.promql.text import selector
from dutycycle_alerter.settings import WINDOWS, Settings
from dutycycle_alerter.settings.prometheus import Prometheus
from dutycycle_alerter.sources.prometheus.recorded import COPIED, copy_of

DEVICE = ("node", "gpu_uuid", "mig")
KEY = (*DEVICE, "workload")
"""One workload on one GPU."""
HOLDING = ("cluster", "node", "gpu", "gpu_uuid", "mig", "workload", "model")
JOB = ("cluster", "workload")
OWNER = (*JOB, "scheduler", "namespace", "pod", "job_id", "user", "account", "partition")
LABEL = (*JOB, "label", "value")
HOST = ("node", "workload")
GPU = ("node", "gpu", "gpu_uuid", "mig", "model")
ACCOUNT = ("cluster", "node", "gpu_uuid", "mig", "workload", "model")

XID_LOOKBACK = 7200.0
MANY_MINUTES = 1200.0
"""A window that is read from the copies of a minute holds many of them, also at another time scale."""


@dataclass(frozen=True, slots=True)
class Query:
    """One query. `labels` tell the answer's series apart; `window` is the length in wall seconds that it is about."""

    name: str
    text: str
    labels: tuple[str, ...]
    window: float = 0.0
    optional: bool = False
    """Whether the pass goes on without an answer."""
    samples: bool = False
    """Whether the answer is a matrix."""


class Selectors:
    """Makes selectors of metrics; `interval` is the engine's scrape interval, and `xid_lookback` how far back XIDs are
    looked for, in wall seconds.
    """

    def __init__(self, settings: Settings, shard: tuple[str, ...]) -> None:
        section = settings.prometheus or Prometheus()
        self.interval = section.scrape_interval
        self.xid_lookback = XID_LOOKBACK / settings.time_scale
        self._matchers = (*section.matchers, *shard)
        long = max(WINDOWS[2] / settings.time_scale, MANY_MINUTES)
        self._recorded_from = long if section.recorded else float("inf")

    def __call__(self, metric: str, *conditions: str) -> str:
        """The metric's series of this site and shard that fulfil the conditions."""
        return selector(metric, (*conditions, *self._matchers))

    def increase(self, metric: str, window: float, *conditions: str) -> str:
        """Growth of a counter over the window, from its copy where there is one."""
        if metric in COPIED and window >= self._recorded_from:
            metric = copy_of(metric)
        return f"increase({self(metric, *conditions)}[{duration(window)}])"


def by(aggregation: str, labels: Iterable[str], expression: str) -> str:
    """An aggregation that keeps these labels."""
    return f"{aggregation} by ({', '.join(labels)}) ({expression})"


def on(labels: Iterable[str]) -> str:
    """What two vectors are matched by."""
    return f"on ({', '.join(labels)})"


def duration(seconds: float) -> str:
    """As PromQL writes it, to the millisecond."""
    return f"{max(1, round(seconds * 1000))}ms"
