"""Names, labels and label values that the alerter reads are those that the exporter publishes.

The only tests that import both packages: between them there is nothing but this.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dutycycle_alerter.history import GPU_COUNTERS, HOST_COUNTERS
from dutycycle_alerter.model import LOW_SAMPLE
from dutycycle_alerter.sources import exposition, metric_names
from dutycycle_alerter.sources.exposition import Exposition, parse
from dutycycle_alerter.sources.metric_names import METRICS_READ
from dutycycle_exporter import contract

GOLDEN = Path(__file__).parents[1] / "exporter" / "golden"


@pytest.mark.parametrize("name", METRICS_READ)
def test_every_metric_that_is_read_is_published_with_its_labels(name: str) -> None:
    family = contract.FAMILIES[name.removesuffix("_bucket")]
    bound = {"le"} if name.endswith("_bucket") else set()
    assert set(METRICS_READ[name]) <= {*family.labels, *bound}
    assert family.kind in (("histogram",) if bound else ("gauge", "counter"))


def test_owners_are_described_by_the_same_labels() -> None:
    assert metric_names.DEVICE_LABELS == contract.DEVICE
    assert metric_names.OWNER_LABELS == contract.OWNER


def test_counters_are_read_as_counters_and_gauges_as_gauges() -> None:
    counters = {name for name, family in contract.FAMILIES.items() if family.kind == "counter"}
    read = {name for name, _ in (*metric_names.GPU_PLACES, *metric_names.HOST_PLACES)} | {metric_names.ACTIVE}
    read |= {metric_names.THROTTLED, metric_names.DEVICE_THROTTLED, *metric_names.LINKS, *metric_names.DEVICE_COUNTERS}
    assert read <= counters
    assert not (set(METRICS_READ) - read) & counters


def test_the_bound_of_low_samples_is_one_of_the_histograms() -> None:
    assert LOW_SAMPLE in contract.UTILIZATION_BUCKETS
    assert any(f'le="{metric_names.LOW}"' in path.read_text() for path in GOLDEN.glob("*.prom"))


def test_gap_lengths_are_called_the_same() -> None:
    assert metric_names.GAP_LENGTHS == contract.GAP_LENGTHS
    assert GPU_COUNTERS[3:7] == tuple(f"gap_{length}" for length in contract.GAP_LENGTHS)


# Pages that the exporter really made, reviewed line by line on its side.


@pytest.fixture(params=sorted(GOLDEN.glob("*.prom")), ids=lambda path: path.stem)
def page(request: pytest.FixtureRequest) -> str:
    text: str = request.param.read_text()
    return text.replace("DURATION", "0").replace("TIME", "0")


def test_a_real_page_is_read(page: str) -> None:
    found = parse(page)
    assert len(found.nodes) == 1
    assert found.time_scale == 1
    assert found.owned
    assert all(device.model for device in found.devices.values())


def test_nothing_that_is_read_is_left_out_of_a_real_page() -> None:
    """Every metric of the table is on some page; what is never there would be read in vain."""
    text = "".join(path.read_text() for path in GOLDEN.glob("*.prom"))
    shown = {line.split("{")[0].split(" ")[0] for line in text.splitlines() if not line.startswith("#")}
    # No golden page is of a node whose pods' labels are let through.
    assert set(METRICS_READ) - {metric_names.WORKLOAD_LABEL} <= shown


def present(found: Exposition) -> list[exposition.Owned]:
    return [owned for owned in found.owned.values() if owned.share is not None]


def test_every_counter_of_a_present_workload_is_known(page: str) -> None:
    for owned in present(parse(page)):
        known = {name for name, value in zip(GPU_COUNTERS[:8], owned.counters, strict=True) if value is not None}
        # Not every GPU counts energy.
        assert known >= set(GPU_COUNTERS[:8]) - {"energy"}
        assert owned.start is not None
        assert set(metric_names.OWNER_LABELS) <= set(owned.labels)


def test_cpu_time_and_pressures_are_found_where_they_are_shown(page: str) -> None:
    found = parse(page)
    places = {"workload_cpu_seconds_total": 0, 'resource="io"': 1, 'resource="cpu"': 2}
    assert len(places) == len(HOST_COUNTERS)
    for text, place in places.items():
        lines = [line for line in page.splitlines() if text in line and not line.startswith("#")]
        assert len(lines) == sum(host.counters[place] is not None for host in found.hosts.values())


def test_what_units_links_and_throttling_tell_is_read_from_some_page() -> None:
    """Under the exporter's names of units, reasons and directions."""
    found = [parse(path.read_text().replace("DURATION", "0").replace("TIME", "0")) for path in GOLDEN.glob("*.prom")]
    names = GPU_COUNTERS[8:]
    known = {
        name
        for one in found
        for key, owned in one.owned.items()
        if owned.share is not None and key[:3] in one.devices
        for name, value in zip(
            names, one.gpu_values(key, one.devices[key[:3]].link_kind)[0][-len(names) :], strict=True
        )
        if value is not None
    }
    assert known == set(names)
    reasons = {reason for one in found for device in one.devices.values() for reason in device.throttled}
    assert {*metric_names.HEAT, metric_names.HEAT_AT_ONCE, metric_names.POWER_CAP} <= reasons
    assert any(one.xids for one in found)
    assert all(one.visible.keys() == one.nodes for one in found)
    assert all(one.expected for one in found)


def test_temperature_is_the_gpus(page: str) -> None:
    """And not its memory's; an instance has none of its own."""
    shown = {
        tuple(re.findall(r'gpu_uuid="([^"]*)",mig="([^"]*)"', line)[0]): float(line.split(" ")[-1])
        for line in page.splitlines()
        if line.startswith("gpu_temperature") and 'sensor="gpu"' in line
    }
    read = {(uuid, mig): device.readings.get("temperature") for (_, uuid, mig), device in parse(page).devices.items()}
    assert {key: celsius for key, celsius in read.items() if celsius is not None} == shown
    assert len(shown) == sum(not mig for _, mig in read)
