"""Logs of nvidia-smi: any fields in any order, values missing or cut, GPUs told apart or the file refused."""

import math
import random
import re
from datetime import UTC, datetime, timedelta
from itertools import chain
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from dutycycle_alerter.errors import RecordingError
from dutycycle_alerter.recordings.groups import in_groups, interleaved
from tests.alerter.recordings.files import column, load, reasons

EXAMPLE = """\
timestamp, name, utilization.gpu [%], utilization.memory [%], memory.used [MiB], memory.free [MiB], memory.used [MiB]
2023/03/14 07:52:06.453, NVIDIA GeForce RTX 3080 Ti, 82 %, 57 %, 5959 MiB, 6148 MiB, 5959 MiB
2023/03/14 07:52:11.462, NVIDIA GeForce RTX 3080 Ti, 0 %, 0 %, 5959 MiB, 6148 MiB, 5959 MiB
"""
HEADER = "timestamp, index, utilization.gpu [%], memory.used [MiB]"
ROW = "2023/03/14 07:52:06.453, 0, 82 %, 5959 MiB"


def unix(year, month, day, hour=0, minute=0, second=0.0, zone=UTC):
    return datetime(year, month, day, hour, minute, tzinfo=zone).timestamp() + second


def test_reads_what_nvidia_smi_writes_with_a_field_asked_twice(tmp_path):
    recording = load(tmp_path, EXAMPLE, name="train.csv")
    assert recording.t.tolist() == pytest.approx([unix(2023, 3, 14, 7, 52, 6.453), unix(2023, 3, 14, 7, 52, 11.462)])
    assert recording.numbers["utilization_ratio"].tolist() == [0.82, 0.0]
    assert recording.numbers["memory_used_bytes"].tolist() == [5959 * 2**20] * 2
    assert column(recording, "model") == ["NVIDIA GeForce RTX 3080 Ti"] * 2
    assert column(recording, "gpu") == ["0", "0"]
    assert set(column(recording, "workload") + column(recording, "node")) == {"train"}
    assert recording.skipped.count == 0


def test_it_says_how_an_unknown_owner_is_taken(tmp_path):
    notes = load(tmp_path, EXAMPLE, name="train.csv").notes
    taken = "a log of nvidia-smi; its GPU is judged as one job, train, of an unknown user (--user names one)"
    assert notes == (f"{tmp_path}/train.csv: {taken}",)


def test_the_user_can_be_named(tmp_path):
    recording = load(tmp_path, EXAMPLE, user="ann")
    assert column(recording, "user") == ["ann", "ann"]
    assert "unknown" not in recording.notes[0]


@pytest.mark.parametrize("name", ["a.csv", "a.gz"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_encodings_line_ends_and_compression_change_nothing(tmp_path, name, encoding, end):
    recording = load(tmp_path, EXAMPLE.replace("\n", end).encode(encoding), name=name)
    assert len(recording) == 2
    assert recording.skipped.count == 0


def test_without_units_the_header_says_them(tmp_path):
    recording = load(tmp_path, "timestamp, utilization.gpu [%], memory.used [KiB]\n2023/03/14 07:52:06.453, 82, 2048\n")
    assert recording.numbers["utilization_ratio"].tolist() == [0.82]
    assert recording.numbers["memory_used_bytes"].tolist() == [2**21]


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ("utilization.gpu [MiB]", "utilization.gpu [%]"),
        ("memory.used [%]", "memory.used [MiB]"),
        ("memory.used [W]", "memory.used [MiB]"),
        ("memory.total [MB]", "memory.total [MiB]"),
        ("power.draw [mW]", "power.draw [W]"),
        ("power.limit []", "power.limit [W]"),
    ],
)
def test_a_header_with_a_unit_that_a_field_cannot_have_is_refused(tmp_path, field, expected):
    """82 MiB of utilization, or watts that are a thousand times too many, would be figures like any others."""
    fields = ["timestamp", "utilization.gpu [%]", field]
    with pytest.raises(RecordingError, match=re.escape(f"a.csv:1: {field!r}: expected {expected}")):
        load(tmp_path, f"{', '.join(fields)}\n2023/03/14 07:52:06.453, 82, 1\n")
    with pytest.raises(RecordingError, match=re.escape(f"--fields: {field!r}: expected {expected}")):
        load(tmp_path, "2023/03/14 07:52:06.453, 82, 1\n", fields=",".join(fields))


def test_a_field_that_nobody_asked_us_about_is_passed_over(tmp_path):
    """Some have capital letters."""
    header = "timestamp, encoder.stats.sessionCount, clocks.current.sm [MHz], utilization.gpu [%]"
    recording = load(tmp_path, f"{header}\n2023/03/14 07:52:06.453, 3, 1410 MHz, 82 %\n")
    assert recording.numbers["utilization_ratio"].tolist() == [0.82]


