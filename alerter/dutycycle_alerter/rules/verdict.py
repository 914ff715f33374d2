"""What a rule says of a job, and what all rules together say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from dutycycle_alerter.incidents.expectations import Expectation
from dutycycle_alerter.incidents.model import Cause, Severity
from dutycycle_alerter.model import Gpu, JobEvidence
from dutycycle_alerter.settings.policies import Attention

Reasons = tuple[tuple[Cause, ...], list[str]]
"""The causes that the evidence leaves, the likeliest first, and the sentences with the figures that picked them."""


class Outcome(StrEnum):
    """The answer of one rule on one job at one instant.

    Firing opens or keeps; clear closes; holding lies between the two and changes nothing. Waiting (too young), unknown
    (not measured well enough) change nothing either. Not evaluable (a kind of evidence that this GPU or node does not
    give) and not applicable (a rule that this kind of job is exempt from) count as not firing, and so does excluded (a
    policy of the site, or the job's own wish where the site allows it, takes the job out).
    """

    FIRING = "firing"
    CLEAR = "clear"
    HOLDING = "holding"
    WAITING = "waiting"
    UNKNOWN = "unknown"
    NOT_EVALUABLE = "not evaluable"
    NOT_APPLICABLE = "not applicable"
    EXCLUDED = "excluded"

    @property
    def closes(self) -> bool:
        """Whether an open rule ends with this answer."""
        return self in (Outcome.CLEAR, Outcome.NOT_EVALUABLE, Outcome.NOT_APPLICABLE, Outcome.EXCLUDED)

    @property
    def informed(self) -> bool:
        """Whether the answer rests on evidence."""
        return self in (Outcome.FIRING, Outcome.CLEAR, Outcome.HOLDING)


@dataclass(frozen=True, slots=True)
class Verdict:
    """One rule on one job. `gpus` are those concerned; `figures` the numbers that decided, ratios 0..1. Of a firing one
    `nearly` are these and all that do not do what clears it: what was concerned stays so until it does.

    `until` is the instant of the first possible verdict while waiting; `reason` says why it is unknown, not evaluable
    or excluded, and what else is to be known of a firing one. `told` is what a policy of the site says that the job's
    user is to hear of it; None where none says so. `silent`: by a policy operators are not to hear of it. `intended` is
    what somebody said of the job or its user where it is excluded because of that.
    """

    rule: str
    outcome: Outcome
    window: float = 0.0
    severity: Severity = Severity.WARNING
    gpus: tuple[Gpu, ...] = ()
    figures: Mapping[str, float] = field(default_factory=dict)
    reason: str = ""
    until: float | None = None
    told: Attention | None = None
    silent: bool = False
    intended: Expectation | None = None
    nearly: tuple[Gpu, ...] = ()


@dataclass(frozen=True, slots=True)
class Judgement:
    """Every rule's verdict on one job, in the order of precedence, and the evidence they rest on."""

    evidence: JobEvidence
    verdicts: tuple[Verdict, ...]

    def verdict(self, rule: str) -> Verdict:
        """One rule's verdict; KeyError for a rule that was not judged."""
        for verdict in self.verdicts:
            if verdict.rule == rule:
                return verdict
        raise KeyError(rule)

    @property
    def informed(self) -> bool:
        """Whether any rule could be decided."""
        return any(verdict.outcome.informed for verdict in self.verdicts)

    @property
    def first_verdict_at(self) -> float | None:
        """While every rule that applies still waits: when the first of them can speak. Otherwise None."""
        if self.informed or any(verdict.outcome is Outcome.UNKNOWN for verdict in self.verdicts):
            return None
        return min((v.until for v in self.verdicts if v.until is not None), default=None)
