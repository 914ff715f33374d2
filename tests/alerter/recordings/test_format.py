"""Our recording format: any column order, empty is missing, and a line that cannot be read is named, never guessed."""

import math
import random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dutycycle_alerter import recordings
from dutycycle_alerter.errors import RecordingError
from dutycycle_alerter.recordings.format import COLUMNS
from dutycycle_alerter.recordings.model import NUMBERS, RATIOS, TEXTS
from dutycycle_alerter.recordings.writing import RecordingWriter, line
from tests.alerter.recordings.files import column, load, reasons

HEADER = "t,node,gpu,workload,user,utilization_ratio,power_watts"
ROW = "1700000000.5,n1,0,job,ann,0.25,300"


def test_reads_columns_by_name(tmp_path):
    recording = load(tmp_path, f"{HEADER}\n{ROW}\n1700000010.5,n1,1,job,ann,1,\n")
    assert recording.t.tolist() == [1700000000.5, 1700000010.5]
    assert column(recording, "gpu") == ["0", "1"]
    assert column(recording, "user") == ["ann", "ann"]
    assert column(recording, "account") == ["", ""]
    assert recording.numbers["utilization_ratio"].tolist() == [0.25, 1.0]
    assert recording.skipped.count == 0


def test_an_empty_cell_is_missing_not_zero(tmp_path):
    recording = load(tmp_path, f"{HEADER}\n{ROW}\n1700000010,n1,0,job,ann,,0\n")
    assert math.isnan(recording.numbers["utilization_ratio"][1])
    assert recording.numbers["power_watts"][1] == 0.0


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "no-ending.gz"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_reads_plain_and_compressed_with_any_line_end_and_byte_order_mark(tmp_path, name, end, encoding):
    text = end.join([HEADER, ROW, "1700000010,n1,0,jöb,ann,0.5,", ""])
    recording = load(tmp_path, text.encode(encoding), name=name)
    assert len(recording) == 2
    assert column(recording, "workload") == ["job", "jöb"]
    assert recording.skipped.count == 0


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ("1700000010,n1,0,job,ann,1.5,300", "utilization_ratio '1.5' is not in 0..1"),
        ("1700000010,n1,0,job,ann,-0.1,300", "utilization_ratio '-0.1' is not in 0..1"),
        ("1700000010,n1,0,job,ann,half,300", "'half' is not a number"),
        ("1700000010,n1,0,job,ann,nan,300", "'nan' is not a number"),
        ("1700000010,n1,0,job,ann,0.5,inf", "'inf' is not a number"),
        ("1700000010,n1,0,job,ann,0.5,1e999", "'1e999' is too large a number"),
        ("1700000010,n1,0,job,ann,0.5,1_000", "'1_000' is not a number"),
        ("1700000010,n1,0,job,ann,0.5,٣", "'٣' is not a number"),
        ("1700000010,n1,0,job,ann,0.5,-3", "power_watts -3 is below 0"),
        ("1700000010,n1,0,job,ann,0.5", "6 cells, the header has 7"),
        ("1700000010,n1,0,job,ann,0.5,300,9", "8 cells, the header has 7"),
        ("1700000010000,n1,0,job,ann,0.5,300", "t '1700000010000' is not in seconds since 1970 (milliseconds?)"),
        ("-5,n1,0,job,ann,0.5,300", "t '-5' is not a time after 1970"),
        (",n1,0,job,ann,0.5,300", "no t"),
        ("1700000010,n1,,job,ann,0.5,300", "names no gpu"),
        ('1700000010,n1,0,"job,ann,0.5,300', "not CSV: unexpected end of data"),
        ("1700000010,n1,0,job,ann,0.5,300\0", "'300\\x00' is not a number"),
        ("x" * 70_000, "longer than 65536 characters"),
    ],
)
def test_a_bad_line_is_counted_and_named_and_the_others_are_kept(tmp_path, bad, why):
    recording = load(tmp_path, "\n".join([HEADER, ROW, bad, "1700000020,n1,0,job,ann,0.75,300", ""]))
    assert recording.numbers["utilization_ratio"].tolist() == [0.25, 0.75]
    assert reasons(recording) == [(3, why)]
    assert str(recording.skipped.first[0]).startswith(f"{tmp_path}/a.csv:3: ")