def test_a_bare_value_is_in_the_unit_of_the_header_above_it(tmp_path):
    """Also where the same digits stood under another header of the same file."""
    logs = [
        f"timestamp, utilization.gpu [%], memory.used [{unit}]\n2023/03/14 07:52:0{second}, 82, 2048\n"
        for second, unit in enumerate(("MiB", "KiB"))
    ]
    recording = load(tmp_path, "".join(logs))
    assert recording.numbers["memory_used_bytes"].tolist() == [2**31, 2**21]


@pytest.mark.parametrize(
    "row", ["2023/03/14 07:52:06.453, 3, 82 %, 500 MiB\n", "2023/03/14 07:52:06.453, 3, 82, 500\n"]
)
def test_without_header_the_fields_are_given(tmp_path, row):
    recording = load(tmp_path, row, fields="timestamp,index,utilization.gpu,memory.used")
    assert column(recording, "gpu") == ["3"]
    assert recording.numbers["utilization_ratio"].tolist() == [0.82]
    assert recording.numbers["memory_used_bytes"].tolist() == [500 * 2**20]


@pytest.mark.parametrize("row", ["2023/03/14 07:52:06.453, 3, 82 %\n", "0, 82 %, 500 MiB\n"])
def test_without_header_and_fields_it_is_refused_with_what_to_add(tmp_path, row):
    with pytest.raises(RecordingError, match="without header: say what was given to --query-gpu, for example --fields"):
        load(tmp_path, row)


@pytest.mark.parametrize(
    ("header", "missing"),
    [("name, utilization.gpu [%]", "no timestamp"), ("timestamp, name, memory.used [MiB]", r"no utilization\.gpu")],
)
def test_a_log_without_time_or_utilization_is_refused_with_the_field_to_add(tmp_path, header, missing):
    with pytest.raises(RecordingError, match=missing):
        load(tmp_path, header + "\n")


@pytest.mark.parametrize("content", ["hello\nworld\n", "a,b,c\n1,2,3\n", "<html></html>\n"])
def test_a_file_in_neither_format_is_refused(tmp_path, content):
    with pytest.raises(RecordingError, match="neither a recording"):
        load(tmp_path, content)


@pytest.mark.parametrize(
    ("content", "name"),
    [
        ("# gpu   pwr  gtemp     sm\n# Idx     W      C      %\n    0    60     30      0\n", "nvidia-smi dmon"),
        ("#Date       Time        gpu    sm\n 20230314   07:52:06      0     5\n", "nvidia-smi dmon"),
        (
            "# gpu         pid  type    sm   mem   command\n    0       4711     C    90    10   python\n",
            "nvidia-smi pmon",
        ),
        (
            "Tue Mar 14 07:52:06 2023\n+-----+\n| NVIDIA-SMI 535.104.05   Driver Version: 535 |\n",
            "`nvidia-smi`, which is not read",
        ),
        ("==============NVSMI LOG==============\n\nTimestamp : Tue Mar 14 07:52:06 2023\n", "nvidia-smi -q"),
        ('<?xml version="1.0" ?>\n<nvidia_smi_log>\n</nvidia_smi_log>\n', "nvidia-smi -q"),
        ("GPU 0: NVIDIA A100 (UUID: GPU-5d5ba0d6)\n", "nvidia-smi -L"),
        ("#gpu, pwr, gtemp, sm, mem\n#Idx, W, C, %, %\n0, 60, 30, 0, 0\n", "nvidia-smi dmon"),
        ("#Time, gpu, pid, type, sm\n07:52:06, 0, 4711, C, 90\n", "nvidia-smi pmon"),
        ("used_gpu_memory [MiB]\n512 MiB\n", "--query-compute-apps"),
        ("timestamp, pid, used_memory [MiB]\n2023/03/14 07:52:06.453, 4711, 512 MiB\n", "--query-compute-apps"),
        ("RAM 1903/3964MB (lfb 4x4MB) CPU [2%@1224,0%@1224] GR3D_FREQ 99%@921\n", "tegrastats"),
        ("03-14-2023 07:52:06 RAM 4722/30536MB (lfb 3x4MB) GR3D_FREQ 0%@[305,305]\n", "tegrastats"),
    ],
)
@pytest.mark.parametrize("fields", ["", "timestamp,utilization.gpu"])
def test_other_output_is_named_with_what_to_record_instead(tmp_path, content, name, fields):
    with pytest.raises(RecordingError, match=re.escape(name)) as refused:
        load(tmp_path, content, fields=fields)
    assert "--query-gpu=timestamp,index,uuid" in str(refused.value) or "t,node,gpu,utilization" in str(refused.value)


@pytest.mark.parametrize(
    "message",
    ["No devices were found", "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."],
)
def test_a_file_with_nothing_but_a_failure_of_nvidia_smi_is_refused_with_it(tmp_path, message):
    with pytest.raises(RecordingError, match=f"nvidia-smi failed and wrote no row: .{message}"):
        load(tmp_path, f"{message}\n")


