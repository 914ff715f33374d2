"""Rows in RESULTS.md: where they come to stand, which they replace, and that nothing else changes."""

from __future__ import annotations

import argparse
import os
import re
import sys
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path

import pytest

from benchmarks import results
from benchmarks.results import (
    FILE,
    ResultsError,
    Row,
    arguments,
    describe_machine,
    measured,
    ours,
    program,
    record,
    report,
)

PAGE = """# Measured figures

Words that stay.

Machine A: a big one

| date | machine | versions | what | figure | by |
|---|---|---|---|---|---|
| 2026-01-01 | A | | a scrape | 3 ms | `benchmarks/x.py` |
| | | | a pass | not measured | `benchmarks/y.py` |

## On real GPUs

| date | machine | versions | what | figure | by |
|---|---|---|---|---|---|
| | | | busy | not measured | `z` |
"""


@pytest.fixture
def page(tmp_path: Path) -> Path:
    file = tmp_path / "RESULTS.md"
    file.write_text(PAGE)
    return file


def lines(file: Path, word: str) -> list[str]:
    return [line for line in file.read_text().splitlines() if word in line]


def test_a_new_row_ends_its_section_s_table(page: Path) -> None:
    record([Row("a query", "7 ms", "`q`", "Prometheus 2.42.0")], file=page, machine="a big one")
    before, after = page.read_text().split("## On real GPUs")
    assert before.rstrip().endswith(f"| A | Prometheus 2.42.0, {ours()} | a query | 7 ms | `q` |")
    assert after == PAGE.split("## On real GPUs")[1]


def test_a_row_of_the_same_machine_subject_and_command_is_replaced(page: Path) -> None:
    record([Row("a scrape", "2 ms", "`benchmarks/x.py`")], file=page, machine="a big one")
    [line] = lines(page, "a scrape")
    assert "| 2 ms |" in line
    assert "2026-01-01" not in line


def test_another_machine_gets_the_next_letter_and_a_row_of_its_own(page: Path) -> None:
    record([Row("a scrape", "9 ms", "`benchmarks/x.py`")], file=page, machine="a small one")
    assert lines(page, "Machine ") == ["Machine A: a big one", "Machine B: a small one"]
    assert [line.split(" | ")[1] for line in lines(page, "| a scrape |")] == ["A", "B"]


def test_what_was_not_measured_yet_is_replaced_in_its_place(page: Path) -> None:
    record([Row("busy", "0.51", "`z`")], section="On real GPUs", file=page, machine="a big one")
    [line] = lines(page, "| busy |")
    assert "| A |" in line
    assert "not measured" in page.read_text().split("## On real GPUs")[0]


def test_a_section_that_is_not_there_yet_is_made(page: Path) -> None:
    record([Row("violations", "0", "`c`")], section="Chaos", file=page, machine="a big one")
    text = page.read_text()
    assert text.index("## Chaos") > text.index("## On real GPUs")
    assert "| violations | 0 | `c` |" in text.split("## Chaos")[1]


@pytest.mark.parametrize("text", ["a | b", "two\nlines"])
def test_text_cannot_break_the_table(page: Path, text: str) -> None:
    record([Row(text, text, "`q`")], file=page, machine="a big one")
    record([Row(text, text, "`q`")], file=page, machine="a big one")
    [line] = lines(page, "`q`")
    assert line.replace("\\|", "").count("|") == 7


def test_a_section_nobody_knows_is_refused_and_nothing_is_written(page: Path) -> None:
    with pytest.raises(ResultsError, match=r"no section 'Chaso': one of .*Chaos"):
        record([Row("a", "b", "`c`")], section="Chaso", file=page, machine="a big one")
    assert page.read_text() == PAGE


def test_a_row_says_what_of_ours_was_measured(page: Path) -> None:
    record([Row("old", "1", "`q`"), Row("older", "1", "`q`", ours="dutycycle 1234567")], file=page, machine="a big one")
    assert [line.split(" | ")[2] for line in lines(page, "`q`")] == [ours(), "dutycycle 1234567"]
    assert ours().startswith("dutycycle ")


