"""A run from the command line to its row, with what was played given: what is kept, what it prints, how it ends."""

from __future__ import annotations

import gzip
import json
import math
import signal
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import results
from benchmarks.chaos import __main__ as program
from benchmarks.chaos import kept
from benchmarks.chaos.happened import Happened
from benchmarks.chaos.promises import PROMISES, check
from benchmarks.chaos.record import Ended, Record, StoredDelivery
from benchmarks.exits import NOT_HERE
from benchmarks.results import Provenance

from .evidence import clean


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Runs it on a record, of which the logs are written where a site writes them; returns the exit status. In its
    place something may be raised or called.
    """
    own = tmp_path / "run"
    monkeypatch.setattr(program, "missing", list)
    monkeypatch.setattr(program, "enclose", lambda: None)
    monkeypatch.setattr(tempfile, "mkdtemp", lambda **_: str(own))

    def with_record(given: Record | Exception | Callable[[], None], *arguments: str) -> int:
        own.mkdir()
        log = own / "alerter-a.log"
        log.write_text("well\n")

        def played(*_: object) -> Record:
            if isinstance(given, Exception):
                raise given
            if not isinstance(given, Record):
                given()
                pytest.fail("it was not interrupted")
            return replace(given, logs=(log,))

        monkeypatch.setattr(program, "play", played)
        monkeypatch.setattr(sys, "argv", ["chaos", "--no-record", *arguments])
        return program.main()

    return with_record


def test_a_run_without_violations_ends_with_0_and_leaves_nothing(run, tmp_path: Path, capsys) -> None:
    assert run(clean()) == 0
    assert not (tmp_path / "run").exists()
    assert "0 violations of" in capsys.readouterr().out


def test_a_run_with_a_violation_ends_with_1_and_its_evidence_is_kept_and_can_be_judged_again(
    run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(replace(clean(), notices=()), "--keep", str(tmp_path / "kept")) == 1
    assert not (tmp_path / "run").exists()
    monkeypatch.setattr(sys, "argv", ["chaos", "--no-record", "--judge", str(tmp_path / "kept")])
    assert program.main() == 1


def test_kept_evidence_is_what_it_was(tmp_path: Path) -> None:
    log = tmp_path / "alerter-a.log"
    log.touch()
    record = replace(clean(), logs=(log,), scrapes={"127.0.0.1:1": (1000.0, 1000.5)}, stalls=((1500.0, 1502.0),))
    kept.write(record, tmp_path)
    assert kept.read(tmp_path) == record
    shown = json.loads(gzip.decompress((tmp_path / kept.EVIDENCE).read_bytes()))
    assert shown["faults"][0]["name"] == "exporter-killed"
    assert shown["logs"] == ["alerter-a.log"]


def test_kept_evidence_may_have_any_name_and_no_logs_beside_it(tmp_path: Path) -> None:
    log = tmp_path / "alerter-a.log"
    log.touch()
    record = replace(clean(), logs=(log,))
    kept.write(record, tmp_path)
    (tmp_path / "published").mkdir()
    file = (tmp_path / kept.EVIDENCE).rename(tmp_path / "published" / "hour-1.json.gz")
    assert kept.read(file) == replace(record, logs=(), unread=1)


@pytest.fixture
def reported(monkeypatch: pytest.MonkeyPatch):
    """What was reported of rows: (row, whether it is kept, machine)."""
    found: list[tuple[results.Row, bool, str]] = []

    def report(rows, options, *, section: str, machine: str = "") -> None:
        assert section == "Chaos"
        found.extend((row, not (options.quick or options.no_record), machine) for row in rows)

    monkeypatch.setattr(results, "report", report)
    return found


MADE = Provenance("python -m benchmarks.chaos --seed 3", "dutycycle 1234567", "psycopg 3", "2 cores", "2026-11-24")


@pytest.mark.parametrize(
    ("made", "kept_there"),
    [(MADE, True), (replace(MADE, by=f"{MADE.by} --quick"), False), (Provenance(), False)],
)
def test_a_row_of_evidence_is_of_the_run_that_left_it(
    made: Provenance, kept_there: bool, reported, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept.write(replace(clean(), seed=3, length=3600.0, made=made), tmp_path)
    monkeypatch.setattr(sys, "argv", ["chaos", "--judge", str(tmp_path)])
    assert program.main() == 0
    [(row, is_kept, machine)] = reported
    assert (is_kept, machine, row.ours, row.day) == (kept_there, made.machine, made.commit, made.day)
    if made is MADE:
        assert row.what == "chaos, 60 minutes at 60 times the pace, seed 3"
        assert row.by == "`python -m benchmarks.chaos --seed 3`"


def test_a_row_says_how_often_the_promise_was_asked_that_was_asked_least(run, reported) -> None:
    run(clean())
    [(row, *_)] = reported
    never = [one for one in check(clean()).values() if not one.occasions]
    said = f"0 violations of {len(PROMISES)} promises ({len(never)} never asked, each of the others at least 1 times: "
    assert said in row.figure
    assert "0 messages came twice, where a fault was in the way of their acknowledgement" in row.figure
    assert "for 82% of the time of jobs nothing was in the way of judging them" in row.figure


def test_a_row_says_how_many_passes_were_stopped_and_refused(run, reported) -> None:
    stop = Happened("leader-paused", "alerter a", 1500.0, 1510.0, halts=frozenset({"a"}), interrupts=frozenset({"a"}))
    later = replace(stop, began=1530.0, ended=1540.0, refused=frozenset({"a"}))
    run(replace(clean(), faults=(*clean().faults, stop, later)))
    [(row, *_)] = reported
    assert "2 passes were stopped before their commit, 1 went on and were refused" in row.figure


def test_what_a_row_says_is_of_the_run_and_of_the_code_at_its_beginning(run, reported, tmp_path: Path) -> None:
    run(clean(), "--seed", "7", "--minutes", "10", "--keep", str(tmp_path / "kept"))
    record = kept.read(tmp_path / "kept")
    assert (record.seed, record.length) == (7, 600.0)
    assert record.made.commit == results.ours()
    assert record.made.machine == results.describe_machine()


def test_evidence_of_nonsense_is_kept_as_it_was(tmp_path: Path) -> None:
    page = replace(clean().exporters[0], age=math.nan, restarts=math.inf)
    kept.write(replace(clean(), exporters=(page,), pages=(("http://a/", "\udcff"),)), tmp_path)
    found = kept.read(tmp_path)
    assert found.exporters[0].age is not None
    assert math.isnan(found.exporters[0].age)
    assert found.exporters[0].restarts == math.inf
    assert found.pages == (("http://a/", "\udcff"),)


def test_a_run_that_broke_off_ends_with_3_and_says_so_in_its_row(run, tmp_path: Path, capsys) -> None:
    assert run(replace(clean(), broke="AssertionError: n1 is not back"), "--keep", str(tmp_path / "kept")) == 3
    assert "broke off after 10 minutes: AssertionError: n1 is not back" in " ".join(capsys.readouterr().out.split())


def test_a_site_that_does_not_start_ends_it_with_3_and_its_logs_are_kept(run, tmp_path: Path, capsys) -> None:
    assert run(RuntimeError("the alerter ended: no such file"), "--keep", str(tmp_path / "kept")) == 3
    assert "nothing could be judged: RuntimeError: the alerter ended: no such file" in capsys.readouterr().err
    assert (tmp_path / "kept" / "alerter-a.log").read_text() == "well\n"


def test_a_checker_that_fails_ends_it_with_3_and_the_evidence_can_be_judged_again(
    run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    def fails(_: Record) -> None:
        raise KeyError("n9")

    with monkeypatch.context() as patch:
        patch.setattr(program, "check", fails)
        assert run(clean()) == 3
    said = capsys.readouterr().err
    assert f"nothing could be judged: KeyError: 'n9'\nlogs and evidence are in {tmp_path / 'run'}" in said
    monkeypatch.setattr(sys, "argv", ["chaos", "--no-record", "--judge", str(tmp_path / "run")])
    assert program.main() == 0


@pytest.mark.parametrize("spoil", [lambda whole: b"", lambda whole: whole[:-20], lambda whole: b"{}", None])
def test_evidence_that_is_none_is_a_word_about_the_command_line_and_no_violation(
    spoil: Callable[[bytes], bytes] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    if spoil is not None:
        kept.write(clean(), tmp_path)
        file = tmp_path / kept.EVIDENCE
        file.write_bytes(spoil(file.read_bytes()))
    monkeypatch.setattr(sys, "argv", ["chaos", "--no-record", "--judge", str(tmp_path)])
    with pytest.raises(SystemExit) as exited:
        program.main()
    assert exited.value.code == 2
    assert "--judge: " in capsys.readouterr().err


def test_sockets_and_prometheus_data_are_not_kept(tmp_path: Path) -> None:
    """Nobody can read a socket, and the data would be most of it."""
    ours, wanted = tmp_path / "run", tmp_path / "kept"
    (ours / "prometheus" / "data").mkdir(parents=True)
    for name in ("prometheus/data/wal", "prometheus/log", "kubelet.sock"):
        (ours / name).touch()
    assert kept.move(ours, wanted) == wanted
    assert [path.name for path in wanted.rglob("*") if path.is_file()] == ["log"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_whoever_interrupts_it_twice_does_not_disturb_how_it_leaves(
    number: signal.Signals, run, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    left = []

    def interrupted() -> None:
        try:
            signal.raise_signal(number)
        finally:
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGTERM)
            left.append("all of it")

    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    assert run(interrupted) == 130
    assert left == ["all of it"]
    assert not (tmp_path / "run").exists()
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
    assert "interrupted: the site is being taken down" in capfd.readouterr().err


def test_a_machine_that_lacks_something_is_told_what_it_is(monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.setattr(program, "missing", lambda: ["slurmctld"])
    monkeypatch.setattr(sys, "argv", ["chaos", "--no-record"])
    assert program.main() == NOT_HERE
    assert "for want of slurmctld" in capsys.readouterr().err


def test_a_machine_that_was_too_slow_is_told_of(run, capsys) -> None:
    scrapes = {"n1": tuple(1000.0 + 1.5 * number for number in range(400))}
    run(replace(clean(), scrapes=scrapes))
    assert "this machine was too slow: passes were overdue for 0.0%" in " ".join(capsys.readouterr().out.split())


def test_a_fault_that_did_nothing_is_named(run, capsys) -> None:
    lame = replace(clean().faults[0], name="exporter-paused", took=False)
    assert run(replace(clean(), faults=(lame, *clean().faults))) == 0
    assert "did not take: exporter-paused" in " ".join(capsys.readouterr().out.split())


def test_a_fault_that_did_nothing_excuses_nothing(run, capsys) -> None:
    lame = replace(clean().faults[0], took=False)
    assert run(replace(clean(), faults=(lame, *clean().faults[1:]))) == 1
    assert "/metrics answers: exporter-n1: status none" in capsys.readouterr().out


def test_a_row_of_evidence_without_its_logs_says_how_many_were_not_read(
    reported, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    logs = tuple(tmp_path / f"{name}.log" for name in ("alerter-a", "alerter-b", "exporter-n1"))
    logs[0].touch()
    kept.write(replace(clean(), made=MADE, logs=logs), tmp_path)
    monkeypatch.setattr(sys, "argv", ["chaos", "--judge", str(tmp_path)])
    assert program.main() == 0
    [(row, *_)] = reported
    assert "2 logs were not read" in row.figure
    assert "2 logs were not read" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(("checker", "said"), [("dutycycle 7654321", True), (MADE.commit, False)])
def test_a_row_says_whose_checker_judged_where_it_is_not_that_of_the_run(
    checker: str, said: bool, reported, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept.write(replace(clean(), made=MADE), tmp_path)
    monkeypatch.setattr(results, "ours", lambda: checker)
    monkeypatch.setattr(sys, "argv", ["chaos", "--judge", str(tmp_path)])
    assert program.main() == 0
    [(row, *_)] = reported
    assert row.ours == MADE.commit
    assert (f"judged at {checker}" in row.figure) is said
    assert "logs were not read" not in row.figure


def test_a_run_that_was_just_played_has_no_other_checker(run, reported) -> None:
    run(clean())
    [(row, *_)] = reported
    assert "judged at" not in row.figure


def test_neither_evidence_nor_row_name_a_place_of_this_machine(run, reported, tmp_path: Path) -> None:
    root = Path(program.__file__).resolve().parents[2]
    trace = f'Traceback: File "{root}/exporter/x.py", {Path.home()}/.pgpass, {tempfile.gettempdir()}/chaos-1/n1.sock'
    ended = Ended("exporter-n1", 1215.0, trace)
    delivery = StoredDelivery(1, "incident/1", "chat", 1215.0, 1, None, None, f"{root}/ca.pem: expired", "")
    spoilt = replace(
        clean(),
        broke=f"OSError: {root}: no such file",
        ended_by_themselves=(ended,),
        deliveries=(delivery,),
        pages=(("http://a/", f"<p>{Path.home()}/store.sqlite3</p>"),),
    )
    assert run(spoilt, "--keep", str(tmp_path / "kept")) == 3
    record = kept.read(tmp_path / "kept")
    assert record.broke == "OSError: REPOSITORY: no such file"
    said = 'Traceback: File "REPOSITORY/exporter/x.py", HOME/.pgpass, TMP/chaos-1/n1.sock'
    assert [one.said for one in record.ended_by_themselves] == [said]
    assert [one.error for one in record.deliveries] == ["REPOSITORY/ca.pem: expired"]
    assert record.pages == (("http://a/", "<p>HOME/store.sqlite3</p>"),)
    [(row, *_)] = reported
    assert str(root) not in row.figure


@pytest.mark.parametrize(
    ("arguments", "absent"),
    [
        (["--minutes", "1"], "any fault"),
        (["--minutes", "2", "--only", "nvml-call-hangs", "--only", "mail-cut"], "mail-cut, nvml-call-hangs"),
        (["--seed", "5", "--minutes", "2.3", "--only", "follower-killed", "--only", "mail-cut"], "mail-cut"),
    ],
)
def test_a_run_that_is_too_short_for_what_was_asked_for_is_none(
    arguments: list[str], absent: str, run, reported, capsys
) -> None:
    with pytest.raises(SystemExit) as exited:
        run(clean(), *arguments)
    assert exited.value.code == 2
    said = " ".join(capsys.readouterr().err.split())
    assert f"s are too short for {absent}, as the last 95 are for settling: give more --minutes" in said
    assert reported == []