@pytest.mark.parametrize("separator", [", ", ";", '", "', '","'])
def test_decimal_commas_are_read(tmp_path, separator):
    lines = [
        ["timestamp", "index", "utilization.gpu [%]", "power.draw [W]"],
        ["2023/03/14 07:52:06,500", "0", "82 %", "330,25 W"],
        ["2023/03/14 07:52:11,500", "0", "82 %", "[N/A]"],
    ]
    quote = '"' if '"' in separator else ""
    recording = load(tmp_path, "".join(f"{quote}{separator.join(line)}{quote}\n" for line in lines))
    assert recording.numbers["power_watts"][0] == 330.25
    assert recording.t.tolist() == [unix(2023, 3, 14, 7, 52, 6.5), unix(2023, 3, 14, 7, 52, 11.5)]
    assert recording.skipped.count == 0


@pytest.mark.parametrize(
    ("stamp", "hour"),
    [
        ("2023-03-14 07:52:06", 7),
        ("2023-03-14T07:52:06.000", 7),
        ("2023-03-14T07:52:06.000000Z", 7),
        ("2023-03-14T07:52:06+02:00", 5),
    ],
)
def test_iso_times_are_read(tmp_path, stamp, hour):
    recording = load(tmp_path, f"timestamp,utilization.gpu [%]\n{stamp},5 %\n")
    assert recording.t.tolist() == [unix(2023, 3, 14, hour, 52, 6)]


@pytest.mark.parametrize(
    ("header", "line"),
    [
        ("timestamp, gpu_uuid, pid, process_name", "2023/03/14 07:52:06.500, GPU-a, 4711, python"),
        ("timestamp, index, temperature.gpu, pstate", "2023/03/14 07:52:06.500, 0, 60, P0"),
        ("gpu_uuid, remapped_rows.correctable", "GPU-a, 0"),
    ],
)
@pytest.mark.parametrize("headers", ["each time", "once"])
@pytest.mark.parametrize("first", [True, False])
def test_lines_of_another_query_are_counted_and_left_out(tmp_path, header, line, headers, first):
    ours = [HEADER, ROW, HEADER, ROW.replace("06.", "11.")]
    # The name of a process may have commas.
    others = [header, line, header, f"{line}, -c" if headers == "each time" else line]
    pairs = [ours[:2], others[:2], ours[2:], others[2:]]
    if first:
        pairs = [pairs[1], pairs[0], pairs[3], pairs[2]]
    lines = [*chain(*pairs)] if headers == "each time" else [pairs[0][0], pairs[1][0], *(pair[1] for pair in pairs)]
    recording = load(tmp_path, "\n".join([*lines, ""]))
    assert recording.numbers["utilization_ratio"].tolist() == [0.82, 0.82]
    assert recording.skipped.count == 0
    assert recording.notes[-1] == (
        f"{tmp_path}/a.csv: 2 lines of other queries left out: no timestamp and utilization.gpu in them"
    )


def test_the_header_of_a_file_counts_more_than_the_fields_given(tmp_path):
    recording = load(tmp_path, f"{HEADER}\n{ROW}\n", fields="timestamp,index")
    assert (len(recording), recording.skipped.count) == (1, 0)


@pytest.mark.parametrize("field", ["power.draw.average", "power.draw.instant"])
def test_power_has_three_names(tmp_path, field):
    recording = load(tmp_path, f"timestamp, utilization.gpu [%], {field} [W]\n2023/03/14 07:52:06.453, 5 %, 61.5 W\n")
    assert recording.numbers["power_watts"].tolist() == [61.5]


@pytest.mark.parametrize(
    ("line", "which"),
    [
        ("2023/03/14 07:52:11.453, 3, [GPU is lost], [GPU is lost]", "GPU 3 was lost here (GPU is lost)"),
        ("2023/03/14 07:52:11.453, [GPU is lost], [GPU is lost], [GPU is lost]", "a GPU was lost here (GPU is lost)"),
        (
            "Unable to determine the device handle for GPU3: 0000:5F:00.0: Unknown Error",
            "a GPU was lost here (Unable to determine the device handle for GPU3: 0000:5F:00.0: Unknown Error)",
        ),
    ],
)
def test_a_gpu_that_is_lost_in_mid_log_is_named_once(tmp_path, line, which):
    recording = load(tmp_path, "\n".join([HEADER, ROW, line, line, ""]))
    (note,) = recording.notes[1:]
    assert note.startswith(f"{tmp_path}/a.csv:3: {which}")
    assert recording.numbers["utilization_ratio"][0] == 0.82


