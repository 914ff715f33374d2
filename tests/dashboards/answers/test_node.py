"""The Node board's owners: on a node with a GPU that jobs share, one that nobody holds, and one cut into instances; on
one of which nothing was heard for a while; and on one whose exporter does not know all holders yet.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from dutycycle_dashboards import render
from dutycycle_dashboards.boards.node_queries import STEPS
from tests.dashboards.answers.interpolation import Dashboard
from tests.prometheus.server import PrometheusServer

START, END, STEP = 1_790_000_000, 1_790_003_600, 60
LEFT, TAKEN = START + 1200, START + 2400
"""What is backfilled has no marks of its end, and is seen for five minutes more: a GPU is handed over with a gap."""
AWAY, BACK = START + 600, START + 2400
SEEN = 300
"""Seconds for which the last sample of what is backfilled is seen."""
FIRST, SECOND = "MIG-11111111-aaaa", "MIG-22222222-bbbb"
MODEL = render.dashboards()["dutycycle-node"]


def device(gpu: int, mig: str = "", node: str = "n1") -> str:
    return f'node="{node}",gpu="{gpu}",gpu_uuid="GPU-{node}-{gpu}",mig="{mig}"'


def info(gpu: int, mig: str = "", mode: str = "disabled", node: str = "n1") -> str:
    return (
        f'gpu_info{{{device(gpu, mig, node)},model="H100",mig_mode="{mode}",mig_profile="{"3g.40gb" if mig else ""}"}}'
    )


def held(gpu: int, user: str, workload: str, mig: str = "", node: str = "n1") -> str:
    return f'gpu_allocation{{{device(gpu, mig, node)},model="H100",user="{user}",workload="{workload}"}}'


def exported() -> Iterator[tuple[str, float, int, int]]:
    """Series with their value, from when, until when."""
    for node in ("n1", "n2"):
        target = f'node="{node}",instance="{node}:9836",job="dutycycle"'
        yield f"gpu_expected{{{target}}}", 4, START, END
        yield f"gpu_visible{{{target}}}", 4, START, END
        yield (
            f'dutycycle_exporter_collector_success{{collector="nvml",instance="{node}:9836",job="dutycycle"}}',
            float(node == "n1"),
            START,
            END,
        )
    for gpu, mig, mode in ((0, "", "disabled"), (1, "", "disabled"), (2, "", "enabled"), (3, "", "disabled")):
        yield info(gpu, mig, mode), 1, START, END
    for mig in (FIRST, SECOND):
        yield info(2, mig, "enabled"), 1, START, END
    yield info(0, node="n2"), 1, START, END
    yield held(0, "ann", "slurm/7", node="n2"), 1, START, END
    yield held(0, "ann", "slurm/1"), 1, START, LEFT
    yield held(0, "bob", "slurm/2"), 1, TAKEN, END
    yield held(1, "ann", "slurm/1"), 0.5, START, END
    yield held(1, "cyd", "k8s/ns/pod/uid"), 0.5, START, END
    yield held(2, "dan", "slurm/5", FIRST), 3 / 7, START, END
    # Of this one nothing is heard for half an hour.
    for begin, end in ((START, AWAY), (BACK, END)):
        yield 'gpu_expected{node="n3"}', 2, begin, end
        yield 'gpu_visible{node="n3"}', 2, begin, end
        yield info(0, node="n3"), 1, begin, end
        yield info(1, node="n3"), 1, begin, end
        yield held(0, "ann", "slurm/8", node="n3"), 1, begin, end
    # The exporter of this one has just started.
    yield 'gpu_expected{node="n4"}', 2, START, END
    yield info(0, node="n4"), 1, START, END
    yield info(1, node="n4"), 1, START, END
    yield held(1, "ann", "slurm/9", node="n4"), 1, START, END


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrometheusServer]:
    lines: dict[str, list[str]] = {}
    for series, value, begin, end in exported():
        samples = lines.setdefault(series.split("{")[0], [])
        samples += [f"{series} {value} {at}" for at in range(begin, end + 1, STEP)]
    text = "".join(f"# TYPE {name} gauge\n" + "\n".join(samples) + "\n" for name, samples in lines.items())
    with PrometheusServer(tmp_path_factory.mktemp("node"), openmetrics=f"{text}# EOF\n") as running:
        yield running


@pytest.fixture(scope="module")
def board(server: PrometheusServer) -> Dashboard:
    return opened(server, "n1")


def opened(server: PrometheusServer, node: str) -> Dashboard:
    return Dashboard(server.url, MODEL, START, END, {"node": [node]})


def asked(board: Dashboard, title: str, letter: str = "A") -> list[dict[str, Any]]:
    panel = next(panel for panel in board.panels() if panel["title"] == title and panel["type"] != "stat")
    return board.ask(panel, next(target for target in panel["targets"] if target["refId"] == letter))


def test_the_timeline_has_one_owner_at_a_time_for_every_gpu_and_instance(board: Dashboard) -> None:
    found = asked(board, "Owners")
    assert sorted((row["metric"]["device"], row["metric"]["owner"]) for row in found) == [
        ("GPU 0", "ann slurm/1"),
        ("GPU 0", "bob slurm/2"),
        ("GPU 0", "free"),
        ("GPU 1", "2 jobs"),
        ("GPU 2 MIG 11111111", "dan slurm/5"),
        ("GPU 2 MIG 22222222", "free"),
        ("GPU 3", "free"),
        (STEPS, STEPS),
    ]
    told = [(row["metric"]["device"], at) for row in found for at, _ in row["values"]]
    assert len(told) == len(set(told))


def test_the_timeline_has_every_step_and_no_owner_where_nobody_answered(server: PrometheusServer) -> None:
    """Else Grafana would draw the last owner until the next one."""
    times = {row["metric"]["device"]: [at for at, _ in row["values"]] for row in asked(opened(server, "n3"), "Owners")}
    every = times.pop(STEPS)
    assert len({later - earlier for earlier, later in pairwise(every)}) == 1
    silent = {at for at in every if AWAY + SEEN < at < BACK}
    assert len(silent) > 30
    assert set(times) == {"GPU 0", "GPU 1"}
    for told in times.values():
        assert set(told) <= set(every)
        assert not silent & set(told)


def test_the_timeline_shows_no_row_for_its_steps() -> None:
    rows = [panel for row in MODEL["panels"] for panel in (row, *row.get("panels", ()))]
    [panel] = [one for one in rows if one["title"] == "Owners"]
    assert panel["transformations"][-1]["id"] == "organize"
    assert panel["transformations"][-1]["options"]["excludeByName"] == {STEPS: True}


def test_nothing_is_free_while_holders_are_not_known_yet(server: PrometheusServer) -> None:
    board = opened(server, "n4")
    owners = {(row["metric"]["device"], row["metric"]["owner"]) for row in asked(board, "Owners")}
    assert owners == {("GPU 1", "ann slurm/9"), (STEPS, STEPS)}
    rows = {
        letter: [(row["metric"]["gpu"], row["metric"].get("user", "")) for row in asked(board, "GPUs", letter)]
        for letter in "AB"
    }
    assert sorted(rows["A"]) == [("0", ""), ("1", "ann")]
    assert rows["B"] == [("1", "ann")]


def test_the_table_has_every_gpu_with_each_that_holds_it(board: Dashboard) -> None:
    rows = {
        (row["metric"]["gpu"], row["metric"]["mig"], row["metric"].get("user", "")): float(row["value"][1])
        for row in asked(board, "GPUs", "B")
    }
    assert rows == {
        ("0", "whole", "bob"): 1,
        ("1", "whole", "ann"): 0.5,
        ("1", "whole", "cyd"): 0.5,
        ("2", FIRST, "dan"): pytest.approx(3 / 7),
        ("2", SECOND, ""): 0,
        ("3", "whole", ""): 0,
    }


def test_the_exporters_own_metrics_are_those_of_the_nodes_exporter(board: Dashboard) -> None:
    (row,) = asked(board, "Collectors")
    assert row["metric"] == {"collector": "nvml"}
    assert row["value"][1] == "1"
