"""What the alerter reads of an exporter's page, and that no page can do worse than be refused."""

from collections.abc import Mapping
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutycycle_alerter.errors import SourceError
from dutycycle_alerter.history import GPU_COUNTERS, GPU_GAUGES
from dutycycle_alerter.sources.exposition import Exposition, parse
from dutycycle_alerter.sources.metric_names import METRICS_READ
from tests.alerter.exporters import GIB, MODEL, FakeExporter, sample

OURS = "dutycycle_exporter_time_scale 1\n"
DEVICE = {"node": "gpu01", "gpu": "3", "gpu_uuid": "GPU-3", "mig": ""}
OWNED = DEVICE | {"workload": "slurm/7", "user": "alice"}
KEY = ("gpu01", "GPU-3", "", "slurm/7")


def page(*lines: str) -> Exposition:
    return parse("".join(f"{line}\n" for line in lines) + OURS)


def realistic() -> str:
    """One node as an exporter shows it, with comments, histograms and much that the alerter does not read."""
    exporter = FakeExporter()
    exporter.allocate("slurm/41207", 0, 1, start=1000.0, first_process=1020.0)
    exporter.allocate("slurm/41208", 2, start=900.0)
    exporter.allocations["slurm/41208", 2].processes = 0
    exporter.run(100, {"slurm/41207": 0.8, "slurm/41208": 0.0}, gaps={"lt2": 0.1, "2to30": 0.05})
    exporter.end("slurm/41208")
    owned = exporter.device(0) | exporter.allocations["slurm/41207", 0].labels
    return (
        "# HELP gpu_allocation Share of the device; a { brace \\n and \\\\ in the help\n"
        "# TYPE gpu_allocation gauge\n"
        + exporter.page()
        + "# TYPE workload_gpu_utilization_samples histogram\n"
        + sample("workload_gpu_utilization_samples_count", owned, 600)
        + "\n"
        + sample("python_gc_objects_collected_total", {"generation": "0"}, 7)
        + "\n\n# a comment\n# EOF\n"
    )


def test_a_page_as_an_exporter_shows_it() -> None:
    found = parse(realistic())
    assert (found.nodes, found.time_scale, found.replay) == ({"gpu01"}, 1, False)
    assert len(found.devices) == 8
    device = found.devices["gpu01", "GPU-gpu01-0", ""]
    assert (device.index, device.model) == ("0", MODEL)
    assert device.readings == {
        "utilization": 0.5,
        "memory_used": 31 * GIB,
        "memory_total": 141 * GIB,
        "power": 300,
        "power_limit": 700,
        "temperature": 45,
    }
    assert set(found.owned) == {
        ("gpu01", "GPU-gpu01-0", "", "slurm/41207"),
        ("gpu01", "GPU-gpu01-1", "", "slurm/41207"),
        ("gpu01", "GPU-gpu01-2", "", "slurm/41208"),
    }
    running = found.owned["gpu01", "GPU-gpu01-0", "", "slurm/41207"]
    assert (running.share, running.start, running.first_process) == (1, 1000, 1020)
    assert (running.memory_used, running.processes) == (30 * GIB, 1)
    assert running.labels["user"] == "alice"
    assert dict(zip(GPU_COUNTERS[:8], running.counters, strict=True)) == pytest.approx(
        {
            "allocated": 100,
            "observed": 100,
            "busy": 80,
            "gap_lt2": 10,
            "gap_2to30": 5,
            "gap_30to600": 0,
            "gap_ge600": 0,
            "energy": 100 * 70 + 80 * 600,
        }
    )
    assert found.hosts["gpu01", "slurm/41207"].counters == [400, 0, 0]
    assert found.hosts["gpu01", "slurm/41207"].cpu_limit == 16


def test_an_allocation_that_ended_shows_its_final_counters_without_a_share() -> None:
    found = parse(realistic())
    ended = found.owned["gpu01", "GPU-gpu01-2", "", "slurm/41208"]
    assert ended.share is None
    assert ended.counters[0] == 100


def test_counters_and_gauges_come_in_the_order_of_the_history() -> None:
    found = parse(realistic())
    counters, gauges = found.gpu_values(("gpu01", "GPU-gpu01-0", "", "slurm/41207"))
    assert (counters[:3], counters[-1]) == ((100, 100, 80), 0)
    assert gauges == (1, 30 * GIB, 141 * GIB, 1, 700)
    assert (len(counters), len(gauges)) == (len(GPU_COUNTERS), len(GPU_GAUGES))