def test_bytes_that_are_not_text_are_named(tmp_path):
    recording = load(tmp_path, f"{HEADER}\n{ROW}\n".encode() + b"1700000010,n\xff,0,job,ann,0.5,300\n")
    assert reasons(recording) == [(3, "not UTF-8 text")]


def test_space_around_a_cell_means_nothing_wherever_the_line_stands(tmp_path):
    """Sound chunks and chunks with a bad line are read in different ways; both must say the same."""
    spaced = "1700000010 , n1, 0 , my job , ann, 0.5, 300"
    alone = load(tmp_path, f"{HEADER}\n{ROW}\n{spaced}\n")
    beside_a_bad_one = load(tmp_path, f"{HEADER}\n{ROW}\n{spaced}\nbad\n")
    for recording in (alone, beside_a_bad_one):
        assert column(recording, "workload") == ["job", "my job"]
        assert recording.t.tolist() == [1700000000.5, 1700000010.0]
    only_text = load(tmp_path, f"{HEADER}\n{ROW}\n1700000010, n1, 0, job ,ann,0.5,300\n")
    assert column(only_text, "workload") == ["job", "job"]


def test_quoted_cells_may_contain_commas_and_quotes(tmp_path):
    recording = load(tmp_path, f'{HEADER}\n1700000010,n1,0,"a, ""b""",ann,0.5,300\n')
    assert column(recording, "workload") == ['a, "b"']


def test_blank_lines_and_a_repeated_header_are_no_rows_and_no_faults(tmp_path):
    recording = load(tmp_path, f"\n{HEADER}\n\n{ROW}\n{HEADER}\n\r\n1700000010,n1,0,job,ann,0.5,300\n")
    assert len(recording) == 2
    assert recording.skipped.count == 0


@pytest.mark.parametrize(
    ("header", "why"),
    [
        ("t,node,gpu,utilisation_ratio", "unknown column 'utilisation_ratio': did you mean 'utilization_ratio'?"),
        ("t,node,gpu,utilization_ratio,wrkload", "unknown column 'wrkload': did you mean 'workload'?"),
        ("t,gpu,utilization_ratio", "no column node in its header"),
        ("t,node,gpu", "no column utilization_ratio in its header"),
        ("node,gpu,utilization_ratio", "no column t in its header"),
        ("t,t,node,gpu,utilization_ratio", "column 't' is there 2 times"),
    ],
)
def test_a_header_that_cannot_be_used_is_refused_with_what_is_wrong(tmp_path, header, why):
    with pytest.raises(RecordingError, match=r"a\.csv: ") as caught:
        load(tmp_path, header + "\n")
    assert why in str(caught.value)


def test_a_column_that_is_no_typing_error_is_left_out_and_reported(tmp_path):
    recording = load(tmp_path, f"{HEADER},room_number\n{ROW},7\n")
    assert len(recording) == 1
    assert recording.notes == (f"{tmp_path}/a.csv: column 'room_number' is not known and was left out",)


def test_without_a_workload_column_the_file_is_one_job(tmp_path):
    recording = load(tmp_path, "t,node,gpu,utilization_ratio\n1700000000,n1,0,0.5\n", name="night.csv.gz")
    assert column(recording, "workload") == ["night"]
    assert "judged as one job, night" in recording.notes[0]


@pytest.mark.parametrize(("content", "why"), [("", "empty"), ("\n\n", "empty"), (b"\x1f\x8b", "ends too early")])
def test_a_file_with_nothing_in_it_is_refused(tmp_path, content, why):
    with pytest.raises(RecordingError, match=why):
        load(tmp_path, content)


