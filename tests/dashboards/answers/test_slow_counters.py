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
HEAT, ENERGY = 30, 10
"""Seconds from one reading to the next."""
WATTS = 500.0
DEVICE = 'node="n1",gpu="0",gpu_uuid="GPU-0",mig=""'
OWNED = f'{DEVICE},cluster="",user="ann",workload="slurm/1",model="H100"'
TARGET = 'instance="n1:9836",job="dutycycle"'


def steps(at: int, every: int) -> float:
    """The time for which something has been so by the newest reading: readings are not in step with scrapes."""
    return (at - START - 1) // every * every


def series(at: int) -> Iterator[tuple[str, float]]:
    """One GPU that heat holds down all the time, and that draws as much all the time."""
    yield f'gpu_expected{{node="n1",{TARGET}}}', 1
    yield f'gpu_visible{{node="n1",{TARGET}}}', 1
    yield f"gpu_allocation{{{OWNED}}}", 1
    yield f"workload_gpu_allocated_seconds_total{{{OWNED}}}", at - START
    yield f"workload_gpu_energy_joules_total{{{OWNED}}}", WATTS * steps(at, ENERGY)
    for name, labels in (("gpu", DEVICE), ("workload_gpu", OWNED)):
        yield f'{name}_throttle_seconds_total{{{labels},reason="hw_thermal"}}', steps(at, HEAT)


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
        ("dutycycle-job", "Throttling by reason", {"workload": ["slurm/1"]}),
        ("dutycycle-node", "Throttling by reason", {"node": ["n1"]}),
        ("dutycycle-fleet", "Throttled now", {}),
    ],
)
def test_a_gpu_that_is_held_down_all_the_time_is_so_for_all_of_it(
    server: PrometheusServer, board: str, title: str, chosen: dict[str, list[str]]
) -> None:
    found = shown(server, board, title, chosen)
    assert found
    assert min(found) >= 85
    assert max(found) <= 100


def test_steady_power_is_a_level_line(server: PrometheusServer) -> None:
    found = shown(server, "dutycycle-job", "Power", {"workload": ["slurm/1"]})
    assert len(found) > 10
    assert found == pytest.approx([WATTS] * len(found), rel=0.1)
