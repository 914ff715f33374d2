"""What an exporter says of a GPU over some scrapes: gauges are averaged, counters grow; and what it is shown."""

from __future__ import annotations

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from benchmarks.exporters.measured import Exporter
from benchmarks.exporters.nodes import PATTERN, pattern
from benchmarks.exporters.told import EVERY, Told, averaged, gauge, grown, listened


def counters(busy: float, observed: float) -> str:
    return (
        f'gpu_busy_seconds_total{{gpu_uuid="GPU-a",mig=""}} {busy}\n'
        f'gpu_observed_seconds_total{{gpu_uuid="GPU-a",mig=""}} {observed}\n'
    )


def test_of_counters_the_growth_from_first_to_last_counts() -> None:
    pages = [counters(100, 400), counters(103, 409), counters(106, 410)]
    assert grown(pages) == {"GPU-a": 60.0}


def test_of_gauges_the_mean_of_what_is_there_counts() -> None:
    page = 'gpu_utilization_Percentage{{hostname="n",uuid="GPU-a"}} {}\n'
    pages = [page.format(100), page.format(0), "", page.format(80)]
    assert averaged(pages, gauge("gpu_utilization_Percentage", "uuid")) == {"GPU-a": 60.0}
    assert averaged(pages, gauge("gpu_utilization", "uuid")) == {}


class Page(BaseHTTPRequestHandler):
    """An exporter that tells of one GPU, by a gauge."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'gpu_busy_ratio{uuid="GPU-a"} 70\n')

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def exporter() -> Iterator[Exporter]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield Exporter("theirs", (), server.server_port, 1.0)
        server.shutdown()


def test_a_gauge_is_as_far_off_as_it_says(exporter: Exporter) -> None:
    found = listened({"theirs": exporter}, {"theirs": gauge("gpu_busy_ratio", "uuid")}, 1, 0.6)
    assert found == {"theirs": Told(1, pytest.approx(10.0), pytest.approx(10.0))}


def test_a_gauge_that_is_called_otherwise_is_told_at_the_first_page(exporter: Exporter) -> None:
    with pytest.raises(SystemExit, match="theirs: its page tells the utilization of no GPU"):
        listened({"theirs": exporter}, {"theirs": gauge("gpu_utilization", "uuid")}, 20, 0.6)


SCRAPES, DEVICES = 20, 8


def seen(number: int) -> list[bool]:
    """Whether the GPU computes, at each scrape."""
    steps = pattern(number, DEVICES)
    return [steps.busy(EVERY * scrape + 1e-6) > steps.busy(EVERY * scrape) for scrape in range(SCRAPES)]


@pytest.mark.parametrize("number", range(DEVICES))
def test_scrapes_see_every_part_of_a_step(number: int) -> None:
    assert sum(seen(number)) / SCRAPES == pytest.approx(PATTERN.duty, abs=1.5 / SCRAPES)


def test_no_scrape_sees_all_gpus_in_step() -> None:
    each = list(zip(*map(seen, range(DEVICES)), strict=True))
    assert all(abs(sum(busy) - DEVICES * PATTERN.duty) <= 1 for busy in each)