@pytest.mark.parametrize(("of_the_lost", "named"), [(7, True), (29, False), (30, False)])
def test_a_gpu_whose_rows_end_before_the_log_does_is_named(tmp_path, of_the_lost, named):
    """nvidia-smi passes a lost GPU over, with a message on stderr. The last query may be cut."""
    rows = log(", 0", ", 1", fields=", index", rounds=30).splitlines()
    header, lines = rows[0], rows[1:]
    kept = [line for i, line in enumerate(lines) if line.endswith("0") or i // 2 < of_the_lost]
    notes = load(tmp_path, "\n".join([header, *kept, ""])).notes[1:]
    lost = f"{tmp_path}/a.csv: GPU 1 has no row after 2023/03/14 07:52:36.004, while others have"
    assert notes == ((lost,) if named else ())


@pytest.mark.parametrize(
    "missing", ["[N/A]", "[Not Supported]", "[Unknown Error]", "[GPU requires reset]", "N/A", "ERR!", ""]
)
def test_what_nvidia_smi_cannot_tell_is_missing_and_never_zero(tmp_path, missing):
    recording = load(tmp_path, f"{HEADER}\n{ROW}\n2023/03/14 07:52:07.453, 0, {missing}, {missing}\n")
    assert len(recording) == 2
    assert math.isnan(recording.numbers["utilization_ratio"][1])
    assert math.isnan(recording.numbers["memory_used_bytes"][1])
    assert recording.skipped.count == 0


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ("2023/03/14 07:52:07.453, 0, 165 %, 1 MiB", "'165 %' is not within 0 to 100 %"),
        ("2023/03/14 07:52:07.453, 0, -1 %, 1 MiB", "'-1 %' is not within 0 to 100 %"),
        ("2023/03/14 07:52:07.453, 0, 5 MiB, 1 MiB", "'5 MiB': 'MiB' is not a unit of utilization_ratio"),
        ("2023/03/14 07:52:07.453, 0, 5 %, 1 %", "'1 %': '%' is not a unit of memory_used_bytes"),
        ("2023/03/14 07:52:07.453, 0, 5 %, 1 MB", "'1 MB': 'MB' is not a unit of memory_used_bytes"),
        ("2023/03/14 07:52:07.453, 0, 5 %, 1 W", "'1 W': 'W' is not a unit of memory_used_bytes"),
        ("2023/03/14 07:52:07.453, 0, five %, 1 MiB", "'five' is not a number"),
        ("2023/03/14 07:52:07.453, 0, 5 %", "3 fields, expected 4"),
        ("2023/03/14 07:52:07.453, 0, 5 %, 1 MiB, 7", "5 fields, expected 4"),
        ("2023/03/14 25:52:07.453, 0, 5 %, 1 MiB", "'2023/03/14 25:52' is not a time"),
        ("2023/02/30 07:52:07.453, 0, 5 %, 1 MiB", "'2023/02/30 07:52' is not a time"),
        ("0001/01/01 00:00:07.453, 0, 5 %, 1 MiB", "'0001/01/01 00:00' is not a time after 1970"),
        ("9999/12/31 23:59:07.453, 0, 5 %, 1 MiB", "'9999/12/31 23:59' is not a time after 1970"),
        ("today, 0, 5 %, 1 MiB", "'today' is not a time as nvidia-smi writes it"),
        ("[N/A], 0, 5 %, 1 MiB", "no timestamp"),
        ("2023/03/14 07:52:07.453, [N/A], 5 %, 1 MiB", "does not say which GPU"),
        (
            "Unable to determine the device handle for GPU 0000:01:00.0: Unknown Error",
            "no row: 'Unable to determine the device handle f…'",
        ),
        ("No devices were found", "no row: 'No devices were found'"),
        ("\0\0\0\0", "1 fields, expected 4"),
    ],
)
def test_a_line_that_cannot_be_read_is_counted_and_named(tmp_path, bad, why):
    recording = load(tmp_path, f"{HEADER}\n{ROW}\n{bad}\n2023/03/14 07:52:08.453, 0, 7 %, 1 MiB\n")
    assert recording.numbers["utilization_ratio"].tolist() == [0.82, 0.07]
    assert reasons(recording) == [(3, why)]


def test_a_repeated_header_is_no_row_and_may_bring_other_fields(tmp_path):
    other = "utilization.gpu [%], index, timestamp\n45 %, 0, 2023/03/14 07:53:06.453\n"
    recording = load(tmp_path, f"{HEADER}\n{ROW}\n{HEADER}\n\n{other}")
    assert recording.numbers["utilization_ratio"].tolist() == [0.82, 0.45]
    assert np.isnan(recording.numbers["memory_used_bytes"]).tolist() == [False, True]
    assert recording.skipped.count == 0


def test_lines_before_the_first_header_are_named(tmp_path):
    recording = load(tmp_path, f"07:52:05.453, 0, 82 %, 5959 MiB\n{HEADER}\n{ROW}\n")
    assert len(recording) == 1
    assert reasons(recording) == [(1, "before any header")]


@pytest.mark.parametrize(
    ("cut", "rows"),
    [
        ("2023/03/14 07:52:07.453, 0, 8", 1),
        ("2023/03/14 07:52:07.453, 0, 82 %, 59", 1),
        ("2023/03/14 07:52:07.453, 0, 82 %, 5959 M", 1),
        ("2023/03/14 07:52:07.453, 0, 82 %, [N/", 1),
        ("2023/03/14 07:52:07.453, 0, 82 %, 5959 MiB", 2),
        ("2023/03/14 07:52:07.453, 0, 82 %, [N/A]", 2),
    ],
)
def test_a_truncated_last_line_is_named_and_a_whole_one_without_line_end_is_read(tmp_path, cut, rows):
    recording = load(tmp_path, f"{HEADER}\n{ROW}\n{cut}")
    assert len(recording) == rows
    assert recording.skipped.count == 2 - rows