def test_what_was_measured_is_of_this_machine_this_commit_and_no_failure(
    page: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = "dutycycle 0123abc"
    monkeypatch.setattr(results, "ours", lambda: here)
    rows = [
        Row("this", "1", "`q`", "Prometheus 2.42.0"),
        Row("older", "1", "`q`", ours="dutycycle 4567def"),
        Row("failed", "**failed** after 1 min", "`q`"),
    ]
    record(rows, section="Soak", file=page, machine="a big one")
    record([Row("elsewhere", "1", "`q`")], section="Soak", file=page, machine="a small one")
    assert measured("Soak", file=page, machine="a big one") == {("this", "`q`")}
    assert measured("Fuzz", file=page, machine="a big one") == set()
    here += "-dirty"
    assert measured("Soak", file=page, machine="a big one") == set()


def test_without_git_the_version_that_is_installed_is_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert ours() == f"dutycycle {version('dutycycle')}"


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match=r"RESULTS\.md: No such file"):
        record([Row("a", "b", "`c`")], file=tmp_path / "RESULTS.md", machine="a big one")


def _record(file: Path, number: int) -> None:
    record([Row(f"row {number}.", "1", "`c`")], file=file, machine="a big one")


def test_benchmarks_that_end_together_lose_no_row(page: Path) -> None:
    context = get_context("fork")
    writers = [context.Process(target=_record, args=(page, number)) for number in range(8)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(30)
    assert [len(lines(page, f"row {number}.")) for number in range(8)] == [1] * 8


@pytest.mark.parametrize("flag", ["--quick", "--no-record"])
def test_nothing_is_kept_of_a_run_that_says_little_or_must_not(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    arguments(parser)
    before = FILE.read_bytes()
    report([Row("a subject", "a figure")], parser.parse_args([flag]))
    assert FILE.read_bytes() == before
    assert "a subject" in capsys.readouterr().out


def test_brackets_of_a_figure_are_shown_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    results.show(("what", "figure"), [("precision", "0.995 [0.974, 0.999]"), ("test_x[soak]", "[red]")])
    said = capsys.readouterr().out
    assert "0.995 [0.974, 0.999]" in said
    assert "test_x[soak]" in said
    assert "[red]" in said


def test_the_machine_is_described_by_what_it_has() -> None:
    said = describe_machine()
    assert said.startswith(f"{len(os.sched_getaffinity(0))} cores of ")
    assert "\n" not in said


@pytest.mark.parametrize(
    ("started", "shown"),
    [
        (["python3", "-m", "benchmarks.box", "--seeds", "1"], "python -m benchmarks.box --seeds 1"),
        (["python3", str(FILE.parent / "alerter.py"), "--only", "canned"], "benchmarks/alerter.py --only canned"),
        (["python3", "-m", "benchmarks.alerter", "--only", "canned"], "benchmarks/alerter.py --only canned"),
        (["python3", "-W", "error", "-m", "benchmarks.box"], "python -m benchmarks.box"),
        (["python3", "-m", "benchmarks.box", "--no-record"], "python -m benchmarks.box"),
        (["python3", "-m", "benchmarks.box", "--resume", "/home/ada/runs", "--score"], "python -m benchmarks.box"),
        (
            ["python3", "-m", "benchmarks.real", "--keep=/home/ada", "--nodes", "8"],
            "python -m benchmarks.real --nodes 8",
        ),
        (
            ["python3", "-m", "benchmarks.box", "--parameters", "/home/ada/own.toml", "--late"],
            "python -m benchmarks.box --parameters own.toml",
        ),
    ],
)
def test_a_program_is_named_as_a_reader_starts_it(
    started: list[str], shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "orig_argv", started)
    monkeypatch.chdir(FILE.parents[1])
    assert program() == shown


def test_the_committed_page_takes_a_row_in_every_section(tmp_path: Path) -> None:
    file = tmp_path / "RESULTS.md"
    file.write_bytes(FILE.read_bytes())
    for section in ("Measured figures", "On real GPUs"):
        record([Row(f"probe of {section}", "1", "`p`")], section=section, file=file)
    assert [len(lines(file, f"probe of {section}")) for section in ("Measured figures", "On real GPUs")] == [1, 1]


def test_every_figure_of_the_summary_is_one_of_a_row() -> None:
    """Of the table that it names: a row that is measured again would otherwise leave an older figure above it."""
    tables = dict(section.split("\n", 1) for section in results.FILE.read_text().split("\n## ")[1:])
    number = re.compile(r"(?<![\w.,])[-+]?\d+(?:[.,]\d+)*")
    asked = [line.split("|")[1:4] for line in tables["In short"].split("\n") if line.startswith("| ")][1:]
    assert len(asked) > 5
    for _, figure, table in asked:
        rows = "\n".join(line for line in tables[table.strip()].split("\n") if line.startswith("|"))
        absent = set(number.findall(figure)) - set(number.findall(rows))
        assert not absent, f"{figure}: {', '.join(absent)} in no row of {table}"
