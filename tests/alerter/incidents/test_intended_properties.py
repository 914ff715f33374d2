"""Whatever is said, withdrawn, expires and clears between passes: one incident at a time, quiet while it is meant to
be, and never shut for good.
"""

from __future__ import annotations

from dataclasses import replace

from hypothesis import example, given, settings
from hypothesis import strategies as st

from dutycycle_alerter.errors import TransitionError
from dutycycle_alerter.incidents.actions import acknowledge, intend, resolve, snooze
from dutycycle_alerter.incidents.expectations import Expectation, Scope, expected_of, extending, withdrawn
from dutycycle_alerter.incidents.lifecycle import advance
from dutycycle_alerter.incidents.model import EventKind, Incident, Resolution, State, Step
from dutycycle_alerter.model import JobEvidence
from dutycycle_alerter.policies import PoliciesInForce
from dutycycle_alerter.rules import judge
from dutycycle_alerter.settings import Settings
from dutycycle_alerter.settings.policies import Expectations
from tests.alerter.cases import LATER, SETTINGS, evidence, moved

HOUR, DAY = 3600.0, 86400.0
EVIDENCE: dict[str, JobEvidence] = {
    "healthy": evidence([0.95, 0.95]),
    "idle": evidence([0.0, 0.0]),
    "partially idle": evidence([0.9, 0.0]),
    "underused": evidence([0.1, 0.1]),
    "unknown": evidence([0.0, 0.0], coverage=0.2),
}
PEOPLE = ("acknowledge", "snooze", "resolve", "intend job", "intend user", "withdraw")
moves = st.lists(
    st.tuples(st.sampled_from([*EVIDENCE, *PEOPLE]), st.sampled_from([1.0, 60.0, 600.0, HOUR, 12 * HOUR])), max_size=30
)


class Life:
    """A job's incidents, what was said of them, and what passes make of both."""

    def __init__(self) -> None:
        self.now = LATER
        self.incidents: list[Incident] = []
        self.said: list[Expectation] = []

    @property
    def latest(self) -> Incident | None:
        return self.incidents[-1] if self.incidents else None

    def passes(self, name: str) -> None:
        """One pass over this evidence."""
        judgement = judge(moved(EVIDENCE[name], self.now), SETTINGS)
        covered = {rule for one in self.said if one.in_force(self.now) for rule in one.rules}
        policies = PoliciesInForce(Settings(), self.now).expecting(one for one in self.said if one.in_force(self.now))
        before = self.latest
        step = advance(before, policies.applied(judgement).judgement, SETTINGS)
        self._kept(step)
        if EventKind.OPENED in {event.kind for event in step.events}:
            assert before is None or not before.state.active
        after = self.latest
        if after is not None and after.state.active:
            assert not covered & {rule.rule for rule in after.rules} or name == "unknown"
        if before is not None and before.resolution is Resolution.INTENDED and after is before:
            firing = {verdict.rule for verdict in judgement.verdicts if verdict.outcome.value == "firing"}
            assert firing <= covered, "it stays shut although nobody says so any more"

    def acts(self, name: str) -> None:
        """Somebody does something."""
        if name == "withdraw":
            held = [n for n, one in enumerate(self.said) if one.in_force(self.now)]
            if held:
                self.said[held[0]] = withdrawn(self.said[held[0]], actor="carol", now=self.now)
            return
        item = self.latest
        if item is None:
            return
        try:
            if name == "acknowledge":
                self._kept(acknowledge(item, actor="bob", now=self.now))
            elif name == "snooze":
                self._kept(snooze(item, until=self.now + HOUR, actor="bob", now=self.now))
            elif name == "resolve":
                self._kept(resolve(item, actor="bob", now=self.now))
            else:
                self._kept(intend(item, self._say(item, Scope(name.split()[1]))))
        except TransitionError:
            assert item.state is State.RESOLVED

    def _say(self, item: Incident, scope: Scope) -> Expectation:
        one = expected_of(
            item,
            scope=scope,
            actor="bob",
            reason="it waits",
            now=self.now,
            until=self.now + DAY,
            limits=Expectations(),
        )
        kept = extending(self.said, one)
        if kept.id:
            self.said[kept.id - 1] = kept
            return kept
        self.said.append(replace(kept, id=len(self.said) + 1))
        return self.said[-1]

    def _kept(self, step: Step) -> None:
        if step.incident is None:
            return
        if step.incident.id:
            self.incidents[step.incident.id - 1] = step.incident
        else:
            self.incidents.append(replace(step.incident, id=len(self.incidents) + 1))
        assert sum(incident.state.active for incident in self.incidents) <= 1
        for incident in self.incidents:
            assert incident.state.active == (incident.resolution is None)


@settings(max_examples=100)
@given(moves)
@example([("idle", 60.0), ("intend job", 60.0), ("withdraw", 60.0), ("idle", 60.0)])
def test_it_is_quiet_while_that_holds_and_speaks_again_afterwards(sequence: list[tuple[str, float]]) -> None:
    life = Life()
    for name, pause in sequence:
        life.now += pause
        if name in EVIDENCE:
            life.passes(name)
        else:
            life.acts(name)
    # All that was said is over.
    life.now += 2 * DAY
    if life.latest is not None and life.latest.resolution is Resolution.OPERATOR:
        life.passes("healthy")  # it has to clear once, and a window to pass after that
        life.now += DAY
    for _ in range(2):  # a rule does not join in the pass in which another leaves
        life.passes("idle")
        life.now += HOUR
    assert life.latest is not None
    assert life.latest.state.active
    assert "idle" in {rule.rule for rule in life.latest.rules}
