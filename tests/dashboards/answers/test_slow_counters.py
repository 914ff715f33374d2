"""What boards show of counters that the exporter reads at some of its turns only: steps, and between them nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dutycycle_dashboards import render
from tests.dashboards.answers import interpolation
from tests.dashboards.answers.interpolation import Dashboard
from tests.prometheus.server import PrometheusServer

START, END = 1_790_000_000, 1_790_007_200
SCRAPE = 15
"""As documents advise."""
READ = {1: (30, 10), 2: (28, 7), 3: (26, 13)}
"""Seconds from one reading of throttling by heat and of the energy to the next, by node: at sample intervals of 5, 7
and 13 s. The first fits into minutes, the others do not.
"""
WATTS = 500.0


def steps(at: int, every: int) -> float:
    """The time for which something has been so by the newest reading: readings are not in step with scrapes."""
    return (at - START - 1) // every * every


def series(at: int) -> Iterator[tuple[str, float]]:
    """A GPU on each node that heat holds down all the time, and that draws as much all the time."""
    for number, (heat, energy) in READ.items():
        node = f'node="n{number}"'
        target = f'instance="n{number}:9836",job="dutycycle"'
        device = f'{node},gpu="0",gpu_uuid="GPU-{number}",mig=""'
        owned = f'{device},cluster="",user="ann",workload="slurm/{number}",model="H100"'
        yield f"gpu_expected{{{node},{target}}}", 1
        yield f"gpu_visible{{{node},{target}}}", 1
        yield f"gpu_allocation{{{owned}}}", 1
        yield f"workload_gpu_allocated_seconds_total{{{owned}}}", at - START
        yield f"workload_gpu_energy_joules_total{{{owned}}}", WATTS * steps(at, energy)
        for name, labels in (("gpu", device), ("workload_gpu", owned)):
            yield f'{name}_throttle_seconds_total{{{labels},reason="hw_thermal"}}', steps(at, heat)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrometheusServer]:
    lines: dict[str, list[str]] = {}
    for at in range(START, END + 1, SCRAPE):
        for name, value in series(at):
            lines.setdefault(name.split("{")[0], []).append(f"{name} {value} {at}")
    kinds = {name: "counter" if name.endswith("_total") else "gauge" for name in lines}
    text = "".join(
        f"# TYPE {name.removesuffix('_total')} {kinds[name]}\n" + "\n".join(samples) + "\n"
        for name, samples in lines.items()
    )
    with PrometheusServer(tmp_path_factory.mktemp("slow"), openmetrics=f"{text}# EOF\n") as running:
        yield running


@pytest.fixture(autouse=True)
def told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Grafana's data source is told how often the exporters are scraped."""
    monkeypatch.setattr(interpolation, "SCRAPE_MS", SCRAPE * 1000)


def shown(server: PrometheusServer, board: str, title: str, chosen: dict[str, list[str]]) -> list[float]:
    """Everything that a panel's first query answers, from when its ranges are full; whatever is read at the end."""
    values = []
    for end in (END - SCRAPE - 7, END - 7):
        found = Dashboard(server.url, render.dashboards()[board], START + 3600, end, chosen)
        panel = next(panel for panel in found.panels() if panel["title"] == title)
        for row in found.ask(panel, panel["targets"][0]):
            values += row["values"] if "values" in row else [row["value"]]
    return [float(value) for _, value in values]


@pytest.mark.parametrize(
    ("board", "title", "chosen"),
    [
        *(("dutycycle-job", "Throttling by reason", {"workload": [f"slurm/{number}"]}) for number in READ),
        *(("dutycycle-node", "Throttling by reason", {"node": [f"n{number}"]}) for number in READ),
        ("dutycycle-fleet", "Throttled now", {}),
    ],
)
def test_a_gpu_that_is_held_down_all_the_time_is_so_for_all_of_it(
    server: PrometheusServer, board: str, title: str, chosen: dict[str, list[str]]
) -> None:
    found = shown(server, board, title, chosen)
    assert found
    assert min(found) >= 90
    assert max(found) <= 100


@pytest.mark.parametrize("number", READ)
def test_steady_power_is_a_level_line(server: PrometheusServer, number: int) -> None:
    found = shown(server, "dutycycle-job", "Power", {"workload": [f"slurm/{number}"]})
    assert len(found) > 10
    assert found == pytest.approx([WATTS] * len(found), rel=0.1)
