"""The configuration: what it may contain, and its defaults.

Every number of the rules is here, with the default that DESIGN section 5 gives. Durations are written as Prometheus
writes them. `Settings.scaled` is the only place where the time scale is applied to them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Annotated, Any, ClassVar, Self, TypeVar, get_args, get_type_hints

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, model_validator

from dutycycle_alerter.model import JobKind
from dutycycle_alerter.scale import parse_duration, write_duration

WINDOWS = (900.0, 1800.0, 7200.0, 86400.0)
"""The evidence windows in seconds: a fixed set, so that the number of queries in a pass does not grow with the
rules.
"""
COARSEST = WINDOWS[0] / 3
"""Points of counters may lie this far apart in seconds: the shortest window still has three."""

_SCALED = "scaled by time_scale"


SHORTEST, LONGEST = 0.001, 36500 * 86400.0
"""Bounds of every duration in seconds, before scaling: what a scheduler can count in."""


def _no_bool(value: object) -> object:
    # YAML reads yes and on as true, and true would count as 1.
    if isinstance(value, bool):
        raise ValueError(f"expected a number, found {str(value).lower()}")  # noqa: TRY004 - pydantic wants ValueError
    return value


def _to_seconds(value: object) -> object:
    return parse_duration(value) if isinstance(value, str) else _no_bool(value)


def _within_bounds(seconds: float) -> float:
    if not SHORTEST <= seconds <= LONGEST:
        raise ValueError(f"a duration lies between {write_duration(SHORTEST)} and {write_duration(LONGEST)}")
    return seconds


def _one_of_windows(seconds: float) -> float:
    if seconds not in WINDOWS:
        raise ValueError("a window is one of 15m, 30m, 2h, 24h")
    return seconds


def _fine_enough(seconds: float) -> float:
    if seconds > COARSEST:
        raise ValueError(f"must not be longer than {write_duration(COARSEST)}: the shortest window needs points within")
    return seconds


def _long_enough(seconds: float) -> float:
    if seconds < WINDOWS[-1]:
        raise ValueError(f"must not be shorter than {write_duration(WINDOWS[-1])}, the longest window of the rules")
    return seconds


def _http_url(url: str) -> str:
    if not re.fullmatch(r"https?://[^/\s]\S*", url):
        raise ValueError("a target is a URL like http://gpu01:9836/metrics")
    return url


_Seconds = Annotated[float, BeforeValidator(_to_seconds), PlainSerializer(write_duration, when_used="json")]
Duration = Annotated[_Seconds, AfterValidator(_within_bounds), _SCALED]
RealDuration = Annotated[_Seconds, AfterValidator(_within_bounds)]
"""A time-out on a real call: the time scale does not shorten it."""
Window = Annotated[_Seconds, AfterValidator(_one_of_windows), _SCALED]
Number = Annotated[float, BeforeValidator(_no_bool), Field(allow_inf_nan=False)]
Ratio = Annotated[Number, Field(ge=0, le=1)]

_Model = TypeVar("_Model", bound="Section")


class Section(BaseModel):
    """A part of the configuration; unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    RISING: ClassVar[tuple[tuple[str, str], ...]] = ()
    """Pairs of keys of which the first must be lower: what opens a rule must not be what clears it."""

    @model_validator(mode="after")
    def _rising(self) -> Self:
        for lower, higher in self.RISING:
            if getattr(self, lower) >= getattr(self, higher):
                raise ValueError(f"{lower} must be lower than {higher}")
        return self


class Grace(Section):
    """How long a young job is left alone, counted from its first process, else from its allocation."""

    batch: Duration = 600
    """A batch or serving job."""
    loading: Duration = 1200
    """The same, at most, while the job's GPU memory still grows."""
    interactive: Duration = 3600
    """Notebooks and shells."""