def test_low_samples_are_those_of_one_bound_alone() -> None:
    """A page that lacks it does not say that there are none."""
    name = "workload_gpu_utilization_samples_bucket"
    others = [sample(name, OWNED | {"le": bound}, 9) for bound in ("0.05", "0.25", "+Inf")]
    assert page(*others).gpu_values(KEY)[0][-1] is None
    assert page(*others, sample(name, OWNED | {"le": "0.15"}, 7)).gpu_values(KEY)[0][-1] == 7
    assert page(*others, sample(name, OWNED | {"le": "0.15"}, -7)).gpu_values(KEY)[0][-1] is None


def test_the_size_of_a_device_that_does_not_tell_it_is_missing() -> None:
    assert page(sample("gpu_allocation", OWNED, 1)).gpu_values(KEY)[1] == (1, None, None, None, None)


@pytest.mark.parametrize(
    "value", ["a\\b", 'say "hi"', "line\nbreak", "{}=,", " ", "é 名", "\\n", '\\"', "a\rb", "\u2028", "}", "#"]
)
def test_label_values_come_through_whatever_they_contain(value: str) -> None:
    owned = OWNED | {"workload": f"k8s/{value}", "user": value}
    found = page(sample("gpu_allocation", owned, 1), sample("workload_gpu_busy_seconds_total", owned, 5))
    (item,) = found.owned.values()
    assert item.labels["user"] == value
    assert item.labels["workload"] == f"k8s/{value}"
    assert (item.share, item.counters[2]) == (1, 5)


@given(st.dictionaries(st.sampled_from(["user", "account", "pod", "namespace"]), st.text(max_size=30)))
def test_any_label_text_survives(labels: Mapping[str, str]) -> None:
    found = page(sample("gpu_allocation", OWNED | dict(labels), 1))
    assert found.owned[KEY].labels == OWNED | dict(labels)


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf", "nan", "1e999"])
def test_what_is_no_number_is_missing(value: str) -> None:
    line = sample("workload_gpu_busy_seconds_total", OWNED, 1).rsplit(" ", 1)[0] + f" {value}"
    found = page(sample("gpu_allocation", OWNED, 1), sample("workload_gpu_allocated_seconds_total", OWNED, 9), line)
    assert found.owned[KEY].counters[:3] == [9, None, None]


@pytest.mark.parametrize("value", [-1.0, -1e-9, 1e300])
def test_what_no_counter_can_be_is_missing(value: float) -> None:
    """A negative counter, or one of ten billion GPU-years, would be counted as growth or as a restart."""
    found = page(
        sample("gpu_allocation", OWNED, 1),
        sample("workload_gpu_busy_seconds_total", OWNED, value),
        sample("workload_cpu_seconds_total", {"node": "gpu01", "workload": "slurm/7"}, value),
    )
    assert found.owned[KEY].counters[2] is None
    assert found.hosts == {} or found.hosts["gpu01", "slurm/7"].counters[0] is None


def test_a_gpu_without_a_uuid_is_known_by_its_index() -> None:
    device = DEVICE | {"gpu_uuid": ""}
    found = page(sample("gpu_allocation", OWNED | {"gpu_uuid": ""}, 1), sample("gpu_info", device | {"model": "X"}, 1))
    assert list(found.owned) == [("gpu01", "3", "", "slurm/7")]
    assert list(found.devices) == [("gpu01", "3", "")]


def test_a_mig_instance_is_a_device_of_its_own() -> None:
    found = page(*(sample("gpu_allocation", OWNED | {"mig": mig}, 0.5) for mig in ("MIG-a", "MIG-b")))
    assert {key[2] for key in found.owned} == {"MIG-a", "MIG-b"}


def test_labels_that_only_describe_may_be_missing() -> None:
    found = page(sample("gpu_allocation", DEVICE | {"workload": "local/1"}, 1))
    assert found.owned["gpu01", "GPU-3", "", "local/1"].share == 1


