"""Policies of the site: who is left out or told otherwise, until when and why, and when the machines are maintained."""

from __future__ import annotations

import difflib
from enum import StrEnum
from typing import Annotated, Self

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from dutycycle_alerter.settings import calendar
from dutycycle_alerter.settings.calendar import Clock, Day, Moment, Zone, zone_of
from dutycycle_alerter.settings.judging import Rules
from dutycycle_alerter.settings.matching import ANY, JobMatch, Patterns
from dutycycle_alerter.settings.types import Duration, Section

_DEVICE_RULES = ("gpu_fault", "leaked_memory", "throttled")
JOB_RULES = tuple(name for name in Rules.model_fields if name not in _DEVICE_RULES)
"""The rules that policies are about: faults are for operators, whoever has the GPU."""

Name = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=60)]
Reason = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=300)]


def _known_rules(names: tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        if name not in JOB_RULES:
            near = difflib.get_close_matches(name[:80], JOB_RULES, n=1)
            hint = f"did you mean {near[0]!r}?" if near else "rules on jobs: " + ", ".join(JOB_RULES)
            raise ValueError(f"there is no rule {name[:80]!r} on jobs: {hint}")
    return names


RuleNames = Annotated[tuple[str, ...], AfterValidator(_known_rules)]


class Attention(StrEnum):
    """How much of a finding somebody is to hear: nothing, or at this severity."""

    NONE = "none"
    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"


class RuleMatch(JobMatch):
    """Jobs of which every field matches, and rules on them."""

    kind: Patterns = ANY
    """Pattern of its kind: `batch`, `interactive`, `serving`."""
    rules: RuleNames = ()
    """The rules that are meant; all of them where none is given."""

    def names(self, rule: str) -> bool:
        """Whether this rule is meant."""
        return not self.rules or rule in self.rules


class Policy(RuleMatch):
    """What is done otherwise with some jobs. Of each of its effects, the first policy in force that has it counts."""

    name: Name
    """What it is called where it is spoken of."""
    reason: Reason
    """Why; shown wherever the policy has an effect."""
    expires: Moment | None = None
    """Until when it is in force: to the end of a day, or up to an instant."""
    exclude: bool | None = None
    """Leave these jobs out; `false` keeps them in though a later policy leaves them out."""
    operator_severity: Attention | None = None
    """The severity for operators, whatever the rule says; `none` is information that is sent to nobody."""
    user_severity: Attention | None = None
    """The severity for the job's user; information and `none` are never sent."""

    @model_validator(mode="after")
    def _has_effect(self) -> Self:
        if all(effect is None for effect in (self.exclude, self.operator_severity, self.user_severity)):
            raise ValueError(f"the policy {self.name!r} does nothing: give exclude, operator_severity or user_severity")
        return self


class OptOut(Section):
    """Whether a job may ask to be left out, by Slurm's `--comment=dutycycle:...` or an annotation of its pods."""

    allowed: tuple[RuleMatch, ...] = ()
    """Jobs that may, and of which rules; all others are judged, and what they asked is shown to operators."""
    kinds: tuple[JobMatch, ...] = ()
    """Jobs that may say of which kind they are."""
    longest: Duration = 7 * 86400
    """A job that has run for longer than this is judged whatever it asked."""


class Expectations(Section):
    """What people may say was intended. It takes a job or a user out of the rules that had fired, until it expires."""

    longest: Duration = 90 * 86400
    """For how long at most."""
    owners: bool = True
    """Whether users may say so of their own jobs; else operators alone."""
    of_users: bool = True
    """Whether all jobs of a user may be marked as intended, not only the one job."""


class Maintenance(Section):
    """A time in which nothing opens, and nothing resolves for lack of evidence: once, or every week."""

    name: Name
    """What it is called where it is spoken of."""
    reason: Reason
    """Why; shown while it is going on."""
    node: Patterns = ANY
    """Pattern of the nodes; a job with one of them is under maintenance as a whole."""
    partition: Patterns = ANY
    """Pattern of the Slurm partitions."""
    cluster: Patterns = ANY
    """Pattern of the clusters."""
    start: Moment | None = None
    """When it begins, where it happens once."""
    end: Moment | None = None
    """When it is over; a day counts as a whole."""
    days: tuple[Day, ...] = ()
    """The days on which it opens, where it happens every week; every day where none is given."""
    opens: Clock | None = None
    """The time of day at which it opens."""
    closes: Clock | None = None
    """The time of day at which it closes, on the next day where that is not later."""
    timezone: Zone | None = None
    """The zone of these days and times; that of the policies where it is not given."""

    @model_validator(mode="after")
    def _once_or_weekly(self) -> Self:
        once = self.start is not None and self.end is not None
        weekly = self.opens is not None and self.closes is not None
        half = (self.start is None) != (self.end is None) or (self.opens is None) != (self.closes is None)
        if half or once == weekly or (once and self.days):
            raise ValueError(f"the maintenance {self.name!r} needs start and end, or opens and closes (and days)")
        if self.opens is not None and self.opens == self.closes:
            raise ValueError(f"the maintenance {self.name!r} closes when it opens: a whole day is 00:00 to 24:00")
        if self.opens == "24:00":
            raise ValueError(f"the maintenance {self.name!r} opens at the end of a day: write 00:00")
        return self


class Policies(Section):
    """What the site does otherwise than the rules say, and when its machines are maintained."""

    timezone: Zone = "UTC"
    """The zone of days and times that name none."""
    exceptions: tuple[Policy, ...] = ()
    """The policies, in the order in which they count."""
    opt_out: OptOut = OptOut()
    expectations: Expectations = Expectations()
    maintenance: tuple[Maintenance, ...] = Field(default=())
    """Times of maintenance."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for what, names in (
            ("policies", [policy.name for policy in self.exceptions]),
            ("times of maintenance", [window.name for window in self.maintenance]),
        ):
            twice = next((name for place, name in enumerate(names) if name in names[:place]), None)
            if twice is not None:
                raise ValueError(f"two {what} are called {twice!r}")
        for window in self.maintenance:
            zone = zone_of(window.timezone or self.timezone)
            if window.start is None or window.end is None:
                continue
            if calendar.beginning(window.start, zone) >= calendar.end(window.end, zone):
                raise ValueError(f"the maintenance {window.name!r} ends before it begins")
        return self
