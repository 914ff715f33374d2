"""Reading a recording: what is taken, and what is refused with which words."""

from __future__ import annotations

import contextlib
import gzip
import random
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dutycycle_exporter.errors import ReplayError
from dutycycle_exporter.replay.recording import read
from tests.exporter.replay.playing import START, row, write

HEADER = "t,node,gpu,utilization_ratio"


def test_columns_may_stand_in_any_order_and_be_empty(tmp_path: Path) -> None:
    path = tmp_path / "r.csv"
    path.write_text("gpu,utilization_ratio,node,t\n3,0.25,n,100\n3,,n,110\n")
    (series,) = read(path, "n").series
    assert (list(series.starts), list(series.ends)) == ([90, 100], [100, 110])
    assert series.gpu == "3"
    assert series.column("utilization_ratio")[0] == 0.25
    assert series.column("utilization_ratio")[1] != series.column("utilization_ratio")[1]


def test_gzip_bom_crlf_blank_lines_and_repeated_headers_are_read(tmp_path: Path) -> None:
    """Recordings are concatenated, edited on other systems and compressed, whatever they are called."""
    text = f"\ufeff{HEADER}\r\n100,n,0,0.5\r\n\r\n{HEADER}\r\n110,n,0,0.5\r\n"
    path = tmp_path / "recording"
    path.write_bytes(gzip.compress(text.encode()))
    assert len(read(path, "n").series[0].ends) == 2


def test_row_stands_for_the_time_since_the_last_up_to_half_an_interval_late(tmp_path: Path) -> None:
    """Jitter is no hole; half an interval more than usual is."""
    path = write(tmp_path / "r.csv", [row(t, 0.5) for t in (10, 20, 30, 44, 70, 80, 85)])
    (series,) = read(path, "n").series
    assert [start - START for start in series.starts] == [0, 10, 20, 30, 55, 70, 80]


def test_rows_with_one_time_count_once_whatever_their_order(tmp_path: Path) -> None:
    rows = [row(10, 0.5), row(10, 0.7), row(20, 0.1), row(10, None)]
    for shuffled in (rows, rows[::-1]):
        (series,) = read(write(tmp_path / "r.csv", shuffled), "n").series
        assert list(series.column("utilization_ratio")) == [0.7, 0.1]


def test_without_a_column_of_workloads_the_file_is_one_job(tmp_path: Path) -> None:
    path = tmp_path / "night.csv.gz"
    path.write_bytes(gzip.compress(f"{HEADER}\n100,n,0,0.5\n".encode()))
    assert read(path, "n").series[0].workload == "night"


def test_the_whole_file_says_when_it_begins(tmp_path: Path) -> None:
    """Nodes are played in step: the earliest row of any of them is the beginning."""
    others = [row(t, 0.5, node="m") for t in (5, 10)]
    path = write(tmp_path / "r.csv", [row(30, 0.5), row(40, 0.5), *others])
    assert read(path, "n").start == read(path, "m").start == START
    assert [series.gpu for series in read(path, "n").series] == ["0"]


def test_a_job_begins_when_the_one_before_it_has_left_the_gpu(tmp_path: Path) -> None:
    """Its first row would reach into the other's last one."""
    first = [row(t, 0.5) for t in (10, 20, 30)]
    second = [row(t, 0.5, workload="slurm/8") for t in (36, 46)]
    starts = {
        series.workload: series.starts[0] - START for series in read(write(tmp_path / "r", first + second), "n").series
    }
    assert starts == {"slurm/7": 0, "slurm/8": 30}


def test_the_only_node_need_not_be_named(tmp_path: Path) -> None:
    assert read(write(tmp_path / "r.csv", [row(10, 0.5)]), "").node == "n"


@pytest.mark.parametrize("ending", ["20,n,0,0.9", "20,n,0"])
def test_a_last_line_without_its_end_is_left_out(tmp_path: Path, ending: str) -> None:
    """The recorder was killed while it wrote: 0.9 may be the beginning of 0.95."""
    path = tmp_path / "r.csv"
    path.write_text(f"{HEADER}\n10,n,0,0.5\n{ending}")
    assert list(read(path, "n").series[0].ends) == [10]


