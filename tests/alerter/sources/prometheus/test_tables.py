"""From answers to evidence, without an engine: what comes twice, instances of a GPU, jobs that still load, hosts."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dutycycle_alerter.model import Gpu, GpuEvidence
from dutycycle_alerter.promql.answers import Vector
from dutycycle_alerter.settings import Settings
from dutycycle_alerter.sources.prometheus.columns import Rows, cells
from dutycycle_alerter.sources.prometheus.devices import DeviceEvidence
from dutycycle_alerter.sources.prometheus.identity import Held, Known, Sight
from dutycycle_alerter.sources.prometheus.loading import Loading
from dutycycle_alerter.sources.prometheus.scope import windows
from dutycycle_alerter.sources.prometheus.selectors import DEVICE, HOST, KEY, Query
from dutycycle_alerter.sources.prometheus.tables import Tables
from dutycycle_alerter.sources.prometheus.windows import Windows

AT = 1_700_000_000.0
SEEN = {"n1": Sight(fresh=True, steady=True, visible=8, expected=8)}
LENGTHS = windows(Settings())


def held(node: str = "n1", uuid: str = "G0", mig: str = "", workload: str = "slurm/1", share: float = 1.0) -> Known:
    key = (node, uuid, mig, workload)
    one = Held(("", workload), Gpu(node, "0", uuid, mig, "H200"), share, AT)
    return Known(("", workload), ((key, one),), None, True, AT - 7200)


def give(tables: Tables, name: str, labels: tuple[str, ...], rows: dict[tuple[str, ...], float], window: float) -> None:
    tables.fold(Query(name, "", labels, window), Vector(list(rows), np.array(list(rows.values()))))


def test_what_comes_twice_is_the_higher_and_what_is_no_number_is_missing() -> None:
    rows = Rows([("a",), ("b",), ("c",), ("d",)])
    column = rows.empty()
    values = np.array([1.0, 3.0, 2.0, math.nan, math.inf, 5.0])
    rows.fold(column, Vector([("a",), ("a",), ("a",), ("b",), ("c",), ("x",)], values))
    assert cells(column) == [3.0, None, None, None]
    rows.fold(column, Vector([("d",), ("a",)], np.array([0.0, 2.5])))
    assert cells(column) == [3.0, None, None, 0.0]


def test_busy_time_that_is_not_known_makes_measured_time_worthless() -> None:
    tables = Tables(AT, [held()])
    give(tables, "observed", KEY, {("n1", "G0", "", "slurm/1"): 900.0}, 900)
    (usage,) = Windows(tables, (900,)).of(tables.jobs[0], 900).gpus
    assert (usage.observed, usage.utilization) == (0.0, None)


def test_gaps_that_are_not_listed_are_none_where_the_others_are_known() -> None:
    tables = Tables(AT, [held(), held(workload="slurm/2")])
    give(tables, "gap_lt2", KEY, {("n1", "G0", "", "slurm/1"): 5.0}, 900)
    known, unknown = (Windows(tables, (900,)).of(job, 900).gpus[0] for job in tables.jobs)
    assert (known.gap_lt2, known.gap_2to30, known.gap_ge600) == (5.0, 0.0, 0.0)
    assert (unknown.gap_lt2, unknown.gap_2to30, unknown.gap_ge600) == (None, None, None)


@pytest.mark.parametrize("length", [900, 86400])
def test_a_window_that_failed_or_was_not_asked_for_is_unknown(length: float) -> None:
    tables = Tables(AT, [held(share=0.5)], failed={900})
    give(tables, "observed", KEY, {("n1", "G0", "", "slurm/1"): 900.0}, 900)
    give(tables, "busy", KEY, {("n1", "G0", "", "slurm/1"): 0.0}, 900)
    (usage,) = Windows(tables, (900, 1800)).of(tables.jobs[0], length).gpus
    assert (usage.observed, usage.share) == (0.0, 0.5)


def test_hosts_cores_add_up_and_the_worst_of_the_rest_counts() -> None:
    job = Known(("", "slurm/1"), held("n1").held + held("n2", "G9").held, None, True, AT)
    tables = Tables(AT, [job])
    where = {("n1", "slurm/1"): 900.0, ("n2", "slurm/1"): 1800.0}
    give(tables, "cpu_seconds", HOST, where, 900)
    give(tables, "cpu_limit", HOST, {("n1", "slurm/1"): 2.0, ("n2", "slurm/1"): 0.0}, 0)
    give(tables, "io_pressure", HOST, {("n2", "slurm/1"): 90.0}, 900)
    host = Windows(tables, (900,)).of(job, 900).host
    assert (host.cpu_cores, host.cpu_of_limit, host.io_pressure, host.cpu_pressure) == (3.0, 0.5, 0.1, None)


def test_cores_are_not_known_where_those_on_one_of_the_nodes_are_not() -> None:
    """Else a job whose other nodes compute would pass for one that keeps few cores busy."""
    job = Known(("", "slurm/1"), held("n1").held + held("n2", "G9").held, None, True, AT)
    tables = Tables(AT, [job])
    give(tables, "cpu_seconds", HOST, {("n1", "slurm/1"): 900.0}, 900)
    assert Windows(tables, (900,)).of(job, 900).host.cpu_cores is None


def gpus(tables: Tables) -> dict[tuple[str, str], GpuEvidence]:
    return {(item.gpu.uuid, item.gpu.mig): item for item in DeviceEvidence(tables, SEEN, LENGTHS).gpus()}


def test_who_holds_an_instance_holds_a_part_of_its_gpu() -> None:
    """Otherwise the memory of a MIG job would pass for leaked memory of the whole GPU."""
    free = {("n1", "G0", ""): Gpu("n1", "0", "G0", "", "H200"), ("n1", "G1", ""): Gpu("n1", "1", "G1", "", "H200")}
    tables = Tables(AT, [held(mig="M1")], free)
    give(tables, "held_lately", DEVICE, {("n1", "G1", "M7"): 1.0}, 900)
    found = gpus(tables)
    assert found["G0", ""].jobs == found["G0", "M1"].jobs == ("slurm/1",)
    assert found["G0", ""].window(900).allocated is True
    assert (found["G1", ""].jobs, found["G1", ""].window(900).allocated) == ((), True)


def test_power_limit_and_links_of_an_instance() -> None:
    """The limit is its GPU's; bytes over the GPU's links are not told apart by instance."""
    tables = Tables(AT, [held(mig="M1")], learned={"idle_power": {"H200": 70.0}})
    give(tables, "power_limit", DEVICE, {("n1", "G0", ""): 700.0}, 0)
    give(tables, "link_bytes", DEVICE, {("n1", "G0", ""): 1e9}, 900)
    (usage,) = Windows(tables, (900,)).of(tables.jobs[0], 900).gpus
    assert (usage.power_limit, usage.link_bytes, usage.idle_power) == (700.0, None, None)


def test_a_reading_that_is_not_listed_is_0_only_where_the_whole_node_is_read() -> None:
    free = {("n1", "G0", ""): Gpu("n1", "0", "G0", "", "H200")}
    for known, expected in ((8.0, 0.0), (7.0, None)):
        tables = Tables(AT, [], free)
        give(tables, "recovery_action_known", ("node",), {("n1",): known}, 0)
        assert gpus(tables)["G0", ""].recovery_action == expected


def test_a_gpu_that_only_its_xid_tells_of_is_not_seen() -> None:
    tables = Tables(AT, [])
    give(tables, "xid", (*DEVICE, "xid"), {("n1", "G5", "", "79"): AT - 60, ("n1", "G5", "", "x"): AT}, 0)
    found = gpus(tables)["G5", ""]
    assert (found.visible, found.xids) == (False, {79: AT - 60})


def test_a_gpu_that_was_shown_before_and_is_not_now_is_not_seen() -> None:
    gpu = Gpu("n1", "5", "G5", "", "H200")
    found = list(DeviceEvidence(Tables(AT, []), SEEN, LENGTHS, {("n1", "G5", ""): (gpu, AT - 600)}).gpus())
    assert [(item.gpu, item.visible) for item in found] == [(gpu, False)]


def test_memory_that_rises_tells_that_a_job_still_loads() -> None:
    loading, job = Loading(), held()
    for at, used in ((0.0, 10.0), (60.0, 11.0), (120.0, 30.0), (180.0, 30.5), (240.0, None), (300.0, 29.0)):
        loading.watch(job, 0.0, [used], [100.0], at)
    assert loading.grew_at(job.key) == 120.0
    loading.keep({job.key})
    assert loading.grew_at(job.key) == 120.0
    loading.keep(set())
    assert loading.grew_at(job.key) is None


def test_a_job_that_starts_anew_loads_anew() -> None:
    loading, job = Loading(), held()
    loading.watch(job, 0.0, [10.0], [100.0], 60.0)
    loading.watch(job, 0.0, [90.0], [100.0], 120.0)
    loading.watch(job, 600.0, [10.0], [100.0], 660.0)
    assert loading.grew_at(job.key) is None
    loading.watch(job, 600.0, [50.0], [100.0], 720.0)
    assert loading.grew_at(job.key) == 720.0


def test_the_first_reading_is_a_start_and_not_growth() -> None:
    loading, job = Loading(), held()
    loading.watch(job, 0.0, [80.0], [100.0], 60.0)
    assert loading.grew_at(job.key) is None


@pytest.mark.parametrize(
    ("observed", "allocated"),
    [
        pytest.param({}, 0.0, id="no increase at all: the engine may have seen it once"),
        pytest.param({("n1", "G0", "M1", "slurm/1"): 0.0}, 60.0, id="not measured since the engine came back"),
        pytest.param({("n1", "G0", "M1", "slurm/1"): 40.0}, 450.0, id="measured"),
    ],
)
def test_what_was_not_measured_is_not_known_to_have_been_there_before_the_engine_came_back(
    observed: dict[tuple[str, ...], float], allocated: float
) -> None:
    """An engine that lost its data would else make an instance one that cannot be measured, and end its incident."""
    tables = Tables(AT, [held(mig="M1", share=0.5)])
    give(tables, "observed", KEY, observed, 900)
    give(tables, "busy", KEY, observed, 900)
    (usage,) = Windows(tables, (900,), AT - 120).of(tables.jobs[0], 900).gpus
    assert usage.allocated == allocated
