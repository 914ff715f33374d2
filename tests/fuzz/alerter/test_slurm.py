"""What Slurm answers: JSON of any release, sacct's text, and the notations within them."""

from __future__ import annotations

import dataclasses
import math

from hypothesis import example
from hypothesis import strategies as st

from dutycycle_alerter.errors import SourceError
from dutycycle_alerter.slurm import documents as slurm
from dutycycle_alerter.slurm import sacct
from dutycycle_alerter.slurm.fields import Nonsense
from dutycycle_alerter.slurm.figures import read_figures
from dutycycle_alerter.slurm.gres import gpu_types_in, gpus_in, memory, parse_gres, parse_tres
from dutycycle_alerter.slurm.hostlist import MOST, expand, numbers
from dutycycle_alerter.slurm.memory import raw_number
from tests.alerter.slurm import shapes
from tests.fuzz.hostile import documents, jsons, texts
from tests.fuzz.running import fuzz

WHERE = "slurmrestd"
JOBS = [shapes.answer(shape, "jobs", [shapes.job(shape), shapes.job(shape, job_id=4)]) for shape in shapes.SHAPES]
NODES = [shapes.answer(shape, "nodes", [shapes.node(shape, "IDLE")]) for shape in shapes.SHAPES]
RUNS = [shapes.answer(shape, "jobs", [shapes.accounted(shape)]) for shape in shapes.SHAPES]
RAW = ('"gpu[1-65536]"', '"gpu:h200:8(IDX:0-7)"', '"cpu=1,mem=1T,gres/gpu=9"', '"RUNNING"', '["COMPLETED","NODE_FAIL"]')


def check_amounts(found: object) -> None:
    """Of a job, a node or figures: nothing below zero, nothing endless."""
    for field in dataclasses.fields(found):  # type: ignore[arg-type]
        value = getattr(found, field.name)
        if isinstance(value, float):
            assert math.isfinite(value), field.name
        if isinstance(value, int | float) and not isinstance(value, bool):
            assert value >= 0, field.name


@fuzz(body=jsons(JOBS, raw=RAW))
def test_jobs_are_read_or_refused_and_nonsense_is_counted(body: bytes) -> None:
    nonsense = Nonsense()
    try:
        table = slurm.read_jobs(slurm.parse(body, WHERE), WHERE, nonsense)
    except SourceError as error:
        assert str(error).startswith(WHERE)
        assert len(str(error)) < 1000
        return
    for number, job in table.jobs.items():
        assert number == job.id > 0
        check_amounts(job)
    slurm.pending(table.jobs.values())
    assert len(nonsense.told()) < 100_000


@fuzz(body=jsons(NODES, raw=RAW))
def test_nodes_are_read_or_refused(body: bytes) -> None:
    nonsense = Nonsense()
    try:
        found = slurm.read_nodes(slurm.parse(body, WHERE), WHERE, nonsense)
    except SourceError as error:
        assert str(error).startswith(WHERE)
        return
    for name, node in found.items():
        assert name == node.name != ""
        check_amounts(node)


@fuzz(body=jsons(RUNS, raw=RAW))
def test_runs_of_accounting_are_read_or_refused(body: bytes) -> None:
    nonsense = Nonsense()
    try:
        found = read_figures(slurm.parse(body, WHERE), WHERE, nonsense)
    except SourceError as error:
        assert str(error).startswith(WHERE)
        return
    for run in found:
        assert run.end is not None
        check_amounts(run)
        assert run.gpu_seconds is None or run.gpu_seconds >= 0


CELLS = {
    "JobIDRaw": "41",
    "JobID": "40_1",
    "State": "COMPLETED",
    "User": "ada",
    "Account": "physics",
    "Partition": "gpu",
    "QOS": "normal",
    "Cluster": "lab",
    "Submit": "1700000000",
    "Start": "1700000010",
    "End": "2023-11-14T23:13:20+01:00",
    "ElapsedRaw": "60",
    "TimelimitRaw": "1440",
    "NodeList": "gpu[02-03]",
    "AllocTRES": "billing=8,cpu=8,gres/gpu:h200=4,gres/gpu=4,mem=64G,node=2",
    "ReqMem": "4000Mc",
    "ReqCPUS": "8",
    "ReqNodes": "2",
    "UserCPU": "1-02:03:04",
    "SystemCPU": "00:05.250",
    "MaxRSS": "",
    "ExitCode": "0:9",
}
assert ",".join(CELLS) == sacct.COLUMNS
STEP = {**dict.fromkeys(CELLS, ""), "JobIDRaw": "41.batch", "MaxRSS": "123456K"}
SACCT = "".join(
    "|".join(cells) + "\n"
    for cells in (CELLS, CELLS.values(), STEP.values(), {**CELLS, "State": "CANCELLED by 0"}.values())
).encode()
SACCT_TOKENS = (b"|", b"JobIDRaw", b"41.extern", b"Unknown", b"0001-01-01T00:00:00+23:59", b"9999-12-31T23:59:59-23:59")


