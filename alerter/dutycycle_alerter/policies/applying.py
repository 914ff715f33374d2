"""A pass under the site's policies: what is judged of which job, what becomes of its verdicts, and what is to be said.

Between reading the evidence and judging it stands `prepared`, between judging and folding `applied`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace

from dutycycle_alerter.declarations import NONE, Declarations
from dutycycle_alerter.incidents.audience import owner_hears
from dutycycle_alerter.incidents.expectations import Expectation
from dutycycle_alerter.incidents.model import Incident, OpenRule, Severity
from dutycycle_alerter.model import Evidence, GpuEvidence, Job, JobEvidence
from dutycycle_alerter.policies.exceptions import Effects, effects, in_force, is_about
from dutycycle_alerter.policies.expected import Expected
from dutycycle_alerter.policies.maintenance import Calendar, Quiet
from dutycycle_alerter.rules.verdict import Judgement, Outcome, Verdict
from dutycycle_alerter.scale import format_duration
from dutycycle_alerter.settings import Settings
from dutycycle_alerter.settings.calendar import zone_of
from dutycycle_alerter.settings.matching import kind_of
from dutycycle_alerter.settings.policies import Attention, Policy

ALL_RULES = "all"
"""What a job asks to ignore where it means every rule."""

_OWN_WISH = "excluded as the job itself asks, which the policies allow"
_REFUSED = "the job asked to be left out of this rule; no policy allows it"


@dataclass(frozen=True, slots=True)
class Applied:
    """A judgement under the policies. `excluded` are the rules that a policy takes the job out of, `expected`
    those that it is out of because people said that it was intended, `wished` those that it left by its own wish,
    `refused` those that it asked to leave in vain. `maintenance` is what goes on, None where nothing does.
    """

    judgement: Judgement
    excluded: Mapping[str, Policy] = field(default_factory=dict)
    expected: Mapping[str, Expectation] = field(default_factory=dict)
    wished: frozenset[str] = frozenset()
    refused: frozenset[str] = frozenset()
    maintenance: Quiet | None = None


class PoliciesInForce:
    """The site's policies at one instant. `settings` are scaled; `declared` is what jobs say of themselves, by id;
    `cluster_of` tells the cluster of a node, `partitions` are those of each node, as far as they are known.
    """

    def __init__(
        self,
        settings: Settings,
        now: float,
        declared: Mapping[str, Declarations] | None = None,
        *,
        cluster_of: Callable[[str], str] = lambda _: "",
        partitions: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self.now = now
        self._cluster_of = cluster_of
        self._partitions = partitions or {}
        self.settings = settings
        self.calendar = Calendar(settings.policies, now)
        self._live = in_force(settings.policies, now)
        self._declared = declared or {}
        self.expected = Expected((), zone_of(settings.policies.timezone))

    def expecting(self, said: Iterable[Expectation]) -> PoliciesInForce:
        """The same with what people said was intended, as far as it is in force."""
        other = copy(self)
        other.expected = Expected(said, zone_of(self.settings.policies.timezone))
        return other

    def prepared(self, evidence: Evidence) -> Evidence:
        """The evidence as it is to be judged: jobs of the kind that the site or they themselves say, and nothing of a
        time of maintenance.
        """
        return replace(
            evidence,
            jobs=[self._prepared_job(item) for item in evidence.jobs],
            gpus=[self._prepared_gpu(item) for item in evidence.gpus],
        )

    def applied(self, judgement: Judgement) -> Applied:
        """The judgement under the policies. `judgement` is of evidence that was prepared."""
        job = judgement.evidence.job
        found = effects(job, self._live)
        quiet = self.calendar.of_job(job)
        if judgement.evidence.ended is not None and not self.calendar.going_on(quiet):
            # What a job as a whole was like shows in spite of a maintenance in its life.
            quiet = None
        asked, allowed = self._wishes(job, judgement)
        intended = self.expected.of(job)
        if quiet is None and not found.policies and not asked and not intended:
            return Applied(judgement)
        excluded: dict[str, Policy] = {}
        expected: dict[str, Expectation] = {}
        wished, refused, verdicts = set(), set(), []
        for given in judgement.verdicts:
            verdict, rule = self._sheltered(given, quiet), given.rule
            if (policy := found.excluding(rule)) is not None and verdict.outcome is not Outcome.NOT_APPLICABLE:
                excluded[rule] = policy
                verdict = Verdict(rule, Outcome.EXCLUDED, verdict.window, reason=_excluded_by(policy))
            elif (said := intended.get(rule)) is not None and verdict.outcome is not Outcome.NOT_APPLICABLE:
                expected[rule] = said
                reason = self.expected.words(said)
                verdict = Verdict(rule, Outcome.EXCLUDED, verdict.window, reason=reason, intended=said)
            elif rule in allowed and verdict.outcome is not Outcome.NOT_APPLICABLE:
                wished.add(rule)
                verdict = Verdict(rule, Outcome.EXCLUDED, verdict.window, reason=_OWN_WISH)
            elif verdict.outcome is Outcome.FIRING:
                verdict = _told(verdict, found)
                if rule in asked:
                    refused.add(rule)
                    verdict = replace(verdict, reason=self._refusal(job))
            verdicts.append(verdict)
        return Applied(
            judgement=replace(judgement, verdicts=tuple(verdicts)),
            excluded=excluded,
            expected=expected,
            wished=frozenset(wished),
            refused=frozenset(refused),
            maintenance=quiet if self.calendar.going_on(quiet) else None,
        )

    def sustained(self, incident: Incident, nodes: Collection[str] = ()) -> Incident:
        """The incident; maintenance on its nodes counts as knowing of it: it is not lost while nobody can see. `nodes`
        are those of its job now, where a source shows it: pods move.
        """
        if not incident.state.active or incident.known_at >= self.now:
            return incident
        for node in set(nodes) or {gpu.node for gpu in incident.gpus}:
            # Of a job its own is known; an incident of a GPU or a node has none.
            partitions = (incident.partition,) if incident.partition else self._partitions.get(node, ())
            cluster = incident.cluster or self._cluster_of(node)
            if self.calendar.going_on(self.calendar.of_node(node, cluster=cluster, partitions=partitions)):
                return replace(incident, known_at=self.now)
        return incident

    def on_node(self, node: str) -> Quiet | None:
        """The maintenance that began last on a node, over or not; None where there was none of late."""
        partitions = self._partitions.get(node, ())
        return self.calendar.of_node(node, cluster=self._cluster_of(node), partitions=partitions)

    # The evidence

    def _prepared_job(self, item: JobEvidence) -> JobEvidence:
        job = self.completed(item.job)
        quiet = self.calendar.of_job(job)
        watched = item.watched_from if quiet is None else max(item.watched_from, quiet.until)
        if job is item.job and watched == item.watched_from:
            return item
        return replace(item, job=job, watched_from=watched)

    def completed(self, job: Job) -> Job:
        """The job with its kind, and whether its ranks differ by design: as the site says, else as it says itself."""
        said = self._declared.get(job.id, NONE)
        kind = kind_of(job, self.settings.kinds)
        if kind is None and said.kind is not None:
            trusted = any(match.matches_job(job) for match in self.settings.policies.opt_out.kinds)
            kind = said.kind if trusted else None
        uneven = (
            job.expect_uneven
            or said.expect_uneven
            or any(match.matches_job(job) for match in self.settings.uneven_by_design)
        )
        if kind in (None, job.kind) and uneven == job.expect_uneven:
            return job
        return replace(job, kind=kind or job.kind, expect_uneven=uneven)

    def _prepared_gpu(self, item: GpuEvidence) -> GpuEvidence:
        quiet = self.on_node(item.gpu.node)
        if quiet is None:
            return item
        xids = {xid: at for xid, at in item.xids.items() if not self._covered(item.gpu.node, at)}
        return replace(item, watched_from=max(item.watched_from, quiet.until), xids=xids)

    def _covered(self, node: str, at: float) -> bool:
        partitions = self._partitions.get(node, ())
        return self.calendar.covers(node, at, cluster=self._cluster_of(node), partitions=partitions)

    # The verdicts

    def _sheltered(self, verdict: Verdict, quiet: Quiet | None) -> Verdict:
        """Unknown while there is maintenance, and while the rule's window still shows some of it."""
        if quiet is None or verdict.outcome in (Outcome.NOT_APPLICABLE, Outcome.WAITING):
            return verdict
        if self.now >= quiet.until + verdict.window:
            return verdict
        return Verdict(verdict.rule, Outcome.UNKNOWN, verdict.window, reason=f"maintenance {quiet.name}")

    def _wishes(self, job: Job, judgement: Judgement) -> tuple[frozenset[str], frozenset[str]]:
        """The rules that a job asks to be left out of, and those of them that it may."""
        said = self._declared.get(job.id, NONE).ignore
        if not said:
            return frozenset(), frozenset()
        rules = [verdict.rule for verdict in judgement.verdicts]
        asked = frozenset(rule for rule in rules if rule in said or ALL_RULES in said)
        if self._too_long(job):
            return asked, frozenset()
        matches = [match for match in self.settings.policies.opt_out.allowed if is_about(match, job)]
        return asked, frozenset(rule for rule in asked if any(match.names(rule) for match in matches))

    def _too_long(self, job: Job) -> bool:
        return self.now - job.start > self.settings.policies.opt_out.longest

    def _refusal(self, job: Job) -> str:
        allowed = any(is_about(match, job) for match in self.settings.policies.opt_out.allowed)
        if allowed and self._too_long(job):
            longest = format_duration(self.settings.policies.opt_out.longest * self.settings.time_scale)
            return f"the job asked to be left out of this rule; after {longest} that no longer counts"
        return _REFUSED


def _excluded_by(policy: Policy) -> str:
    until = "" if policy.expires is None else f" until {policy.expires.isoformat()}"
    return f"excluded by policy {policy.name}{until}: {policy.reason}"


def _told(verdict: Verdict, found: Effects) -> Verdict:
    """A firing verdict at the severity of the operators, with what the job's user is to hear where that differs."""
    operators, user = found.for_operators(verdict.rule), found.for_user(verdict.rule)
    if operators is None:
        return verdict if user is None else replace(verdict, told=user)
    silent = operators is Attention.NONE
    severity = Severity.INFO if silent else Severity(operators.value)
    told = user or owner_hears(OpenRule(verdict.rule, 0.0, verdict.severity))
    return replace(verdict, severity=severity, told=told, silent=silent)
