"""A recording played by the exporter, recorded from it again, and analysed: the figures come through."""

import re
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import urllib3

from dutycycle_alerter import recordings
from dutycycle_alerter.analysis import analyze
from dutycycle_alerter.recordings.writing import RecordingWriter
from dutycycle_alerter.settings import Settings
from tests.alerter.recordings.rows import steady
from tests.e2e.site import wait_for

SPEED = 30


def run(module: str, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", f"from {module}.cli import main; main()", *arguments]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


def plays(url: str) -> bool:
    return b"\ngpu_allocation{" in urllib3.request("GET", url).data


@pytest.fixture
def exporter(tmp_path) -> Iterator[str]:
    """The address of an exporter that plays two GPUs of one job, at 80 % and 20 %."""
    path = tmp_path / "played.csv"
    with RecordingWriter(path) as writer:
        for gpu, utilization in enumerate((0.8, 0.2)):
            known = {"node": "n1", "workload": "slurm/7", "scheduler": "slurm", "user": "ann", "model": "H200"}
            writer.write(known | row for row in steady(utilization, 600, gpu=str(gpu), gpu_uuid=f"GPU-{gpu}"))
    arguments = ("--web.listen-address=127.0.0.1:0", f"--replay={path}", f"--time-scale={SPEED}")
    process = run("dutycycle_exporter", *arguments)
    try:
        assert process.stderr is not None
        for line in process.stderr:
            if match := re.search(r"listening on (127\.0\.0\.1:[1-9]\d*)", line):
                url = f"http://{match.group(1)}/metrics"
                # It listens before its child has read the recording.
                wait_for(partial(plays, url), "it plays", within=120)
                yield url
                break
        else:
            pytest.fail("the exporter ended before it listened")
    finally:
        process.terminate()
        process.communicate(timeout=60)


def test_what_an_exporter_shows_is_recorded_and_analysed(tmp_path: Path, exporter: str):
    path = tmp_path / "recorded.csv.gz"
    process = run(
        "dutycycle_alerter", "record", "--from", exporter, "--out", str(path), "--interval=1s", "--duration=12s"
    )
    _, said = process.communicate(timeout=120)
    assert process.returncode == 0, said
    result = analyze(recordings.load([path]), Settings(time_scale=SPEED))
    assert result.recording.skipped.count == 0
    assert result.fleet.gpus == 2
    assert [user.user for user in result.users] == ["ann"]
    assert result.fleet.mean == pytest.approx(0.5, abs=0.02)
    for series, expected in zip(result.series("slurm/7"), (0.8, 0.2), strict=True):
        known = [point.utilization for point in series.points if point.utilization is not None]
        assert known == pytest.approx([expected] * len(known), abs=0.02)
        assert known
