"""Recording an exporter: differences of its counters become rows, whatever happens to either process."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutycycle_alerter import recordings
from dutycycle_alerter.recordings.record import Recorder
from dutycycle_alerter.sources.exposition import parse

DEVICE = 'node="n1",gpu="3",gpu_uuid="GPU-a",mig=""'
OWNER = (
    'cluster="",scheduler="slurm",workload="slurm/7",namespace="",pod="",job_id="7",user="ann",account="lab",'
    'partition="",model="H200"'
)
PATIENT = """
from dutycycle_alerter.cli import main, record
fetcher = record.Fetcher
record.Fetcher = lambda timeout: fetcher(max(60.0, timeout))
main()
"""
"""An exporter that stalls does answer, and leaves no gap."""
HOST = 'node="n1",cluster="",scheduler="slurm",workload="slurm/7"'


def page(
    seconds: float = 0.0,
    *,
    share: float | None = 1.0,
    observed: float | None = None,
    busy: float = 0.5,
    allocated: float | None = None,
    device: str = DEVICE,
    active: dict[str, float] | None = None,
) -> str:
    """What an exporter shows once a workload has held a GPU for some seconds; `active` are seconds by unit."""
    measured = seconds if observed is None else observed
    lines = [
        "dutycycle_exporter_time_scale 1",
        'gpu_visible{node="n1"} 1',
        f'gpu_info{{{device},model="H200",minor="3",pci_bus_id="",mig_mode="",mig_profile=""}} 1',
        f"gpu_utilization_ratio{{{device}}} 0.25",
        f"gpu_memory_used_bytes{{{device}}} 3e9",
        f"gpu_memory_total_bytes{{{device}}} 1.4e11",
        f"gpu_power_watts{{{device}}} 90",
        f"gpu_power_limit_watts{{{device}}} 700",
        f"gpu_processes{{{device}}} 0",
    ]
    if share is not None:
        lines.append(f"gpu_allocation{{{device},{OWNER}}} {share}")
    lines += [
        f"workload_gpu_{name}{{{device},{OWNER}{extra}}} {value}"
        for name, extra, value in (
            ("allocated_seconds_total", "", seconds if allocated is None else allocated),
            ("observed_seconds_total", "", measured),
            ("busy_seconds_total", "", busy * measured),
            ("idle_gap_seconds_total", ',length="lt2"', 0.2 * measured),
            ("idle_gap_seconds_total", ',length="2to30"', 0.1 * measured),
            ("energy_joules_total", "", 400 * (seconds if allocated is None else allocated)),
            ("memory_used_bytes", "", 2e9),
            ("processes", "", 2),
        )
    ]
    for unit, value in (active or {}).items():
        lines.append(f'workload_gpu_active_seconds_total{{{device},{OWNER},unit="{unit}"}} {value}')
    lines += [
        f"workload_cpu_seconds_total{{{HOST}}} {6 * seconds}",
        f"workload_cpu_limit_cores{{{HOST}}} 8",
        f'workload_pressure_seconds_total{{{HOST},resource="io"}} {0.3 * seconds}',
    ]
    return "\n".join([*lines, ""])


def rows(*pages: str, every: float = 10.0):
    """The rows of the last interval of several answers, `every` seconds apart."""
    recorder = Recorder()
    found = []
    for i, text in enumerate(pages):
        found = recorder.rows(parse(text), 1_700_000_000 + every * i)
    return found


def test_a_row_is_the_difference_of_two_answers():
    (row,) = rows(page(100), page(110))
    assert row == {
        "t": 1_700_000_010.0,
        "node": "n1", "gpu": "3", "gpu_uuid": "GPU-a", "model": "H200",
        "workload": "slurm/7", "scheduler": "slurm", "user": "ann", "account": "lab",
        "utilization_ratio": 0.5, "idle_gap_lt2_ratio": 0.2, "idle_gap_2to30_ratio": 0.1,
        "power_watts": 400, "power_limit_watts": 700,
        "memory_used_bytes": 2e9, "memory_total_bytes": 1.4e11, "processes": 2,
        "cpu_cores": 6, "cpu_limit_cores": 8, "io_pressure_ratio": 0.3, "cpu_pressure_ratio": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("then", "now", "recorded"),
    [
        ({"sm": 5.0, "tensor": 0.0, "dram": 2.0, "fp16": 1.0}, {"sm": 9.0, "tensor": 0.0, "dram": 3.0, "fp16": 2.0},
         {"sm_active_ratio": 0.4, "tensor_active_ratio": 0.0, "dram_active_ratio": 0.1}),
        ({"sm": 5.0}, {"sm": 99.0}, {"sm_active_ratio": 1.0}),
        ({"sm": 5.0}, {"sm": 4.0}, {}),  # they began again
        ({}, {"sm": 4.0}, {}),  # known since now
        ({"sm": 4.0}, {}, {}),  # not known any more
    ],
)  # fmt: skip
def test_the_activity_of_units_is_recorded_where_the_gpu_tells_it(then, now, recorded):
    (row,) = rows(page(100, active=then), page(110, active=now))
    assert {name: value for name, value in row.items() if name.endswith("_active_ratio")} == recorded


def test_the_first_answer_is_only_a_start():
    assert rows(page(100)) == []


def test_an_exporter_that_started_again_leaves_the_interval_unknown():
    assert rows(page(100), page(3)) == []
    (row,) = rows(page(100), page(3), page(13))
    assert row["utilization_ratio"] == 0.5


@pytest.mark.parametrize(("observed", "known"), [(0.0, False), (4.9, False), (5.0, True), (10.0, True)])
def test_an_interval_that_was_hardly_measured_has_no_utilization(observed, known):
    (row,) = rows(page(100, observed=0), page(110, observed=observed))
    assert (row["utilization_ratio"] is not None) == known


def test_half_a_gpu_is_measured_in_half_the_time():
    (row,) = rows(page(50, share=0.5), page(55, share=0.5))
    assert row["utilization_ratio"] == 0.5
    assert row["power_watts"] == 200


def test_what_accumulated_while_a_series_was_held_at_zero_is_no_burst():
    """A new series stays at 0 for some scrapes and then shows everything: a ratio is sound then, a rate is not."""
    (held,) = rows(page(0, allocated=0), page(0, allocated=0))
    assert held["utilization_ratio"] is None
    (row,) = rows(page(0), page(30))
    assert row["utilization_ratio"] == 0.5
    assert row["power_watts"] is None
    assert row.get("cpu_cores") is None


def test_a_workload_that_came_or_went_within_the_interval_has_no_row_of_it():
    assert [row.get("workload", "") for row in rows(page(100, share=None), page(110))] == []
    assert [row.get("workload", "") for row in rows(page(100), page(110, share=None))] == [""]


def test_a_gpu_that_nobody_holds_has_a_row_without_workload():
    (row,) = rows(page(share=None), page(share=None))
    assert row.get("workload", "") == ""
    assert (row["gpu"], row["gpu_uuid"], row["model"]) == ("3", "GPU-a", "H200")
    assert (row["utilization_ratio"], row["power_watts"], row["processes"]) == (0.25, 90, 0)


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0, 1)), min_size=2, max_size=8))
def test_whatever_the_counters_do_a_row_can_be_read_back(steps):
    recorder, observed, busy = Recorder(), 0.0, 0.0
    for i, (grown, utilization) in enumerate(steps):
        observed, busy = observed + grown, busy + grown * utilization
        ratio = busy / observed if observed else 0.0
        text = page(observed, observed=observed, busy=ratio)
        for row in recorder.rows(parse(text), 1_700_000_000 + 10 * i):
            assert row["utilization_ratio"] is None or 0 <= row["utilization_ratio"] <= 1
            assert all(value is None or isinstance(value, str) or value >= 0 for value in row.values())


class Exporter:
    """An exporter on a socket whose counters grow with time."""

    def __init__(self) -> None:
        self.start = time.monotonic()
        self.broken = threading.Event()
        self.failed = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = page(1000 + time.monotonic() - outer.start).encode()
                status = 500 if outer.broken.is_set() else 200
                if status == 500:
                    outer.failed.set()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/metrics"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,))

    def __enter__(self) -> "Exporter":
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def exporter() -> Iterator[Exporter]:
    with Exporter() as running:
        yield running


@contextmanager
def recording(url: str, out: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """`dutycycle record` as a process of its own; killed at the end if it still runs."""
    command = [sys.executable, "-c", PATIENT, "record"]
    process = subprocess.Popen(
        [*command, "--from", url, "--out", str(out), "--interval", "100ms", *options],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def wait_for_rows(path: Path, number: int) -> int:
    """Wait until the file can be read with so many rows at least."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if path.exists() and path.stat().st_size:
            found = len(recordings.load([path]))
            if found >= number:
                return found
        time.sleep(0.05)
    raise AssertionError(f"no {number} rows in {path}")


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz"])
def test_what_was_written_survives_kill_9(tmp_path, exporter, name):
    path = tmp_path / name
    with recording(exporter.url, path) as process:
        seen = wait_for_rows(path, 5)
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=30)
    made = recordings.load([path])
    assert len(made) >= seen
    assert {round(value, 2) for value in made.numbers["utilization_ratio"].tolist()} == {0.5}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_ends_it_cleanly(tmp_path, exporter, number):
    path = tmp_path / "a.csv.gz"
    with recording(exporter.url, path) as process:
        wait_for_rows(path, 3)
        process.send_signal(number)
        _, said = process.communicate(timeout=30)
        assert process.returncode == 0
    made = recordings.load([path])
    assert made.skipped.count == 0
    assert said == f"dutycycle: {len(made)} rows in {path}\n"


