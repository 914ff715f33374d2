"""What an exporter says of a GPU over some scrapes: gauges are averaged, counters grow."""

from __future__ import annotations

from benchmarks.exporters.told import averaged, gauge, grown


def counters(busy: float, observed: float) -> str:
    return (
        f'gpu_busy_seconds_total{{gpu_uuid="GPU-a",mig=""}} {busy}\n'
        f'gpu_observed_seconds_total{{gpu_uuid="GPU-a",mig=""}} {observed}\n'
    )


def test_of_counters_the_growth_from_first_to_last_counts() -> None:
    pages = [counters(100, 400), counters(103, 409), counters(106, 410)]
    assert grown(pages) == {"GPU-a": 60.0}


def test_of_gauges_the_mean_of_what_is_there_counts() -> None:
    page = 'gpu_utilization{{hostname="n",uuid="GPU-a"}} {}\n'
    pages = [page.format(100), page.format(0), "", page.format(80)]
    assert averaged(pages, gauge("gpu_utilization", "uuid")) == {"GPU-a": 60.0}
