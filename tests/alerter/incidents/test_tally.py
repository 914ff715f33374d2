"""What became of incidents is counted once each, and never less."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from dutycycle_alerter.incidents.model import EventKind
from dutycycle_alerter.incidents.tally import BOUNDS, Happened, Tally

NOW = 1_790_000_000.0


def happened(event: EventKind, incident_id: int = 7, **changes: object) -> Happened:
    one = Happened(
        number=1,
        event=event,
        at=NOW,
        incident_id=incident_id,
        kind="efficiency",
        rule="idle",
        severity="warning",
        resolution="",
        opened_at=NOW - 3600,
        resolved_at=None,
        wasted=100.0,
    )
    return replace(one, **changes)  # type: ignore[arg-type]


def ended(incident_id: int = 7, **changes: object) -> Happened:
    return happened(EventKind.RESOLVED, incident_id, resolution="ended", **changes)


def test_what_opens_reopens_and_ends_is_counted_by_its_rule() -> None:
    tally = Tally().with_(
        [
            happened(EventKind.OPENED, 1),
            happened(EventKind.OPENED, 2, rule="hung", severity="critical"),
            happened(EventKind.REOPENED, 2, rule="hung"),
            ended(1, rule="stalled"),
        ]
    )
    assert {key: number for key, number in tally.opened.items() if number} == {
        ("idle", "warning"): 1,
        ("hung", "critical"): 1,
    }
    assert {key: number for key, number in tally.reopened.items() if number} == {"hung": 1}
    assert {key: number for key, number in tally.resolved.items() if number} == {("stalled", "ended"): 1}
    assert {key: amount for key, amount in tally.wasted.items() if amount} == {"stalled": 100.0}


def test_the_waste_of_one_that_reopens_is_counted_once() -> None:
    tally = Tally().with_([ended(wasted=100.0)])
    tally = tally.with_([happened(EventKind.REOPENED, wasted=105.0)])
    tally = tally.with_([ended(wasted=250.0)])
    assert tally.wasted["idle"] == 250.0
    assert tally.resolved["idle", "ended"] == 2


def test_what_one_wasted_before_a_former_term_resolved_it_is_not_counted_again() -> None:
    tally = Tally().with_([happened(EventKind.REOPENED, wasted=100.0)]).with_([ended(wasted=130.0)])
    assert tally.wasted["idle"] == 30.0


def test_the_waste_of_one_incident_is_counted_once_by_all_together() -> None:
    first = Tally().with_([ended(wasted=100.0)])
    second = Tally().with_([happened(EventKind.REOPENED, wasted=100.0), ended(wasted=250.0)])
    first = first.forgetful().with_([happened(EventKind.REOPENED, wasted=250.0), ended(wasted=300.0)])
    assert first.wasted["idle"] + second.wasted["idle"] == 300.0


def test_a_rule_of_a_former_release_is_counted_as_other() -> None:
    tally = Tally()
    assert tally.opened["other", "warning"] == tally.resolved["other", "ended"] == tally.reopened["other"] == 0
    later = tally.with_([happened(EventKind.OPENED, rule="gone"), ended(rule="gone")])
    assert (later.opened["other", "warning"], later.resolved["other", "ended"]) == (1, 1)
    assert later.times()["other"][1] == 3600.0
    assert later.opened.keys() == tally.opened.keys()


def test_one_that_ends_twice_before_anybody_asks_is_counted_once_in_waste() -> None:
    tally = Tally().with_([ended(wasted=250.0), happened(EventKind.REOPENED, wasted=250.0), ended(wasted=250.0)])
    assert tally.wasted["idle"] == 250.0


def test_reports_of_ended_jobs_were_never_open() -> None:
    tally = Tally().with_([happened(EventKind.OPENED, kind="report"), ended(kind="report")])
    assert tally == Tally()


def test_the_time_to_resolve_is_from_when_it_first_opened() -> None:
    (counts, seconds) = Tally().with_([ended(resolved_at=NOW - 600)]).times()["idle"]
    assert seconds == 3000.0
    assert counts[BOUNDS.index(3600)] == sum(counts) == 1
    assert Tally().with_([ended(opened_at=NOW + 5)]).times()["idle"][1] == 0.0, "clocks may differ"


def test_only_so_many_are_remembered() -> None:
    tally = Tally().with_([ended(number) for number in range(20_000)])
    assert len(tally.known) <= 10_000
    assert tally.wasted["idle"] == 2_000_000.0


EVENTS = st.lists(
    st.builds(
        happened,
        st.sampled_from((EventKind.OPENED, EventKind.RESOLVED, EventKind.REOPENED)),
        st.integers(1, 3),
        kind=st.sampled_from(("efficiency", "report", "gpu_fault")),
        resolution=st.sampled_from(("ended", "cleared")),
        wasted=st.floats(0, 1e6),
        resolved_at=st.none() | st.floats(NOW - 1e6, NOW),
    ),
    max_size=20,
)


@given(EVENTS, st.integers(0, 20))
def test_nothing_ever_falls_however_it_is_read_in_parts(events: list[Happened], place: int) -> None:
    part = Tally().with_(events[:place])
    whole = part.with_(events[place:])
    assert whole == Tally().with_(events)
    for name in ("opened", "resolved", "reopened", "wasted"):
        before, after = getattr(part, name), getattr(whole, name)
        assert all(after[key] >= amount for key, amount in before.items())
    for rule, (counts, seconds) in part.times().items():
        later, longer = whole.times()[rule]
        assert longer >= seconds
        assert all(one <= other for one, other in zip(counts, later, strict=True))
