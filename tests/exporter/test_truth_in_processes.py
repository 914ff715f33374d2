"""As test_truth, through real processes and HTTP: the counters are right at any scrape interval, the gauge is not."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.exporter.daemon import Daemon, eventually
from tests.fakes.nvml import Load, Steps

INTERVALS = {5: 2.5, 15: 7.5, 30: 15, 60: 30}
"""Seconds between scrapes, and the time scale at which they are run."""
SCRAPES = 6


@dataclass
class Seen:
    """What one scrape showed."""

    at: float
    since: float
    """Until when the exporter has to have read, at least."""
    observed: float
    busy: float
    gauge: float


class Scraped:
    """A GPU that is busy for half of every scrape interval, and a Prometheus that scrapes at that interval.

    It scrapes while the GPU is idle: what the exporter read last then is the whole of the work before. A scrape for
    which the machine was too late is made again an interval later.
    """

    def __init__(self, directory, driver, interval, scale):
        directory.mkdir()
        driver.add_gpu()
        self.driver = driver
        self.period = interval / scale
        self.started = driver.run("wave", {0: Load(Steps(period=interval, duty=0.5))}).started_us / 1e6
        driver.start()
        flags = (f"--time-scale={scale}", f"--sample-interval={0.1 * scale:g}s")
        self.daemon = Daemon(directory, driver.environment, *flags)

    def scrape(self):
        seen = []
        with self.daemon:
            eventually(lambda: self.daemon.values("gpu_busy_seconds_total"))
            while len(found := self._in_time(seen)) < SCRAPES:
                assert len(seen) < 10 * SCRAPES, "hardly any scrape shows what was read in time"
                seen.append(eventually(self._scrape_once))
        return found

    def _in_time(self, seen):
        """Those that show all there was. Of one that shows what was read before the machine stalled less has been
        observed than of the others, by the time that has passed.
        """
        ahead = max((one.observed - one.at for one in seen), default=0.0)
        return [one for one in seen if one.observed - ahead >= one.since]

    def _phase(self, at):
        """Which part of the interval has passed; the GPU is idle from 0.5 on."""
        return (at - self.started) / self.period % 1

    def _wait_for(self, phase):
        threading.Event().wait((phase - self._phase(time.time())) % 1 * self.period)

    def _scrape_once(self):
        """None where it shows something else than this interval's idle half."""
        self._wait_for(0.6)
        self.driver.step()
        since = time.time()
        self._wait_for(0.8)
        families = text_string_to_metric_families(self.daemon.get("/metrics")[1])
        values = {sample.name: sample.value for family in families for sample in family.samples}
        at = time.time()
        names = ("gpu_observed_seconds_total", "gpu_busy_seconds_total", "gpu_utilization_ratio")
        if at - since > 0.35 * self.period or self._phase(at) < 0.5 or not values.keys() >= set(names):
            return None
        return Seen(at, since, *(values[name] for name in names))


def test_busy_seconds_are_within_one_percent_where_a_gauge_is_off_by_tens_of_points(nvml_driver, tmp_path):
    gpus = {
        interval: Scraped(
            tmp_path / f"{interval}s", nvml_driver(f"{interval}", time_scale=scale, capacity=2000), interval, scale
        )
        for interval, scale in INTERVALS.items()
    }
    with ThreadPoolExecutor(len(gpus)) as pool:
        scraped = dict(zip(gpus, pool.map(Scraped.scrape, gpus.values()), strict=True))
    for interval, seen in scraped.items():
        first, last = seen[0], seen[-1]
        busy = last.busy - first.busy
        truth = gpus[interval].driver.truth.busy_seconds(0, first.at, last.at)
        length = last.at - first.at
        gauge = sum(scrape.gauge for scrape in seen) / len(seen)
        print(
            f"scraped every {interval} s: {busy / length:.2%} by the counters, {gauge:.2%} by the gauge, "
            f"{truth / length:.2%} driven"
        )
        assert busy == pytest.approx(truth, rel=0.01)
        assert abs(gauge - truth / length) > 0.4
