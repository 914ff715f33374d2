"""A clean run has no violation; spoiled in one thing it has that one, with whom and when."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.chaos.happened import Happened
from benchmarks.chaos.promises import check, store
from benchmarks.chaos.promises.quiet import quiet, without
from benchmarks.chaos.record import Condition, Ended, Look, Record, StoredEvent, Taken, Write

from .evidence import AWAY, BUSY, FAULTS, IDLE, KILLED, OPENED, clean, violations


def test_a_clean_run_violates_nothing() -> None:
    assert violations(clean()) == []


def nobody_is_told(record: Record) -> Record:
    return replace(record, incidents=(), events=(), notices=(), deliveries=(), taken=(), looks=())


def told_too_early_gone(record: Record) -> Record:
    gone = replace(record.events[1], at=1100.0, data={"resolution": "cleared"})
    return replace(record, events=(record.events[0], gone))


def the_healthy_one_is_accused(record: Record) -> Record:
    return replace(record, incidents=(replace(record.incidents[0], subject=BUSY),))


def a_job_that_never_was_is_accused(record: Record) -> Record:
    return replace(record, incidents=(replace(record.incidents[0], subject="slurm/99"),))


def another_rule_is_told(record: Record) -> Record:
    return replace(record, incidents=(replace(record.incidents[0], rule="hung"),))


def said_to_have_ended(record: Record) -> Record:
    return replace(record, events=(record.events[0], replace(record.events[1], at=1250.0)))


def given_up_as_lost(record: Record) -> Record:
    return replace(record, events=(record.events[0], replace(record.events[1], data={"resolution": "lost"})))


def never_resolved(record: Record) -> Record:
    return replace(
        record,
        incidents=(replace(record.incidents[0], state="open", resolved_at=None, resolution=None),),
        events=record.events[:1],
    )


def a_gpu_fault_that_never_was(record: Record) -> Record:
    made_up = replace(record.incidents[0], id=2, subject="node/n1", kind="gpu_fault", rule="gpu_fault", state="open")
    return replace(
        record,
        incidents=(*record.incidents, made_up),
        events=(*record.events, StoredEvent(3, 2, 1150.0, "opened", "")),
    )


def a_lost_gpu_of_which_nobody_hears(record: Record) -> Record:
    lost = Happened("gpu-lost", "n1", 1450, 1490, blinds=frozenset({"GPU-1"}), broken=frozenset({"n1"}))
    return replace(record, faults=(*FAULTS, lost))


def two_at_once(record: Record) -> Record:
    return replace(record, looks=(*record.looks, Look(1250.0, ((IDLE, "efficiency", (1, 2)),), "a#1", 1)))


def history_is_rewritten(record: Record) -> Record:
    return replace(record, writes=(*record.writes, Write(1430.0, "incident_event", "a", "a#1", 1)))


def opened_twice(record: Record) -> Record:
    return replace(record, events=(record.events[0], replace(record.events[0], id=3), record.events[1]))


def resolved_before_it_was_opened(record: Record) -> Record:
    opened, resolved = record.events
    return replace(record, events=(opened, replace(resolved, at=opened.at - record.lease - 1)))


def the_paused_one_commits(record: Record) -> Record:
    return replace(record, writes=(*record.writes, Write(1430.0, "usage_hour", "b", "a#1", 1)))


def the_paused_one_commits_what_it_wrote_before(record: Record) -> Record:
    # Its statement was made in its own term, and nothing else shows it.
    late = Write(1150.0, "usage_hour", "a", "a#1", 1, committed=1162.0)
    return replace(record, writes=(*record.writes, late), looks=(*record.looks, Look(1160.0, (), "b#2", 2)))


def the_epoch_goes_back(record: Record) -> Record:
    return replace(record, looks=(Look(1100.0, (), "a#1", 3), Look(1101.0, (), "a#1", 2)))


def both_lead(record: Record) -> Record:
    others = tuple(replace(page, replica="b", at=page.at + 0.1) for page in record.alerters)
    return replace(record, alerters=tuple(sorted((*record.alerters, *others), key=lambda page: page.at)))


def a_notice_is_missing(record: Record) -> Record:
    return replace(record, notices=record.notices[1:])


def its_user_is_not_told(record: Record) -> Record:
    return replace(record, notices=tuple(one for one in record.notices if one.audience != "owner"))


def a_message_waits(record: Record) -> Record:
    return replace(record, deliveries=(replace(record.deliveries[0], sent_at=None), *record.deliveries[1:]))


def a_message_never_came(record: Record) -> Record:
    return replace(record, taken=record.taken[1:])


def a_message_came_twice(record: Record) -> Record:
    return replace(record, taken=(*record.taken, replace(record.taken[0], at=1080.0)))


def metrics_hang(record: Record) -> Record:
    hung = replace(record.exporters[40], status=0, took=5.0)
    return replace(record, exporters=(*record.exporters[:40], hung, *record.exporters[41:]))


def a_failed_read_is_zero(record: Record) -> Record:
    return replace(record, exporters=(*record.exporters, replace(record.exporters[-1], visible=0)))


def liveness_fails_for_nothing(record: Record) -> Record:
    return replace(record, exporters=(*record.exporters, replace(record.exporters[-1], alive=503)))


def nobody_says_that_prometheus_is_away(record: Record) -> Record:
    well = {"prometheus": 1.0, "slurm": 1.0}
    return replace(record, alerters=tuple(replace(page, sources=well) for page in record.alerters))


def a_hang_shows_old_readings(record: Record) -> Record:
    hang = Happened("nvml-call-hangs", "n1", 1450, 1480, blinds=frozenset({"n1"}), says=frozenset({"nvml:n1"}))
    return replace(record, faults=(*FAULTS, hang))


def a_child_is_not_replaced(record: Record) -> Record:
    killed = Happened("nvml-child-killed", "n1", 1450, 1460, blinds=frozenset({"n1"}), replaces=frozenset({"n1"}))
    return replace(record, faults=(*FAULTS, killed))


def an_exporter_stays_blind(record: Record) -> Record:
    pages = (replace(page, success=0.0) if page.at > KILLED.ended else page for page in record.exporters)
    return replace(record, exporters=tuple(pages))


def nobody_evaluates_any_more(record: Record) -> Record:
    pages = (replace(page, last_pass=1200.0) if page.at > AWAY.ended else page for page in record.alerters)
    return replace(record, alerters=tuple(pages))


def a_program_ends(record: Record) -> Record:
    return replace(record, ended_by_themselves=(Ended("exporter-n1", 1250.0, "Traceback"),))


def the_ledger_lacks_something(record: Record) -> Record:
    return replace(record, ledger={**record.ledger, BUSY: 100.0})


def the_ledger_counts_twice(record: Record) -> Record:
    return replace(record, ledger={**record.ledger, BUSY: 2400.0})


def idle_time_is_busy(record: Record) -> Record:
    return replace(record, measured={BUSY: (1150.0, 900.0)})


def more_is_measured_than_held(record: Record) -> Record:
    return replace(record, measured={BUSY: (1300.0, 1170.0)})


def a_page_has_markup_of_a_name(record: Record) -> Record:
    return replace(record, pages=(("http://a/", "<p><img/src=x"),))


def everybody_is_called(record: Record) -> Record:
    return replace(record, taken=(*record.taken, Taken("slack", "other", 1500.0, (), (), (), "<!channel>")))


def a_header_is_smuggled_in(record: Record) -> Record:
    return replace(record, taken=(*record.taken, Taken("mail", "other", 1500.0, (), (), (("Bcc", "eve"),), "")))


def what_was_committed_is_gone(record: Record) -> Record:
    seen = Look(1250.0, ((IDLE, "efficiency", (1,)), ("node/n1", "gpu_fault", (2,))), "a#1", 1)
    return replace(record, looks=(*record.looks, seen))


def an_earlier_one_of_the_same_job_is_gone(record: Record) -> Record:
    return replace(record, looks=(Look(1060.0, ((IDLE, "efficiency", (7,)),), "a#1", 1), *record.looks))


def a_message_of_what_was_rolled_back(record: Record) -> Record:
    return replace(record, taken=(*record.taken, replace(record.taken[0], key="mail-of-nothing")))


def another_rule_for_a_while(record: Record) -> Record:
    changed = StoredEvent(3, 1, 1200.0, "primary changed", "", {"rule": "hung", "before": "idle"})
    return replace(record, events=(record.events[0], changed, record.events[1]))


@pytest.mark.parametrize(
    ("spoil", "promise", "subject"),
    [
        (nobody_is_told, "no incident is lost", IDLE),
        (told_too_early_gone, "no resolution is false", IDLE),
        (the_healthy_one_is_accused, "no incident is made up", BUSY),
        (a_job_that_never_was_is_accused, "no incident is made up", "slurm/99"),
        (another_rule_is_told, "no incident is made up", IDLE),
        (said_to_have_ended, "no resolution is false", IDLE),
        (given_up_as_lost, "no resolution is false", IDLE),
        (never_resolved, "what is over is resolved", IDLE),
        (a_gpu_fault_that_never_was, "no incident is made up", "node/n1"),
        (a_lost_gpu_of_which_nobody_hears, "no incident is lost", "n1"),
        (two_at_once, "one open incident each", IDLE),
        (what_was_committed_is_gone, "what was seen stays", "node/n1"),
        (an_earlier_one_of_the_same_job_is_gone, "what was seen stays", IDLE),
        (a_message_of_what_was_rolled_back, "no message is made up", "mail-of-nothing"),
        (another_rule_for_a_while, "no incident is made up", IDLE),
        (history_is_rewritten, "history is append-only", "a"),
        (opened_twice, "states follow each other", IDLE),
        (resolved_before_it_was_opened, "states follow each other", IDLE),
        (the_paused_one_commits, "only the leader writes", "b"),
        (the_paused_one_commits_what_it_wrote_before, "only the leader writes", "a"),
        (the_epoch_goes_back, "only the leader writes", "lease"),
        (both_lead, "one leads", "alerters"),
        (a_notice_is_missing, "no notification is lost", IDLE),
        (its_user_is_not_told, "no notification is lost", IDLE),
        (a_message_waits, "no notification is lost", "mail-opened"),
        (a_message_never_came, "no notification is lost", "mail-opened"),
        (a_message_came_twice, "no message comes twice", "mail-opened"),
        (metrics_hang, "/metrics answers", "exporter-n1"),
        (a_failed_read_is_zero, "missing is not zero", "exporter-n1"),
        (liveness_fails_for_nothing, "liveness", "exporter-n1"),
        (nobody_says_that_prometheus_is_away, "what is away is told", "alerter-a"),
        (a_hang_shows_old_readings, "what is away is told", "exporter-n1"),
        (a_child_is_not_replaced, "the child is replaced", "exporter-n1"),
        (an_exporter_stays_blind, "everything recovers", "exporter-n1"),
        (nobody_evaluates_any_more, "everything recovers", "alerters"),
        (a_program_ends, "nothing ends by itself", "exporter-n1"),
        (the_ledger_lacks_something, "the ledger is true", BUSY),
        (the_ledger_counts_twice, "the ledger is true", BUSY),
        (idle_time_is_busy, "measurements are true", BUSY),
        (more_is_measured_than_held, "measurements are true", BUSY),
        (a_page_has_markup_of_a_name, "untrusted text does nothing", "http://a/"),
        (everybody_is_called, "untrusted text does nothing", "other"),
        (a_header_is_smuggled_in, "untrusted text does nothing", "other"),
    ],
)
def test_a_broken_promise_is_found(spoil: Callable[[Record], Record], promise: str, subject: str) -> None:
    found = {(one.promise, one.subject) for one in violations(spoil(clean()))}
    assert (promise, subject) in found


def test_only_a_pass_that_was_stopped_until_another_evaluated_puts_it_to_the_test() -> None:
    stop = Happened("leader-paused", "alerter a", 1150.0, 1162.0, halts=frozenset({"a"}), interrupts=frozenset({"a"}))
    terms = tuple(Look(at, (), holder, epoch) for at, holder, epoch in ((1151.0, "a#1", 1), (1160.0, "b#2", 2)))
    promise = store.what_was_stopped_is_not_committed
    for fault, looks, expected in (
        (stop, terms, 1),
        (replace(stop, interrupts=frozenset()), terms, 0),
        (stop, terms[:1], 0),
    ):
        judged = check(replace(clean(), faults=(*FAULTS, fault), looks=looks))[promise]
        assert (len(judged.occasions), judged.violations) == (expected, ())


def test_a_secret_in_a_log_is_found_and_not_repeated(tmp_path: Path) -> None:
    log = tmp_path / "alerter-a.log"
    log.write_text("well\nthe token is hunter2\n")
    [found] = violations(replace(clean(), logs=(log,), secrets=("hunter2",)))
    assert (found.promise, found.subject) == ("secrets are kept", "alerter-a.log")
    assert "line 2" in found.evidence
    assert "hunter2" not in found.evidence


@pytest.mark.parametrize("field", ["pages", "answers"])
def test_a_secret_in_what_is_answered_is_found(field: str) -> None:
    record = replace(clean(), secrets=("hunter2",), **{field: (("http://a/metrics", "up 1\nby hunter2\n"),)})
    assert [(one.promise, one.subject) for one in violations(record)] == [("secrets are kept", "http://a/metrics")]


def test_markup_is_markup_only_where_a_browser_reads_it_and_a_forged_line_is_one_everywhere() -> None:
    record = replace(clean(), unprintable=("\nFORGED",), answers=(("http://a/api", '{"user": "<img/src=x"}'),))
    assert violations(record) == []
    forged = replace(record, answers=(("http://a/metrics", 'up{user="trudy\nFORGED"} 1'),))
    assert [(one.promise, one.subject) for one in violations(forged)] == [
        ("untrusted text does nothing", "http://a/metrics")
    ]


def test_what_others_wrote_is_no_line_of_a_log(tmp_path: Path) -> None:
    log = tmp_path / "alerter-a.log"
    log.write_text("well\nno address of trudy\\nFORGED is known\n")
    record = replace(clean(), logs=(log,), unprintable=("\x1b[2J", "\nFORGED"))
    assert violations(record) == []
    log.write_text("well\nno address of trudy\nFORGED is known\n")
    assert [(one.promise, one.subject) for one in violations(record)] == [
        ("untrusted text does nothing", "alerter-a.log")
    ]


def test_what_could_not_be_seen_need_not_be_told() -> None:
    blind = Happened("exporter-paused", "n1", 1000.0, 1400.0, blinds=frozenset({"n1"}))
    record = nobody_is_told(replace(clean(), faults=(blind,), ledger={IDLE: 0.0, BUSY: 1160.0}))
    assert not [one for one in violations(record) if one.promise == "no incident is lost"]


def test_where_one_gpu_is_lost_the_jobs_on_the_others_are_told_of() -> None:
    lost = Happened("gpu-lost", "n1", 1000.0, 1400.0, blinds=frozenset({"GPU-1"}), broken=frozenset({"n1"}))
    record = nobody_is_told(replace(clean(), faults=(lost,)))
    for device, expected in (("GPU-1", []), ("GPU-2", [IDLE])):
        job = replace(record.jobs[0], devices=frozenset({device}))
        found = violations(replace(record, jobs=(job, record.jobs[1])))
        assert [
            one.subject for one in found if one.promise == "no incident is lost" and one.subject != "n1"
        ] == expected


def test_where_its_exporter_is_away_nobody_can_tell_that_a_gpu_is_lost() -> None:
    record = a_lost_gpu_of_which_nobody_hears(clean())
    for node, expected in (("n1", []), ("n2", ["n1"])):
        away = Happened("exporter-paused", node, 1440.0, 1495.0, blinds=frozenset({node}))
        found = violations(replace(record, faults=(*record.faults, away)))
        assert [one.subject for one in found if one.promise == "no incident is lost"] == expected


def test_a_page_that_hangs_while_the_machine_stands_still_is_nobodys_fault() -> None:
    record = metrics_hang(clean())
    at = record.exporters[40].at
    for stall, expected in ((at + 4.0, []), (at + 6.0, ["exporter-n1"])):
        found = violations(replace(record, stalls=((stall, stall + 2.0),)))
        assert [one.subject for one in found if one.promise == "/metrics answers"] == expected


def test_an_answer_that_was_lost_may_make_a_message_come_twice() -> None:
    lost = Happened("mail-cut", "mail", OPENED, OPENED + 8, halts=frozenset({"mail"}))
    record = replace(a_message_came_twice(clean()), faults=(*FAULTS, lost))
    assert not [one for one in violations(record) if one.promise == "no message comes twice"]


def test_only_the_page_that_was_being_made_when_the_database_went_away_may_hang() -> None:
    record = clean()
    page = record.alerters[200]
    hung = replace(
        record, alerters=(*record.alerters[:200], replace(page, status=0, took=10.0), *record.alerters[201:])
    )
    for began, expected in ((page.at + 0.5, []), (page.at - 1.5, ["alerter-a"]), (page.at + 1.5, ["alerter-a"])):
        paused = Happened("database-paused", "database", began, began + 12, halts=frozenset({"database", "evaluation"}))
        found = violations(replace(hung, faults=(*FAULTS, paused)))
        assert [one.subject for one in found if one.promise == "/metrics answers"] == expected


def test_a_job_that_is_over_may_wait_for_its_epilog_where_slurmd_was_killed() -> None:
    record = said_to_have_ended(clean())
    killed = Happened("slurmd-killed", "n1", 1240.0, 1390.0, halts=frozenset({"slurmd-n1"}))
    for faults, expected in (((*FAULTS, killed), []), ((*FAULTS, replace(killed, began=1260.0)), [IDLE])):
        found = violations(replace(record, faults=faults))
        assert [one.subject for one in found if one.promise == "no resolution is false"] == expected


def test_slurm_says_that_a_job_is_over_before_its_epilog_has_run() -> None:
    record = clean()
    job = record.jobs[0]
    for early, expected in ((2.0, []), (4.0, [IDLE])):
        resolved = replace(record.events[1], at=job.seen - early)
        found = violations(replace(record, events=(record.events[0], resolved)))
        assert [one.subject for one in found if one.promise == "no resolution is false"] == expected


def test_where_nvml_was_away_already_there_was_no_child_to_replace() -> None:
    record = a_child_is_not_replaced(clean())
    away = tuple(replace(page, success=0.0) if 1440 < page.at < 1455 else page for page in record.exporters)
    found = violations(replace(record, exporters=away))
    assert not [one for one in found if one.promise == "the child is replaced"]


def test_an_alerter_that_cannot_reach_its_database_where_it_begins_may_end() -> None:
    killed = Happened("follower-killed", "alerter b", 1100.0, 1110.0, silences=frozenset({"alerter-b"}))
    slow = Happened("database-slow", "database-b", 1112.0, 1120.0, halts=frozenset({"b", "evaluation"}))
    ended = (Ended("alerter-b", 1115.0, "the server does not answer within 3 s"),)
    excused = replace(clean(), faults=(*FAULTS, killed, slow), ended_by_themselves=ended)
    assert not [one for one in violations(excused) if one.promise == "nothing ends by itself"]
    later = replace(excused, ended_by_themselves=(replace(ended[0], at=1190.0),))
    assert [one.subject for one in violations(later) if one.promise == "nothing ends by itself"] == ["alerter-b"]


def test_a_condition_of_another_time_excuses_nothing() -> None:
    record = clean()
    idle = Condition(frozenset({"idle"}), 1500.0, None, window=30.0, after=30.0)
    accused = replace(record.jobs[0], conditions=(idle,), end=None)
    found = violations(replace(record, jobs=(accused, record.jobs[1])))
    assert ("no incident is made up", OPENED) in {(one.promise, one.at) for one in found}


def test_quiet_times_are_what_faults_their_recovery_and_stalls_leave() -> None:
    record = replace(clean(), stalls=((1500.0, 1502.0),))
    found = quiet(record, lambda fault: "n1" in fault.blinds, 1000.0, 1600.0)
    assert found == [(1000.0, 1200.0), (1235.0, 1500.0), (1502.0, 1600.0)]
    assert without([(0.0, 10.0)], [(-1.0, 2.0), (4.0, 5.0), (9.0, 20.0)]) == [(2.0, 4.0), (5.0, 9.0)]


@pytest.mark.parametrize("kind", ["told", "not told"])
def test_a_message_may_go_out_while_a_pass_that_began_before_resolves_its_incident(kind: str) -> None:
    record = clean()
    opened, resolved = record.events
    told = replace(opened, id=2, kind=kind, at=resolved.at + record.lease + 1)
    beside = replace(record, events=(opened, told, replace(resolved, id=3)))
    assert not [one for one in violations(beside) if one.promise == "states follow each other"]