@pytest.mark.parametrize(
    ("last", "value"), [("0", 0.0), ("11", 0.11), ("100", 1.0), ("1", None), ("10", None), ("", None)]
)
def test_a_last_percentage_without_unit_and_line_end_counts_where_it_cannot_go_on(tmp_path, last, value):
    """82 is whole, since nothing over 100 follows; 8 and 10 may have been 82 and 100."""
    header = "timestamp, utilization.gpu [%]"
    recording = load(tmp_path, f"{header}\n2023/03/14 07:52:06.453, 50\n2023/03/14 07:52:07.453, {last}")
    read = recording.numbers["utilization_ratio"].tolist()[1:]
    assert read == ([] if value is None else [value])


@pytest.mark.parametrize(("last", "rows"), [("NVIDIA A100", 2), ("NVIDIA A1", 1), ("NVIDIA A100-SXM", 1)])
def test_a_last_name_without_line_end_counts_where_it_was_seen_before(tmp_path, last, rows):
    header = "timestamp, index, utilization.gpu [%], name"
    first = "2023/03/14 07:52:06.453, 0, 50 %, NVIDIA A100"
    assert len(load(tmp_path, f"{header}\n{first}\n2023/03/14 07:52:07.453, 0, 50 %, {last}")) == rows


# Which GPU


def log(*identities: str, fields: str, rounds: int = 5, within: float = 0.004, every: float = 5.0) -> str:
    """What nvidia-smi -l writes for several GPUs."""
    start = datetime(2023, 3, 14, 7, 52, 6, tzinfo=UTC)
    lines = [f"timestamp, utilization.gpu [%]{fields}"]
    for i in range(rounds):
        for j, identity in enumerate(identities):
            t = start + timedelta(seconds=every * i + within * j)
            lines.append(f"{t:%Y/%m/%d %H:%M:%S}.{t.microsecond // 1000:03}, {10 * j} %{identity}")
    return "\n".join([*lines, ""])


@pytest.mark.parametrize(
    ("fields", "identities", "gpus"),
    [
        (", index", (", 0", ", 1"), {"0", "1"}),
        (", pci.bus_id", (", 00000000:3B:00.0", ", 00000000:AF:00.0"), {"00000000:3B:00.0", "00000000:AF:00.0"}),
        (", uuid", (", GPU-a", ", GPU-b"), {"GPU-a", "GPU-b"}),
        (", index, uuid", (", 4, GPU-a", ", 5, GPU-b"), {"4", "5"}),
    ],
)
def test_gpus_are_told_apart_by_index_uuid_or_bus_id(tmp_path, fields, identities, gpus):
    recording = load(tmp_path, log(*identities, fields=fields))
    assert set(column(recording, "gpu")) == gpus
    assert ("GPU-a" in column(recording, "gpu_uuid")) == ("uuid" in fields)
    assert "its 2 GPUs are judged as one job" in recording.notes[0]


def test_gpus_that_cannot_be_told_apart_by_name_are_refused_with_the_field_to_add(tmp_path):
    with pytest.raises(RecordingError, match=r"several GPUs \('A100', 'T4'\) .* add index, uuid or pci\.bus_id"):
        load(tmp_path, log(", A100", ", T4", fields=", name"))


TWO_NODES = {
    "interleaved": [(5.0 * i + offset, level) for i in range(100) for offset, level in ((0.0, 95), (0.351, 0))],
    "at the same millisecond": [(5.0 * i, level) for i in range(100) for level in (95, 0)],
    "appended": [(5.0 * i + offset, level) for offset, level in ((0.0, 95), (2.2, 0)) for i in range(100)],
    "far apart": [(5.01 * i + offset, level) for i in range(100) for offset, level in ((0.0, 95), (1.9, 0))],
}


@pytest.mark.parametrize("times", TWO_NODES.values(), ids=TWO_NODES)
@pytest.mark.parametrize("field", ["index", "pci.bus_id"])
def test_two_nodes_in_one_file_need_the_uuid(tmp_path, times, field):
    start = datetime(2023, 3, 14, 7, 52, 6, tzinfo=UTC)
    rows = [(f"{start + timedelta(seconds=t):%Y/%m/%d %H:%M:%S.%f}"[:-3], level) for t, level in times]
    with pytest.raises(RecordingError, match=r"of several nodes .* add uuid to --query-gpu"):
        load(tmp_path, f"timestamp, {field}, utilization.gpu [%]\n" + "".join(f"{t}, 0, {u} %\n" for t, u in rows))
    named = load(
        tmp_path,
        "timestamp, index, uuid, utilization.gpu [%]\n" + "".join(f"{t}, 0, GPU-{u}, {u} %\n" for t, u in rows),
    )
    assert set(column(named, "gpu_uuid")) == {"GPU-95", "GPU-0"}


