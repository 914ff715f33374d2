"""Any sequence of evidence and actions keeps an incident consistent."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from dutycycle_alerter.errors import TransitionError
from dutycycle_alerter.incidents.actions import acknowledge, resolve, snooze
from dutycycle_alerter.incidents.lifecycle import advance
from dutycycle_alerter.incidents.model import EventKind, Incident, State, Step
from dutycycle_alerter.model import Consumption, JobEvidence
from dutycycle_alerter.rules import judge
from dutycycle_alerter.settings import Rules
from tests.alerter.cases import LATER, SETTINGS, evidence, moved
from tests.alerter.rules.spinning import at_power, counters
from tests.alerter.rules.test_rules import NO_GAPS, gaps

EVIDENCE: dict[str, JobEvidence] = {
    "healthy": evidence([0.95, 0.95], gpu_fields=NO_GAPS | at_power(400) | counters(sm=0.8)),
    "hung, perhaps": evidence([1.0, 1.0], gpu_fields=NO_GAPS | at_power(75)),
    "hung": evidence([1.0, 1.0], gpu_fields=NO_GAPS | at_power(75) | counters(sm=0.1, tensor=0.0, dram=0.0)),
    "hung in part": evidence([1.0, 0.0], gpu_fields=NO_GAPS | at_power(75) | counters(tensor=0.0)),
    "small kernels": evidence([0.9, 0.9], gpu_fields=NO_GAPS | at_power(200) | counters(sm=0.05)),
    "idle": evidence([0.0, 0.0], gpu_fields=NO_GAPS),
    "nearly idle": evidence([0.01, 0.01], gpu_fields=NO_GAPS),
    "partially idle": evidence([0.9, 0.0], gpu_fields=NO_GAPS),
    "stalled": evidence([0.3, 0.3], gpu_fields=gaps(0.4)),
    "uneven": evidence([0.9, 0.3], gpu_fields=NO_GAPS),
    "underused": evidence([0.1, 0.1], gpu_fields=NO_GAPS),
    "unknown": evidence([0.0, 0.0], coverage=0.2),
    "invisible": replace(evidence([0.0, 0.0]), visible=False),
    "ended": replace(evidence([0.0, 0.0]), ended=LATER),
}
moves = st.lists(
    st.tuples(
        st.sampled_from([*EVIDENCE, "acknowledge", "snooze", "resolve"]),
        st.sampled_from([1.0, 60.0, 600.0, 3600.0, 90000.0]),
    ),
    max_size=30,
)


@given(moves)
def test_any_life_is_consistent(sequence: list[tuple[str, float]]) -> None:
    now, current, ids = LATER, None, 0
    wasted: dict[int, float] = {}
    for name, pause in sequence:
        now += pause
        result = _apply(current, name, now)
        if result is None:
            continue
        before, current = current, result.incident
        if current is None:
            assert result.events == ()
            continue
        if current.id == 0:
            # A new incident opens only where none is active.
            assert before is None or not before.state.active
            ids += 1
            current = replace(current, id=ids)
        _check(before, current, result)
        if name in EVIDENCE and name not in ("unknown", "invisible") and current.state.active:
            assert current.rule in {rule.rule for rule in current.rules}
        assert current.job_wasted >= wasted.get(current.id, 0.0)
        wasted[current.id] = current.job_wasted


def _apply(current: Incident | None, name: str, now: float) -> Step | None:
    if name in EVIDENCE:
        item = replace(moved(EVIDENCE[name], now), recent=(Consumption("H200", 60, 60, 30, 1.0),))
        return advance(current, judge(item, SETTINGS), SETTINGS)
    if current is None:
        return None
    try:
        if name == "acknowledge":
            return acknowledge(current, actor="bob", now=now)
        if name == "snooze":
            return snooze(current, until=now + 1800, actor="bob", now=now)
        return resolve(current, actor="bob", now=now)
    except TransitionError:
        return None


def _check(before: Incident | None, after: Incident, result: Step) -> None:
    kinds = [event.kind for event in result.events]
    # A change of state is an event, and without an event nothing that people see has changed.
    if before is not None and before.id == after.id and not result.events:
        assert (before.state, before.severity, before.rule) == (after.state, after.severity, after.rule)
        assert before.diagnosis == after.diagnosis
    if after.state.active:
        assert after.rules
        assert after.resolved_at is None
        assert after.resolution is None
        assert (after.state is State.SNOOZED) == (after.snoozed_until is not None)
    else:
        assert after.resolved_at is not None
        assert after.resolution is not None
        assert after.resolved_at >= after.opened_at
    assert [Rules.ORDER.index(rule.rule) for rule in after.rules] == sorted(
        Rules.ORDER.index(rule.rule) for rule in after.rules
    )
    assert kinds.count(EventKind.RESOLVED) + kinds.count(EventKind.OPENED) <= 1