@fuzz(output=documents([SACCT], tokens=SACCT_TOKENS))
@example(output=SACCT.replace(b"|1700000000|", b"|0001-01-01T00:00:00+23:59|"))
def test_the_text_of_sacct_is_runs_or_refused(output: bytes) -> None:
    nonsense = Nonsense()
    try:
        rows = list(sacct.columns(output.decode("utf-8")))
    except ValueError:
        return
    found = sacct.final_figures(rows, nonsense)
    named = sum("." not in row.get("JobIDRaw", ".") for row in rows)
    assert len(found) <= named
    for run in found:
        assert run.end is not None
        check_amounts(run)
    assert nonsense.total() >= sum(not row for row in rows), "a row of another width is counted"


@fuzz(
    text=texts(["gpu[01-04,07],login", "rack[1-2]-n[01-02]", "c[099-101]-ib"], tokens=["[", "]", "[1-65536]", "[0-9]"])
)
def test_a_host_list_is_names_or_refused(text: str) -> None:
    try:
        names = expand(text)
    except ValueError:
        return
    assert len(names) <= MOST
    assert all(names)
    assert all(character not in name for name in names for character in "[], \n")


@fuzz(
    prefix=st.text("abc-.", min_size=1, max_size=6),
    first=st.integers(0, 200),
    count=st.integers(1, 300),
    width=st.integers(1, 5),
)
def test_the_names_of_a_range_are_all_of_it(prefix: str, first: int, count: int, width: int) -> None:
    last = first + count - 1
    low, high = f"{first:0{width}d}", f"{last:0{width}d}"
    if len(low) == len(high):
        assert expand(f"{prefix}[{low}-{high}]") == tuple(f"{prefix}{n:0{width}d}" for n in range(first, last + 1))


@fuzz(text=texts(["0,2-5", "0-8:4", "7"], tokens=["-", ":", "0-65536", "0-999999999999999999"]))
def test_a_list_of_ranges_is_numbers_or_refused(text: str) -> None:
    try:
        found = numbers(text)
    except ValueError:
        return
    assert len(found) <= MOST
    assert all(number >= 0 for number in found)


GRES = (
    "gpu:h200:4(S:0-1)(IDX:0-3),shard:h200:3(IDX:0)",
    "gres/gpu:(null):2(IDX:0-1)",
    "bandwidth:lustre:4G",
    "gpu(IDX:N/A)",
)
TRES = ("billing=8,cpu=8,gres/gpu:h200=4,gres/gpu=4,mem=64G,node=2", "mem=1.5T", "gres/gpu=0")


@fuzz(text=texts([*GRES, *TRES], tokens=["(IDX:", "(IDX:0-65535)", "gpu:", "=", "999999999999999P", "1.999999999G"]))
def test_resources_are_counts_or_refused(text: str) -> None:
    try:
        for one in parse_gres(text):
            assert one.count >= 0
            assert one.indexes is None or all(index >= 0 for index in one.indexes)
    except ValueError:
        pass
    try:
        tres = parse_tres(text)
    except ValueError:
        return
    assert all(amount >= 0 for amount in tres.values())
    gpus = gpus_in(tres)
    assert gpus is None or gpus >= max(gpu_types_in(tres).values(), default=0)


@fuzz(text=texts(["32G", "1999M", "4000Mn", "2Gc", "1.5T"]))
def test_an_amount_of_memory_is_bytes_or_refused(text: str) -> None:
    try:
        assert memory(text) >= 0
    except ValueError:
        return


@fuzz(text=texts(["123", "120_3", "130+1", "sEKNKTV3WPV500"]))
def test_a_jobs_name_is_a_number_or_none(text: str) -> None:
    number = raw_number(text, {"120_3": 123})
    assert number is None or number >= 0