@pytest.mark.parametrize(
    ("fields", "gpus"),
    [
        ("index, name", ("0, A100", "0, T4")),
        ("index, pci.bus_id", ("0, 00000000:3B:00.0", "0, 00000000:AF:00.0")),
    ],
)
def test_one_name_for_gpus_that_differ_needs_the_uuid(tmp_path, fields, gpus):
    """Also where the logs of two nodes follow each other."""
    rows = [f"2023/03/14 {10 + node}:52:0{i}.000, {gpu}, 5 %" for node, gpu in enumerate(gpus) for i in range(5)]
    with pytest.raises(RecordingError, match=r"of several nodes .* add uuid to --query-gpu"):
        load(tmp_path, "\n".join([f"timestamp, {fields}, utilization.gpu [%]", *rows, ""]))


def test_logs_of_one_gpu_may_be_joined_in_any_order(tmp_path):
    later = ROW.replace("07:52", "09:52")
    assert len(load(tmp_path, "\n".join([HEADER, later, later.replace(":06.", ":11."), HEADER, ROW, ""]))) == 3


@pytest.mark.parametrize("gpus", [2, 3, 8, 16])
@pytest.mark.parametrize("within", [0.0, 0.002, 0.05])
def test_timestamps_in_groups_are_refused_with_the_field_to_add(tmp_path, gpus, within):
    with pytest.raises(RecordingError, match=r"come in groups.*add index, uuid or pci\.bus_id"):
        load(tmp_path, log(*[", A100"] * gpus, fields=", name", within=within))


@pytest.mark.parametrize("every", [0.1, 1.0, 60.0])
def test_one_gpu_needs_no_name(tmp_path, every):
    recording = load(tmp_path, log("", fields="", rounds=50, every=every))
    assert set(column(recording, "gpu")) == {"0"}


@pytest.mark.parametrize(
    ("gaps", "expected"),
    [
        ([5.0] * 20, False),
        ([5.0] * 10 + [3600.0] + [5.0] * 10, False),  # a laptop that slept
        ([0.1, 0.1, 0.1, 0.45, 0.1, 0.1, 0.4, 0.1, 0.1, 0.1, 0.1, 0.1, 0.5, 0.1], False),  # -lms on a loaded machine
        ([0.2, 0.7], False),
        ([], False),
        ([0.002, 4.998] * 10, True),
        ([0.002, 4.998, 0.002], True),
        ([0.3, 0.3, 0.3, 1.1] * 5, True),  # a driver that is loaded anew for each query
        ([0.0, 5.0, 5.0], False),  # a line that was written twice
        ([5.0] * 10 + [0.0] + [5.0] * 10, False),
        ([5.0] * 5 + [0.0] * 3 + [5.0] * 10 + [0.0] + [5.0] * 10, False),
        ([0.0, 5.0, 0.0, 5.0, 0.0], True),
        ([0.0] * 7, True),  # one query of eight GPUs
        ([0.0], False),
        ([0.0, 0.001, 0.002, 4.99] * 6, True),
        ([*[0.11] * 7, 0.23] * 6, True),  # eight GPUs every second, and a driver that takes its time for each
        ([*[0.22] * 3, 0.34] * 8, True),
        ([0.03, 0.07] * 10, True),
        ([*[0.55] * 7, 1.15] * 6, True),
        (
            [*[0.11] * 7, 0.23] * 3 + [0.11, 3600.0] + [*[0.11] * 7, 0.23] * 20,
            True,
        ),  # stopped amid a query, and begun anew
        ([*[1.0] * 4, 56.0] * 20, False),  # five rows, at every minute
        ([0.1, 0.16, *[0.1] * 5] * 1, False),
        ([4.9, *[0.003, 0.002, 0.004, 4.99] * 6, 0.003], True),  # first and last group cut
        ([*[0.003, 0.002, 5] * 2, 0.003], True),
        # Three pauses of one GPU, two of them equally far apart.
        ([*[0.25] * 12, 4, *[0.25] * 14, 4, *[0.25] * 14, 4, *[0.25] * 16], False),
        ([*[0.25] * 9, 4, *[0.25] * 16, 4, *[0.25] * 16, 4, *[0.25] * 9], False),
    ],
)
def test_what_counts_as_groups(gaps, expected):
    times = np.cumsum([1_700_000_000, *gaps]).tolist()
    assert in_groups(times) is expected


def mixed(seed: int, loggers: int, every: float, jitter: float) -> list[float]:
    """Rows of loggers that began at random, each a little slower than it should be."""
    chance = np.random.default_rng(seed)
    starts, slower = chance.uniform(0, every, loggers), chance.uniform(0.003, 0.02, loggers)
    gaps = every + slower + chance.normal(0, jitter, (400, loggers))
    return np.round(np.sort((1_700_000_000 + starts + np.cumsum(gaps, axis=0)).ravel()), 3)