@pytest.mark.parametrize("missing", ["node", "gpu", "gpu_uuid", "mig"])
@pytest.mark.parametrize("name", ["gpu_allocation", "workload_gpu_busy_seconds_total", "gpu_memory_used_bytes"])
def test_a_series_that_does_not_say_of_which_gpu_it_is_spoils_the_page(name: str, missing: str) -> None:
    labels = {key: value for key, value in OWNED.items() if key != missing}
    with pytest.raises(SourceError, match=missing):
        page(sample(name, labels, 1))


def test_a_node_is_vouched_for_only_by_the_gpus_it_sees() -> None:
    exporter = FakeExporter()
    exporter.allocate("slurm/1", 0)
    exporter.visible = False
    found = parse(exporter.page())
    assert found.nodes == set()
    assert found.devices == {}
    assert len(found.owned) == 1


def test_a_replay_says_so() -> None:
    assert parse(FakeExporter(replay=True).page()).replay


def test_every_metric_that_is_read_is_taken_up() -> None:
    """Nothing is in the table of what is read that nothing reads."""
    for name, needed in METRICS_READ.items():
        labels = {"node": "n", "gpu": "0", "gpu_uuid": "u", "mig": "", "workload": "w", "length": "lt2", "le": "0.15"}
        labels |= {"resource": "io", "sensor": "gpu", "model": "m", "xid": "79"}
        lines = [sample(name, {key: labels.get(key, "x") for key in needed}, 1)]
        assert page(*lines) != page() or name == "dutycycle_exporter_time_scale", name


# Other people's pages


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "# EOF\n",
        'DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-1"} 7\n',
        "node_load1 0.5\n",
        "dutycycle_exporter_time_scale NaN\n",
    ],
)
def test_another_exporter_is_refused(text: str) -> None:
    with pytest.raises(SourceError, match="not a Dutycycle exporter"):
        parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "<!doctype html><html><body>Login</body></html>\n",
        '{"status": "success"}\n',
        "gpu_allocation\n",
        "gpu_allocation{\n",
        'gpu_allocation{node="a"\n',
        'gpu_allocation{node="a} 1\n',
        "gpu_allocation{node=a} 1\n",
        'gpu_allocation{node="a",node="b"} 1\n',
        'gpu_allocation{node="a"} one\n',
        "gpu_allocation 1\n",
        "gpu_visible 8\n",
        "# TYPE\n# TYPE x\n",
        f'gpu_processes{{node="a",gpu="0",gpu_uuid="",mig=""}} {"9" * 400}\n',
        f"gpu_visible 1 {'9' * 400}\n",
        f"dutycycle_exporter_time_scale {'9' * 400} {'9' * 400}\n",
        "\x00\n",
    ],
)
def test_what_is_no_exposition_of_ours_is_refused(text: str) -> None:
    with pytest.raises(SourceError) as refused:
        parse(text + OURS)
    assert len(str(refused.value)) < 400


def test_a_page_that_was_cut_off_is_refused() -> None:
    """`12` of `12345.6` would read as a restarted counter, and all of it would be counted again."""
    whole = FakeExporter().page()
    within_lines = [end for end in range(len(whole) - 60, len(whole)) if whole[end - 1] != "\n"]
    for end in within_lines:
        with pytest.raises(SourceError, match="cut off"):
            parse(whole[:end])


def test_lines_of_absurd_length_are_refused_before_they_take_hours() -> None:
    """The parser needs quadratic time in a line's length."""
    with pytest.raises(SourceError, match="line"):
        page("gpu_visible{" + ",".join(f'a{i}="x"' for i in range(200_000)) + "} 1")


@given(st.binary(max_size=400))
def test_bytes_are_a_page_or_refused(content: bytes) -> None:
    with suppress(SourceError):
        parse(content.decode("utf-8", errors="replace") + "\n" + OURS)


@given(st.data())
def test_a_damaged_page_is_read_or_refused(data: st.DataObject) -> None:
    """Deleted, repeated or replaced pieces never end in anything but an answer or a refusal."""
    text = realistic()
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        end = min(len(text), start + data.draw(st.integers(0, 80)))
        put = data.draw(st.sampled_from(["", "\n", '"', "{", "}", "\\", " ", "9" * 350, "NaN", "\x00", "#", text[:50]]))
        text = text[:start] + put + text[end:]
    with suppress(SourceError):
        found = parse(text + "\n")
        for key in found.owned:
            found.gpu_values(key)