def test_a_header_alone_is_a_recording_without_rows(tmp_path):
    assert len(load(tmp_path, HEADER)) == 0


@pytest.mark.parametrize(
    ("cut", "rows", "power"),
    [
        ("1700000010,n1,0,job,ann,0.5,30", 2, None),  # 300, 30.5: not known
        ("1700000010,n1,0,job,ann,0.5,", 2, None),
        ("1700000010,n1,0,job,ann,0.", 1, None),
        ("17000000", 1, None),
    ],
)
def test_a_last_line_without_end_is_never_completed_by_guessing(tmp_path, cut, rows, power):
    recording = load(tmp_path, f"{HEADER}\n{ROW}\n{cut}")
    assert len(recording) == rows
    assert len(reasons(recording)) == 2 - rows
    if rows == 2:
        assert math.isnan(recording.numbers["power_watts"][1])


@pytest.mark.parametrize(("cut", "rows"), [("1700000010,0,n1,0.5,job", 2), ("1700000010,0,n1,0.5,jo", 1)])
def test_a_last_text_without_end_counts_only_where_it_was_seen_before(tmp_path, cut, rows):
    header = "t,gpu,node,utilization_ratio,workload"
    assert len(load(tmp_path, f"{header}\n1700000000,0,n1,0.5,job\n{cut}")) == rows


def test_damaged_compression_keeps_what_came_before_it(tmp_path):
    rows = "".join(f"{1700000000 + i},n1,0,job,ann,{random.random()},300\n" for i in range(5000))
    path = tmp_path / "a.csv.gz"
    load(tmp_path, f"{HEADER}\n{rows}", name=path.name)
    path.write_bytes(path.read_bytes()[:-5000])
    recording = recordings.load([path])
    assert 1000 < len(recording) < 5000
    assert "the compressed data ends too early" in recording.skipped.first[-1].why


def test_several_compressed_parts_in_one_file_are_read_as_one(tmp_path):
    import gzip

    parts = [gzip.compress(f"{HEADER}\n{ROW}\n".encode()), gzip.compress(b"1700000010,n1,0,job,ann,0.5,300\n")]
    (tmp_path / "a.gz").write_bytes(b"".join(parts))
    assert len(recordings.load([tmp_path / "a.gz"])) == 2


def test_several_files_are_one_fleet(tmp_path):
    (tmp_path / "a.csv").write_text(f"{HEADER}\n{ROW}\nbad\n")
    (tmp_path / "b.csv").write_text("utilization_ratio,t,node,gpu,workload,cpu_cores\n0.5,1700000050,n2,3,other,1.5\n")
    recording = recordings.load([tmp_path / "a.csv", tmp_path / "b.csv"])
    assert column(recording, "node") == ["n1", "n2"]
    assert column(recording, "user") == ["ann", ""]
    assert np.isnan(recording.numbers["cpu_cores"]).tolist() == [True, False]
    assert [str(line) for line in recording.skipped.first] == [f"{tmp_path}/a.csv:3: 1 cells, the header has 7"]


def test_more_bad_lines_than_are_named_are_still_counted(tmp_path):
    recording = load(tmp_path, HEADER + "\n" + "bad\n" * 5000)
    assert recording.skipped.count == 5000
    assert len(recording.skipped.first) == 1000


@pytest.mark.parametrize("missing", ["nowhere.csv", "."])
def test_a_file_that_cannot_be_opened_is_refused_by_name(tmp_path, missing):
    with pytest.raises(RecordingError, match="cannot be read"):
        recordings.load([tmp_path / missing])


def test_rows_are_the_same_however_the_file_is_cut_into_chunks(tmp_path, monkeypatch):
    lines = [f"{1700000000 + i},n{i % 3},0,job {i % 7},ann,{i % 10 / 10},{i}" for i in range(300)]
    lines[100] = "bad"
    content = "\n".join([HEADER, *lines, ""])
    whole = load(tmp_path, content, name="a.csv.gz")
    monkeypatch.setattr("dutycycle_alerter.recordings.lines._BLOCK", 37)
    pieces = load(tmp_path, content, name="a.csv.gz")
    assert pieces.t.tolist() == whole.t.tolist()
    assert column(pieces, "workload") == column(whole, "workload")
    assert pieces.skipped == whole.skipped