@pytest.mark.parametrize(("every", "loggers"), [(1, 2), (1, 16), (5, 2), (5, 3), (5, 64), (60, 2), (60, 128)])
def test_loggers_that_began_at_random_are_several(loggers, every):
    # Two that began half an interval apart, with the same interval, cannot be told from one: none of these did.
    assert all(interleaved(mixed(seed, loggers, every, 0.0005)) for seed in range(5))


@pytest.mark.parametrize("every", [0.1, 1.0, 60.0])
@pytest.mark.parametrize("spread", [0.0, 0.02, 0.3])
def test_one_logger_is_not_several(every, spread):
    chance = np.random.default_rng(7)
    noise = chance.lognormal(0, spread, 3000)
    pauses = np.where(chance.random(3000) < 0.05, chance.exponential(3, 3000), 0)
    for gaps in (every * noise, every * noise + pauses, every * noise * np.resize([1] * 11 + [3], 3000)):
        times = 1_700_000_000 + np.cumsum(gaps)
        assert not interleaved(np.round(times, 3))
        assert not interleaved(np.floor(times))
    on_the_minute = 1_700_000_000 + every * (np.arange(3000) + spread * chance.random(3000))
    assert not interleaved(np.round(on_the_minute, 3))


@given(st.lists(st.floats(0.9, 1.3), min_size=1, max_size=200))
def test_the_jitter_of_one_gpu_is_no_group(gaps):
    assert not in_groups(np.cumsum([1_700_000_000, *gaps]).tolist())


@given(
    gpus=st.integers(2, 16),
    within=st.floats(0.0, 0.75),
    longer=st.floats(1.7, 1000),
    rounds=st.integers(8, 40),
    seed=st.integers(0, 10**9),
    cut=st.integers(0, 15),
)
def test_several_gpus_are_told_however_long_the_driver_takes_for_each(gpus, within, longer, rounds, seed, cut):
    """What a file is refused for: rows of several GPUs, read as one's, would be judged as one that works in turns."""
    between = max(within, 0.01) * longer
    gaps = ([within] * (gpus - 1) + [between]) * rounds
    gaps = np.array(gaps) * np.random.default_rng(seed).uniform(0.97, 1.03, len(gaps))
    assert in_groups((1_700_000_000 + np.cumsum([0, *gaps[min(cut, gpus - 1) :]])).tolist())


@given(
    st.lists(st.floats(0.9, 1.3) | st.floats(5, 86400), min_size=1, max_size=60).flatmap(
        lambda gaps: st.tuples(st.just(gaps), st.integers(0, len(gaps)))
    )
)
def test_pauses_and_one_line_that_was_written_twice_make_no_groups(gaps_and_place):
    gaps, place = gaps_and_place
    gaps = [1.0, 1.0, *gaps[:place], 0.0, *gaps[place:], 1.0, 1.0, 1.0]
    assert not in_groups(np.cumsum([1_700_000_000, *gaps]).tolist())


@example(seed=4408, every=0.25, spread=0.0, rows=60)
@given(st.integers(0, 10**9), st.floats(0.05, 0.5), st.floats(0, 0.3), st.integers(60, 300))
def test_a_loaded_machine_makes_no_groups_of_one_gpus_rows(seed, every, spread, rows):
    """Rows ten times a second come early and late, and now and then much too late, but in no rhythm."""
    chance = np.random.default_rng(seed)
    gaps = every * chance.lognormal(0, spread, rows) + np.where(
        chance.random(rows) < 0.05, chance.exponential(3, rows), 0
    )
    assert not in_groups((1_700_000_000 + np.cumsum(gaps)).tolist())


def test_a_line_that_is_there_twice_does_not_refuse_the_file(tmp_path):
    text = log("", fields="", rounds=50)
    lines = text.splitlines(keepends=True)
    recording = load(tmp_path, "".join([*lines[:20], lines[19], *lines[20:]]))
    assert set(column(recording, "gpu")) == {"0"}
    assert len(recording) == 51


# Time


@pytest.mark.parametrize(("zone", "hour"), [(UTC, 7), (ZoneInfo("Europe/Oslo"), 6), (ZoneInfo("America/New_York"), 11)])
def test_timestamps_are_of_the_given_zone(tmp_path, zone, hour):
    assert load(tmp_path, f"{HEADER}\n{ROW}\n", zone=zone).t[0] == pytest.approx(unix(2023, 3, 14, hour, 52, 6.453))


@pytest.mark.parametrize("zone", ["Europe/Oslo", "UTC"])
def test_timestamps_are_local_unless_a_zone_is_given(tmp_path, monkeypatch, zone):
    import time

    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        local = load(tmp_path, f"{HEADER}\n{ROW}\n", zone=None)
        assert local.t[0] == load(tmp_path, f"{HEADER}\n{ROW}\n", zone=ZoneInfo(zone)).t[0]
    finally:
        monkeypatch.undo()
        time.tzset()


