"""The bundled recording shows what its description says, and the rules find it: no more, no less."""

from __future__ import annotations

import re
from importlib.resources import as_file, files

import pytest

from dutycycle_alerter.analysis import Analysis, analyze
from dutycycle_alerter.recordings import load
from dutycycle_alerter.settings import Settings
from dutycycle_exporter.replay.recording import read

EXPECTED = {
    "slurm/48205": ("partially_idle", ["over-request"]),
    # A recording does not say that a job is interactive.
    "slurm/48210": ("idle", ["hang", "idle notebook"]),
    "slurm/48211": ("idle", ["no process"]),
    "slurm/48214": ("uneven", ["communication or straggler"]),
    "slurm/48216": ("stalled", ["data loading"]),
    "slurm/48217": ("stalled", ["data loading", "small work per step"]),
    "slurm/48220": ("underused", ["small work per step"]),
}


@pytest.fixture(scope="module")
def analysis() -> Analysis:
    with as_file(files("dutycycle_alerter") / "data" / "demo.csv.gz") as path:
        return analyze(load([path]), Settings())


def test_the_rules_find_what_is_there_and_nothing_else(analysis: Analysis) -> None:
    found = {f.subject: (f.rule, [str(cause) for cause in f.diagnosis.causes]) for f in analysis.findings}
    assert found == EXPECTED
    assert len(analysis.findings) == len(EXPECTED)


def test_the_job_that_is_mended_clears_and_the_others_end_with_their_jobs(analysis: Analysis) -> None:
    resolutions = {finding.subject: str(finding.resolution) for finding in analysis.findings}
    assert resolutions.pop("slurm/48216") == "cleared"
    assert set(resolutions.values()) == {"ended"}


def test_every_line_is_sound_and_every_job_can_be_judged(analysis: Analysis) -> None:
    assert analysis.recording.skipped.count == 0
    assert analysis.recording.notes == ()
    assert analysis.fleet.gpus == 16
    assert analysis.verdicts.judged == analysis.fleet.workloads == 12
    assert len(analysis.users) == 8


def test_the_exporter_plays_both_nodes() -> None:
    with as_file(files("dutycycle_alerter") / "data" / "demo.csv.gz") as path:
        for node in ("gpu01", "gpu02"):
            assert len({series.key for series in read(path, node).series}) == 8


def test_its_readme_says_that_it_is_simulated_and_lists_its_jobs() -> None:
    text = (files("dutycycle_alerter") / "data" / "README.md").read_text()
    assert "It is simulated" in text
    jobs = {f"slurm/{number}": line for line in text.splitlines() if (number := _number(line))}
    assert {job for job, line in jobs.items() if "`" in line} == set(EXPECTED)
    assert len(jobs) == 12


def _number(line: str) -> str:
    found = re.match(r"\| (\d+) \|", line)
    return found.group(1) if found else ""