def test_compressed_data_without_its_end_is_played_as_far_as_it_goes(tmp_path: Path) -> None:
    noise = random.Random(1)
    lines = "".join(f"{10 * i},n,0,{noise.random()}\n" for i in range(1, 2000))
    path = tmp_path / "r.csv.gz"
    whole = gzip.compress(f"{HEADER}\n{lines}".encode())
    path.write_bytes(whole[: len(whole) // 2])
    assert 500 < len(read(path, "n").series[0].ends) < 1500


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ("", "has no rows"),
        (f"{HEADER}\n", "has no rows"),
        ("t,node,gpu\n1,n,0\n", "r.csv:1: no column utilization_ratio"),
        (f"{HEADER},procesess\n", "r.csv:1: unknown column 'procesess': did you mean 'processes'"),
        (f"{HEADER},gpu\n", "r.csv:1: column 'gpu' is there 2 times"),
        (f"{HEADER}\n1,n,0,0.5\n2,n,0\n", "r.csv:3: 3 cells, the header has 4"),
        (f"{HEADER}\n1,n,,0.5\n", "r.csv:2: names no gpu"),
        (f"{HEADER}\n,n,0,0.5\n", "r.csv:2: t '' is not a time"),
        (f"{HEADER}\n-5,n,0,0.5\n", "r.csv:2: t '-5' is below 0"),
        (f"{HEADER}\n1700000000000,n,0,0.5\n", "is not a time in seconds since 1970"),
        (f"{HEADER}\n1,n,0,50\n", "r.csv:2: utilization_ratio '50' is not in 0..1"),
        (f"{HEADER}\n1,n,0,nan\n", "utilization_ratio 'nan' is not a number"),
        (f"{HEADER}\n1,n,0,1_0\n", "'1_0' is not a number"),
        (f"{HEADER}\n1,n,0,\u0661\n", "is not a number"),
        (f"{HEADER}\n1,n,0,1e999\n", "'1e999' is not a number"),
        (f"{HEADER},processes\n1,n,0,0.5,100000\n", "processes '100000' is over 4096"),
        (f"{HEADER},power_watts\n1,n,0,0.5,-1\n", "power_watts '-1' is below 0"),
        (f'{HEADER}\n1,"n,0,0.5\n', "r.csv:2: not CSV"),
        (f"{HEADER}\n1,{'n' * 70000},0,0.5\n", "r.csv:2: longer than 65536 bytes"),
        (f"{HEADER}\n1,a,0,0.5\n1,b,0,0.5\n", "choose one with --replay.node: 'a', 'b'"),
    ],
)
def test_what_cannot_be_read_is_named_with_file_and_line(tmp_path: Path, lines: str, says: str) -> None:
    path = tmp_path / "r.csv"
    path.write_text(lines)
    with pytest.raises(ReplayError) as caught:
        read(path, "")
    assert says in str(caught.value)
    assert len(str(caught.value)) < 600


def test_a_node_that_is_not_there_is_an_error_that_names_those_that_are(tmp_path: Path) -> None:
    path = write(tmp_path / "r.csv", [row(10, 0.5)])
    with pytest.raises(ReplayError, match=r"no rows of node 'm'; choose one with --replay\.node: 'n'"):
        read(path, "m")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"\x1f\x8b\x08\x00garbage that is no deflate stream", "compressed data is damaged"),
        (HEADER.encode() + b"\n1,\xff,0,0.5\n", "r.csv:2: not UTF-8"),
        (b"\x00" * 100_000, "longer than 65536 bytes"),
    ],
)
def test_bytes_that_are_no_text_are_refused(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "r.csv"
    path.write_bytes(content)
    with pytest.raises(ReplayError, match=says):
        read(path, "n")


def test_a_file_that_is_not_there_or_is_a_directory_is_an_error_of_ours(tmp_path: Path) -> None:
    for path in (tmp_path / "none.csv", tmp_path):
        with pytest.raises(ReplayError, match="cannot be read"):
            read(path, "n")


@settings(deadline=None)
@given(st.binary(max_size=400))
def test_any_bytes_are_read_or_refused(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.mktemp("any") / "r.csv"
    path.write_bytes(HEADER.encode() + b"\n" + content)
    with contextlib.suppress(ReplayError):
        read(path, "")


def test_rows_of_other_nodes_take_hardly_any_memory(tmp_path: Path) -> None:
    """A recording of a large cluster is played by an exporter for each node."""
    cells = dict.fromkeys(("memory_used_bytes", "power_watts", "processes", "cpu_cores", "io_pressure_ratio"), 0.5)
    path = write(tmp_path / "r.csv", [row(t, 0.5, node=f"n{t % 20}", **cells) for t in range(1, 20_001)])
    tracemalloc.start()
    try:
        recording = read(path, "n1")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert sum(len(series.ends) for series in recording.series) == 1000
    assert peak < 20_000 * 100
