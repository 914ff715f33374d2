"""The lines that `dutycycle up` prints: one per thing that happened, in order, once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC
from pathlib import Path

import pytest

from dutycycle_alerter.cli.live import LiveLines
from dutycycle_alerter.incidents.model import Event, EventKind, Incident, Severity, State
from dutycycle_alerter.store.reader import open_reader
from dutycycle_alerter.views import IncidentFilter, Status, TargetStatus
from tests.alerter.web.doubles import NOW, incident, status


@dataclass
class Happening:
    """A store to which things happen."""

    shown: Status = field(default_factory=status)
    happened: list[tuple[int, Incident, Event]] = field(default_factory=list)

    def last_event_id(self) -> int:
        return len(self.happened)

    def events_after(self, event_id: int) -> Sequence[tuple[int, Incident, Event]]:
        return self.happened[event_id:]

    def status(self) -> Status:
        return self.shown

    def happen(self, kind: EventKind, text: str = "", actor: str = "", **changes: object) -> None:
        event = Event(NOW - 60, kind, text, actor)
        self.happened.append((len(self.happened) + 1, incident(**changes), event))


def told(store: Happening) -> list[str]:
    lines = LiveLines(store, zone=UTC)
    store.happened, later = store.happened[:0], store.happened
    before = LiveLines(store, zone=UTC)
    store.happened = later
    assert list(lines.new()) == []
    return list(before.new())


@pytest.mark.parametrize(
    ("kind", "text", "actor", "changes", "line"),
    [
        (
            EventKind.OPENED,
            "idle: no process",
            "",
            {},
            "14:12:20 opened #7 warning: 1 of 2 GPUs is idle (no process): alice, slurm/1, gpu1:0",
        ),
        (
            EventKind.REOPENED,
            "idle fires again",
            "",
            {"severity": Severity.CRITICAL},
            "14:12:20 reopened #7 critical: 1 of 2 GPUs is idle (no process): alice, slurm/1, gpu1:0",
        ),
        (
            EventKind.SEVERITY_CHANGED,
            "warning became critical",
            "",
            {"severity": Severity.CRITICAL},
            "14:12:20 severity changed #7 idle: warning became critical (alice, slurm/1)",
        ),
        (
            EventKind.ACKNOWLEDGED,
            "acknowledged by Olga",
            "Olga",
            {},
            "14:12:20 acknowledged #7 idle by Olga (alice, slurm/1)",
        ),
        (
            EventKind.SNOOZED,
            "until Monday",
            "Olga",
            {},
            "14:12:20 snoozed #7 idle by Olga: until Monday (alice, slurm/1)",
        ),
        (
            EventKind.RESOLVED,
            "the job ended",
            "",
            {"state": State.RESOLVED, "resolved_at": NOW},
            "14:12:20 resolved #7 1 of 2 GPUs is idle: the job ended; 2.0 GPU-hours wasted (alice, slurm/1)",
        ),
    ],
)
def test_one_clear_line_per_event(
    kind: EventKind, text: str, actor: str, changes: dict[str, object], line: str
) -> None:
    store = Happening()
    store.happen(kind, text, actor, **changes)
    assert told(store) == [line]


@pytest.mark.parametrize("kind", list(EventKind))
def test_every_kind_of_event_makes_one_line(kind: EventKind) -> None:
    store = Happening()
    store.happen(kind, "text")
    (line,) = told(store)
    assert kind.value in line


def test_nothing_is_told_twice_and_what_was_before_is_not_told() -> None:
    store = Happening()
    store.happen(EventKind.OPENED)
    lines = LiveLines(store, zone=UTC)
    assert list(lines.new()) == []
    store.happen(EventKind.RULE_OPENED, "uneven fires as well")
    assert len(list(lines.new())) == 1
    assert list(lines.new()) == []


def test_a_replay_is_said_on_every_line_and_waste_is_on_the_shown_scale() -> None:
    store = Happening(status(replay=True, time_scale=60.0, first_verdict_at=NOW + 30))
    lines = LiveLines(store, zone=UTC)
    store.happen(EventKind.RESOLVED, "the job ended")
    said = list(lines.new())
    assert len(said) == 2
    assert all(line.startswith("REPLAY ") for line in said)
    assert "120 GPU-hours wasted" in said[1]


def test_the_wait_for_the_first_verdict_is_told_once() -> None:
    store = Happening(status(first_verdict_at=NOW + 600))
    lines = LiveLines(store, zone=UTC)
    assert list(lines.new()) == ["14:13:20 observing, first verdict at 14:23:20"]
    assert list(lines.new()) == []


def test_before_the_first_pass_there_is_nothing_to_tell() -> None:
    assert (
        list(
            LiveLines(
                Happening(status(last_pass=None, targets=(TargetStatus("u", "", None, "not scraped yet"),)))
            ).new()
        )
        == []
    )


def test_an_exporter_that_falls_silent_and_answers_again() -> None:
    store = Happening()
    lines = LiveLines(store, zone=UTC)
    assert list(lines.new()) == []
    good = store.shown
    store.shown = replace(good, targets=(replace(good.targets[0], error="connection refused"),))
    assert list(lines.new()) == ["14:13:20 source gpu1 does not answer: connection refused"]
    assert list(lines.new()) == []
    store.shown = good
    assert list(lines.new()) == ["14:13:20 exporter gpu1 answers again"]


def test_colour_only_where_asked_for() -> None:
    store = Happening(status(replay=True))
    plain, coloured = LiveLines(store), LiveLines(store, colour=True)
    store.happen(EventKind.OPENED)
    assert "\x1b[" not in "".join(plain.new())
    assert "\x1b[" in "".join(coloured.new())


def test_hostile_names_stay_on_their_line() -> None:
    store = Happening()
    store.happen(EventKind.ACKNOWLEDGED, "a\nb\x1b[2J", "x\r\n\u202ey", user="u\n", subject="s\x07" * 1000)
    (line,) = told(store)
    assert line.isprintable()
    assert len(line) < 700


def test_over_the_real_store(store_file: Path) -> None:
    store = open_reader(f"sqlite:///{store_file}")
    try:
        lines = LiveLines(store)
        assert [line for line in lines.new() if "#" in line] == []
        number = store.incidents(IncidentFilter(user="alice"))[0][0].id
        store.acknowledge(number, actor="Olga")
        store.resolve(number, actor="Olga", note="cancelled it")
        first, second = lines.new()
        assert f"acknowledged #{number} idle by Olga (alice, slurm/41207)" in first
        assert f"resolved #{number} All 4 GPUs are idle: cancelled it; 11.9 GPU-hours wasted" in second
    finally:
        store.close()