def test_an_hour_that_occurs_twice_is_passed_through_twice(tmp_path):
    """In the night to 29 October 2023 clocks in Oslo went from 03:00 back to 02:00."""
    walls = ["01:30", "02:00", "02:30", "02:59", "02:00", "02:30", "02:59", "03:00"]
    rows = "".join(f"2023/10/29 {wall}:00.000, 0, 5 %, 1 MiB\n" for wall in walls)
    recording = load(tmp_path, f"{HEADER}\n{rows}", zone=ZoneInfo("Europe/Oslo"))
    since = [(t - unix(2023, 10, 28, 23, 30)) / 60 for t in recording.t.tolist()]
    assert since == [0, 30, 60, 89, 90, 120, 149, 150]


def test_a_time_that_never_was_is_named(tmp_path):
    recording = load(tmp_path, f"{HEADER}\n2023/03/26 02:30:00.000, 0, 5 %, 1 MiB\n", zone=ZoneInfo("Europe/Oslo"))
    assert reasons(recording) == [
        (2, "'2023/03/26 02:30' was skipped when clocks were set forward: is --timezone right?")
    ]


# Everything at once

VALUES = {
    "timestamp": None,
    "index": None,
    "utilization.gpu [%]": st.integers(0, 100).map(lambda n: f"{n} %"),
    "utilization.memory [%]": st.integers(0, 100).map(lambda n: f"{n} %"),
    "memory.used [MiB]": st.integers(0, 200_000).map(lambda n: f"{n} MiB"),
    "memory.total [MiB]": st.integers(1, 200_000).map(lambda n: f"{n} MiB"),
    "power.draw [W]": st.floats(0, 1000).map(lambda x: f"{x:.2f} W"),
    "temperature.gpu": st.integers(0, 100).map(str),
    "pstate": st.sampled_from(["P0", "P8"]),
    "name": st.just("NVIDIA H200"),
    "clocks_event_reasons.active": st.just("0x0000000000000004"),
}
ABSENT = st.sampled_from(["[N/A]", "[Not Supported]", "[Unknown Error]"])


@given(
    data=st.data(),
    units=st.booleans(),
    extra=st.lists(st.sampled_from(sorted(VALUES)), max_size=12),
    rounds=st.integers(1, 6),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_any_fields_in_any_order_twice_or_missing_read_back(tmp_path, data, units, extra, rounds):
    fields = data.draw(st.permutations(["timestamp", "index", "utilization.gpu [%]", *extra]))
    lines, expected = [", ".join(fields)], []
    for i in range(rounds):
        for gpu in range(2):
            drawn = {name: data.draw(source | ABSENT) for name, source in VALUES.items() if source is not None}
            row = drawn | {"timestamp": f"2023/03/14 07:52:{2 * i:02}.{gpu:03}", "index": str(gpu)}
            cells = [row[name] for name in fields]
            lines.append(
                ", ".join(
                    cell if units else cell.removesuffix(" %").split(" MiB")[0].removesuffix(" W") for cell in cells
                )
            )
            expected.append((str(gpu), drawn["utilization.gpu [%]"], drawn["memory.used [MiB]"]))
        if data.draw(st.booleans()):
            lines.append(lines[0])
    recording = load(tmp_path, "\n".join([*lines, ""]))
    assert recording.skipped.count == 0
    assert column(recording, "gpu") == [gpu for gpu, _, _ in expected]
    read = recording.numbers["utilization_ratio"].tolist()
    assert [None if math.isnan(value) else value for value in read] == [
        None if shown.startswith("[") else int(shown.split()[0]) / 100 for _, shown, _ in expected
    ]
    if "memory.used [MiB]" in fields:
        read = recording.numbers.get("memory_used_bytes", np.full(len(expected), np.nan)).tolist()
        assert [None if math.isnan(value) else value for value in read] == [
            None if shown.startswith("[") else int(shown.split()[0]) * 2**20 for _, _, shown in expected
        ]


@given(st.binary(max_size=200), st.booleans())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_no_bytes_crash_the_reader(tmp_path, data, given_fields):
    for content in (data, f"{HEADER}\n{ROW}\n".encode() + data):
        try:
            recording = load(tmp_path, content, fields="timestamp,utilization.gpu" if given_fields else "")
        except RecordingError:
            continue
        assert (recording.t > 0).all()


@given(st.integers(0, 2000))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_a_file_cut_anywhere_gives_only_rows_that_were_written(tmp_path, cut):
    generator = random.Random(7)
    lines = [f"2023/03/14 07:52:{i:02}.453, 0, {generator.randint(0, 100)} %, {59 * i} MiB" for i in range(60)]
    content = "\n".join([HEADER, *lines, ""])
    whole = load(tmp_path, content)
    try:
        recording = load(tmp_path, content[: len(HEADER) + 1 + cut])
    except RecordingError:
        pytest.fail("a cut file is still readable")
    assert recording.t.tolist() == whole.t.tolist()[: len(recording)]
    for name in ("utilization_ratio", "memory_used_bytes"):
        assert recording.numbers.get(name, np.empty(0)).tolist() == whole.numbers[name].tolist()[: len(recording)]
    assert recording.skipped.count <= 1