TEXT = st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), max_size=12).map(str.strip)
AMOUNT = st.floats(0, 1e15)


@st.composite
def row(draw):
    values = {"t": draw(st.floats(1, 4e9)), "node": draw(TEXT), "gpu": draw(TEXT.filter(bool))}
    for name in TEXTS:
        values.setdefault(name, draw(TEXT))
    for name in NUMBERS:
        values[name] = draw(st.none() | (st.floats(0, 1) if name in RATIOS else AMOUNT))
    return values


@given(rows=st.lists(row(), max_size=8), order=st.permutations(range(len(COLUMNS))))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None)
def test_what_is_written_is_read_back_whatever_the_order_of_columns(tmp_path, rows, order):
    import csv
    import io

    text = ",".join(COLUMNS) + "\n" + "".join(line(values) for values in rows)
    shuffled = io.StringIO()
    for cells in csv.reader(io.StringIO(text)):
        csv.writer(shuffled, lineterminator="\n").writerow([cells[i] for i in order])
    recording = load(tmp_path, shuffled.getvalue())
    assert recording.skipped.count == 0
    assert recording.t.tolist() == [values["t"] for values in rows]
    for name in TEXTS:
        assert column(recording, name) == [values[name] for values in rows]
    for name in NUMBERS:
        read = recording.numbers[name].tolist() if rows else []
        assert [None if math.isnan(value) else value for value in read] == [values[name] for values in rows]


@given(st.binary(max_size=300))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_no_bytes_crash_the_reader(tmp_path, data):
    for content in (data, f"{HEADER}\n{ROW}\n".encode() + data, f"{HEADER}\n".encode() + data + f"\n{ROW}\n".encode()):
        try:
            recording = load(tmp_path, content)
        except RecordingError:
            continue
        assert not np.isnan(recording.t).any()
        assert np.nanmax(recording.numbers["utilization_ratio"], initial=0) <= 1


@given(st.lists(st.sampled_from([ROW, HEADER, "", '"', "1700000010,n1,0,job,ann,0.5,300", "x", "\0", "1,2"])))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_every_line_is_a_row_or_named_or_blank_or_a_header(tmp_path, lines):
    recording = load(tmp_path, "\n".join([HEADER, *lines, ""]))
    sound = sum(1 for text in lines if text in (ROW, "1700000010,n1,0,job,ann,0.5,300"))
    silent = sum(1 for text in lines if text in ("", HEADER))
    assert len(recording) == sound
    assert recording.skipped.count == len(lines) - sound - silent


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz"])
def test_a_recording_is_readable_at_every_moment_of_its_writing(tmp_path, name):
    path = tmp_path / name
    with RecordingWriter(path) as writer:
        for i in range(5):
            writer.write([{"t": 1700000000.0 + i, "node": "n", "gpu": "0", "utilization_ratio": 0.5}])
            assert len(recordings.load([path])) == i + 1
    assert recordings.load([path]).skipped.count == 0


def test_a_recording_is_never_written_over(tmp_path):
    (tmp_path / "a.csv").write_text("precious")
    with pytest.raises(RecordingError, match="exists already"):
        RecordingWriter(tmp_path / "a.csv")


def test_columns_of_the_format_that_no_figure_needs_are_read_without_a_note(tmp_path):
    unused = "memory_activity_ratio,temperature_celsius,job_name,kind,group,time_limit_s"
    row = "1700000000,n,0,w,0.5,0.1,40,train,batch,lab,3600"
    read = load(tmp_path, f"t,node,gpu,workload,utilization_ratio,{unused}\n{row}\n")
    assert (len(read), read.notes, read.skipped.count) == (1, (), 0)