def test_a_duration_ends_it(tmp_path, exporter):
    with recording(exporter.url, tmp_path / "a.csv", "--duration", "3s") as process:
        process.communicate(timeout=60)
        assert process.returncode == 0
    assert 1 <= len(recordings.load([tmp_path / "a.csv"])) <= 30


def test_an_exporter_that_fails_for_a_while_leaves_a_gap(tmp_path, exporter):
    path = tmp_path / "a.csv"
    with recording(exporter.url, path) as process:
        before = wait_for_rows(path, 3)
        exporter.broken.set()
        assert exporter.failed.wait(60)
        exporter.broken.clear()
        wait_for_rows(path, before + 5)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
        assert process.returncode == 0
    assert said.count("the recording has a gap") == 1
    assert said.count("answers again") == 1


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/metrics", "not a url"])
def test_without_an_exporter_there_is_an_error_and_no_file(tmp_path, url):
    with recording(url, tmp_path / "a.csv") as process:
        _, said = process.communicate(timeout=60)
        assert process.returncode == 1
    assert said.startswith("dutycycle: ")
    assert url in said
    assert not (tmp_path / "a.csv").exists()


def test_an_existing_file_is_not_written_over(tmp_path, exporter):
    (tmp_path / "a.csv").write_text("precious")
    with recording(exporter.url, tmp_path / "a.csv") as process:
        _, said = process.communicate(timeout=60)
        assert process.returncode == 2
    assert "exists already" in said
    assert (tmp_path / "a.csv").read_text() == "precious"


@pytest.mark.skipif(not Path("/dev/full").exists() or os.name != "posix", reason="needs /dev/full")
def test_a_full_disk_is_an_error_that_names_the_file(tmp_path):
    from dutycycle_alerter.recordings.writing import NotWrittenError, RecordingWriter

    writer = RecordingWriter(tmp_path / "a.csv")
    with Path("/dev/full").open("wb", buffering=0) as full:
        real, writer._file = writer._file, full
        with pytest.raises(NotWrittenError, match="No space left"):
            writer.write([{"t": 1.0}])
    real.close()