class Idle(Section):
    """Every GPU of the job does nothing."""

    RISING = (("below", "clear_above"),)

    enabled: bool = True
    """Whether the rule is judged at all."""
    below: Ratio = 0.005
    """Utilization at or under this is idle."""
    window: Window = 1800
    """What the rule looks at; it is judged once all of it lies after grace."""
    critical_window: Window = 7200
    """Critical when it also holds over this long."""
    serving_window: Window = 86400
    """The window for serving jobs."""
    clear_above: Ratio = 0.02
    """It clears when some GPU was above this over the clearing window."""
    clear_window: Window = 900
    """The clearing window."""


class PartiallyIdle(Section):
    """Some GPUs of the job do nothing while another works."""

    RISING = (("below", "clear_above"), ("below", "busiest_at_least"))

    enabled: bool = True
    """Whether the rule is judged at all."""
    below: Ratio = 0.005
    """A GPU at or under this is idle."""
    busiest_at_least: Ratio = 0.15
    """The busiest GPU of the job must reach this."""
    window: Window = 1800
    """What the rule looks at; it is judged once all of it lies after grace."""
    clear_above: Ratio = 0.02
    """It clears when every GPU is above this."""


class Stalled(Section):
    """The GPUs wait, again and again, for something that feeds them."""

    RISING = (
        ("at_least", "below"),
        ("below", "clear_above"),
        ("clear_gap_share", "gap_share"),
        ("clear_cpu_of_limit", "cpu_of_limit"),
        ("clear_pressure", "pressure"),
    )

    enabled: bool = True
    """Whether the rule is judged at all."""
    at_least: Ratio = 0.05
    """Mean utilization from which on the rule looks."""
    below: Ratio = 0.70
    """Mean utilization from which on a job is not stalled."""
    gap_share: Ratio = 0.20
    """Time in idle gaps of up to 30 s, as a share of the measured time."""
    cpu_of_limit: Ratio = 0.90
    """CPU use as a share of the job's limit, on the node where it is highest."""
    pressure: Ratio = 0.20
    """Share of time in which some task waited for I/O or a CPU (PSI), the higher of both."""
    window: Window = 900
    """What the rule looks at; it is judged once all of it lies after grace."""
    clear_above: Ratio = 0.80
    """It clears above this mean utilization, or when every signal that is known lies under its bound below."""
    clear_gap_share: Ratio = 0.12
    """Clearing bound of `gap_share`."""
    clear_cpu_of_limit: Ratio = 0.80
    """Clearing bound of `cpu_of_limit`."""
    clear_pressure: Ratio = 0.12
    """Clearing bound of `pressure`."""


class Uneven(Section):
    """Some GPUs or nodes of the job work much less than others."""

    RISING = (("clear_spread", "spread"),)

    enabled: bool = True
    """Whether the rule is judged at all."""
    spread: Ratio = 0.40
    """1 - min/max, over the job's GPUs and over its nodes' means."""
    busiest_at_least: Ratio = 0.30
    """The busiest GPU or node must reach this."""
    window: Window = 1800
    """What the rule looks at; it is judged once all of it lies after grace."""
    clear_spread: Ratio = 0.30
    """It clears under this spread."""


class Underused(Section):
    """The GPUs work little, and no other rule says why."""

    RISING = (("below", "clear_above"),)

    enabled: bool = True
    """Whether the rule is judged at all."""
    below: Ratio = 0.25
    """Mean utilization of the job under this."""
    critical_below: Ratio = 0.15
    """Critical under this."""
    window: Window = 1800
    """What the rule looks at; it is judged once all of it lies after grace."""
    clear_above: Ratio = 0.32
    """It clears above this."""

    @model_validator(mode="after")
    def _critical_within(self) -> Self:
        if self.critical_below > self.below:
            raise ValueError("critical_below must not be higher than below")
        return self


