"""The configuration: what it may contain, and its defaults. A module for each subject; here they come together.

Durations are written as Prometheus writes them. `Settings.scaled` is the only place where the time scale is applied to
them.
"""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from dutycycle_alerter.settings.calendar import Clock, Moment, Zone
from dutycycle_alerter.settings.job_rules import Grace, Idle, PartiallyIdle, Stalled, Underused, Uneven
from dutycycle_alerter.settings.judging import Judging, Rules
from dutycycle_alerter.settings.kubernetes import KubernetesCluster
from dutycycle_alerter.settings.matching import JobMatch, KindMatch, LabelPatterns, Patterns
from dutycycle_alerter.settings.notify import Notify
from dutycycle_alerter.settings.policies import Maintenance, OptOut, Policies, Policy, RuleNames
from dutycycle_alerter.settings.prometheus import Prometheus
from dutycycle_alerter.settings.scrape import COARSEST, ScrapeSource
from dutycycle_alerter.settings.slurm import Slurm
from dutycycle_alerter.settings.store import Retention
from dutycycle_alerter.settings.types import (
    LONGEST,
    SHORTEST,
    WINDOWS,
    Duration,
    Number,
    Ratio,
    RealDuration,
    Section,
    Window,
    divided,
)
from dutycycle_alerter.settings.web import Web

__all__ = [
    "COARSEST",
    "LONGEST",
    "SHORTEST",
    "WINDOWS",
    "Clock",
    "Costs",
    "Duration",
    "Grace",
    "Idle",
    "JobMatch",
    "Judging",
    "KindMatch",
    "KubernetesCluster",
    "LabelPatterns",
    "Maintenance",
    "Moment",
    "Notify",
    "Number",
    "OptOut",
    "PartiallyIdle",
    "Patterns",
    "Policies",
    "Policy",
    "Prometheus",
    "Ratio",
    "RealDuration",
    "Retention",
    "RuleNames",
    "Rules",
    "Schedule",
    "ScrapeSource",
    "Section",
    "Settings",
    "Slurm",
    "Stalled",
    "Underused",
    "Uneven",
    "Web",
    "Window",
    "Zone",
]


class Schedule(Section):
    """When the alerter works."""

    pass_interval: Duration = 60
    """Time between two passes of judging."""
    housekeeping_interval: Duration = 3600
    """Time between two deletions of what is older than its retention."""


class Costs(Section):
    """What a wasted GPU-hour means in money and carbon. Without a figure it is not shown."""

    gpu_hour: Number | None = Field(default=None, ge=0)
    """Price of a GPU-hour."""
    currency: str = Field(default="USD", max_length=8)
    """Its currency."""
    co2_grams_per_kwh: Number | None = Field(default=None, ge=0)
    """Carbon intensity of the site's electricity."""


class Settings(Section):
    """The whole configuration of the alerter."""

    time_scale: Number = Field(default=1, gt=0, le=3600)
    """Every duration is divided by this; 1 in production, more for tests, replays and the demo."""
    database: str = "sqlite:///dutycycle.sqlite3"
    """URL of the store: sqlite:///FILE or postgresql://USER@HOST/NAME, with libpq's options and `password_file` in its
    query.
    """
    retention: Retention = Retention()
    replica: str = Field(default="", max_length=100)
    """How this alerter is called where several share a PostgreSQL database; empty: by host name and process."""
    source: ScrapeSource = ScrapeSource()
    prometheus: Prometheus | None = None
    """Where a PromQL engine scrapes the exporters: given this, the alerter does not scrape them itself."""
    slurm: Slurm | None = None
    """Slurm's own word on its jobs; `slurm: {}` runs its commands."""
    kubernetes: tuple[KubernetesCluster, ...] = Field(default=(), max_length=64)
    """Kubernetes clusters whose API servers say to which job a pod belongs; `kubernetes: [{}]` is the alerter's own."""
    schedule: Schedule = Schedule()
    judging: Judging = Judging()
    kinds: tuple[KindMatch, ...] = ()
    """Which jobs are interactive or serving; all others are batch."""
    uneven_by_design: tuple[JobMatch, ...] = ()
    """Jobs whose ranks differ on purpose: the rule `uneven` leaves them alone."""
    policies: Policies = Policies()
    costs: Costs = Costs()
    notify: Notify = Notify()
    web: Web = Web()

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.source.resolution < self.source.interval:
            raise ValueError("source.resolution must not be shorter than source.interval")
        if self.prometheus is not None and "targets" in self.source.model_fields_set:
            raise ValueError("prometheus and source.targets exclude each other: remove one")
        names = [one.cluster for one in self.kubernetes]
        if len(names) > 1 and ("" in names or len(set(names)) < len(names)):
            raise ValueError("kubernetes: of several clusters each needs a cluster name of its own")
        if self.prometheus is not None:
            step = 1000 * self.prometheus.scrape_interval / self.time_scale
            if abs(step - round(step)) > 1e-6 * step:
                # PromQL knows no shorter time: usage would be asked for at steps that drift from the spans.
                raise ValueError("prometheus.scrape_interval divided by time_scale must be whole milliseconds")
            if self.prometheus.recorded and step >= 60_000:
                # The rules look back a minute: with one scrape in it they copy gaps.
                raise ValueError("prometheus.recorded needs a prometheus.scrape_interval under a minute of real time")
        return self

    def scaled(self) -> Settings:
        """The same settings with every duration in wall seconds: divided by `time_scale`. Idempotent it is not."""
        return divided(self, self.time_scale)