class Rules(Section):
    """Every rule, in the order of precedence: a job's first open rule is its incident's primary one."""

    ORDER: ClassVar[tuple[str, ...]] = ("idle", "partially_idle", "stalled", "uneven", "underused")
    RESIDUAL: ClassVar[str] = "underused"
    """The rule that has something to say only where no other has."""

    idle: Idle = Idle()
    partially_idle: PartiallyIdle = PartiallyIdle()
    stalled: Stalled = Stalled()
    uneven: Uneven = Uneven()
    underused: Underused = Underused()


class Judging(Section):
    """What holds for every rule."""

    grace: Grace = Grace()
    coverage: Ratio = 0.80
    """A GPU that was measured for less of the window than this is unknown."""
    lost_after: Duration = 86400
    """An incident about which nothing has been known for this long is resolved as lost."""
    reopen_within: Duration = 7200
    """A condition that returns within this time reopens its incident instead of opening another."""
    rules: Rules = Rules()


class JobMatch(Section):
    """Jobs of which every field matches the given shell-style pattern."""

    workload: str = "*"
    """Pattern of the job's id, such as `slurm/12*`."""
    user: str = "*"
    """Pattern of its user."""
    account: str = "*"
    """Pattern of its account."""
    partition: str = "*"
    """Pattern of its Slurm partition."""
    namespace: str = "*"
    """Pattern of its Kubernetes namespace."""

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether a job with these labels is meant."""
        return all(fnmatchcase(labels.get(name, ""), getattr(self, name)) for name in JobMatch.model_fields)


class KindMatch(JobMatch):
    """Jobs of this kind; the first match counts."""

    kind: JobKind
    """What such jobs are."""


class ScrapeSource(Section):
    """Scrapes the exporters itself: one box, no Prometheus."""

    targets: tuple[Annotated[str, AfterValidator(_http_url)], ...] = ("http://127.0.0.1:9836/metrics",)
    """The exporters' pages."""
    interval: Duration = 15
    """Time between two scrapes; the exporter's --series-hold is twice this."""
    timeout: RealDuration = 5
    """How long one answer may take."""
    resolution: Annotated[Duration, AfterValidator(_fine_enough)] = 60
    """One row of counters is kept for each of these; 5m at most."""
    retention: Annotated[Duration, AfterValidator(_long_enough)] = 7 * 86400
    """Rows older than this are deleted, 24h at least are kept; the usage ledger stays."""


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


class Web(Section):
    """The page and its API."""

    listen_address: str = "127.0.0.1:9837"
    """[HOST]:PORT of the page and its API."""
    allowed_hosts: tuple[str, ...] = ()
    """Host names under which a proxy serves the page, beside localhost and the listen address."""


class Settings(Section):
    """The whole configuration of the alerter."""

    time_scale: Number = Field(default=1, gt=0, le=3600)
    """Every duration is divided by this; 1 in production, more for tests, replays and the demo."""
    database: str = "sqlite:///dutycycle.sqlite3"
    """SQLAlchemy URL of the store."""
    source: ScrapeSource = ScrapeSource()
    schedule: Schedule = Schedule()
    judging: Judging = Judging()
    kinds: tuple[KindMatch, ...] = ()
    """Which jobs are interactive or serving; all others are batch."""
    uneven_by_design: tuple[JobMatch, ...] = ()
    """Jobs whose ranks differ on purpose: the rule `uneven` leaves them alone."""
    costs: Costs = Costs()
    web: Web = Web()

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.source.resolution < self.source.interval:
            raise ValueError("source.resolution must not be shorter than source.interval")
        return self

    def scaled(self) -> Settings:
        """The same settings with every duration in wall seconds: divided by `time_scale`. Idempotent it is not."""
        return _divide(self, self.time_scale)


def _divide(section: _Model, factor: float) -> _Model:
    hints = get_type_hints(type(section), include_extras=True)
    changed: dict[str, Any] = {}
    for name in type(section).model_fields:
        value = getattr(section, name)
        if isinstance(value, Section):
            changed[name] = _divide(value, factor)
        elif _SCALED in get_args(hints[name]):
            changed[name] = value / factor
    return section.model_copy(update=changed)
