"""MIG instances that are not shown are found, and so are those that are shown though they are gone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks.chaos import probes, watching
from benchmarks.chaos.cases import CUT, CUT_SLOT, FREE_SLOT, INSTANCE_CASES, POD_CASES, POD_GPUS
from benchmarks.chaos.faults.hardware import MigReconfigured
from benchmarks.chaos.happened import Happened
from benchmarks.chaos.promises import Judged
from benchmarks.chaos.promises.instances import instances_come_and_go
from benchmarks.chaos.record import ExporterPage
from tests.fakes.nvml import Driver, Libraries

from .evidence import clean

ALWAYS, NEW = frozenset({"MIG-1"}), frozenset({"MIG-2", "MIG-3"})
CUT_ANEW = Happened("mig-reconfigured", "k1", 1450.0, 1480.0, instances=NEW)


def judged(*pages: tuple[float, frozenset[str]], success: float = 1.0) -> Judged:
    shown = tuple(
        ExporterPage("k1", at, 0.1, 200, visible=7, success=success, age=0.2, instances=seen) for at, seen in pages
    )
    record = replace(clean(), faults=(CUT_ANEW,), exporters=shown, instances={"k1": ALWAYS})
    return Judged.of(instances_come_and_go(record))


def test_what_is_there_is_shown_before_while_and_after() -> None:
    found = judged((1440.0, ALWAYS), (1460.0, ALWAYS | NEW), (1490.0, ALWAYS))
    assert found.violations == ()
    assert [one.fault for one in found.occasions] == ["", "mig-reconfigured", ""]


@pytest.mark.parametrize(
    ("at", "shown", "text"),
    [
        (1460.0, ALWAYS, "not shown: MIG-2, MIG-3"),
        (1460.0, NEW, "not shown: MIG-1"),
        (1440.0, frozenset(), "not shown: MIG-1"),
        (1490.0, ALWAYS | NEW, "shown and not there: MIG-2, MIG-3"),
    ],
)
def test_what_is_not_shown_or_stays_is_found(at: float, shown: frozenset[str], text: str) -> None:
    [found] = judged((at, shown)).violations
    assert (found.subject, found.evidence) == ("exporter-k1", text)


def test_while_it_is_changed_and_where_nothing_could_be_read_nothing_is_asked() -> None:
    assert judged((1453.0, ALWAYS), (1483.0, ALWAYS | NEW)) == Judged((), ())
    assert judged((1460.0, frozenset()), success=0.0) == Judged((), ())


def test_a_page_that_was_asked_for_before_it_was_changed_and_answered_after_may_show_either() -> None:
    for at in (CUT_ANEW.began - 0.05, CUT_ANEW.ended - 0.05):
        for seen in (ALWAYS, ALWAYS | NEW):
            assert judged((at, seen)) == Judged((), ())


def test_a_node_without_any_is_not_asked() -> None:
    assert Judged.of(instances_come_and_go(clean())) == Judged((), ())


@pytest.mark.usefixtures("patient_probes")
def test_a_free_gpu_is_cut_and_made_whole_and_what_was_made_is_evidence(
    tmp_path: Path, nvml_libraries: Libraries
) -> None:
    with Driver(tmp_path / "nvml", nvml_libraries) as driver:
        for _ in range(POD_GPUS):
            driver.add_gpu()
        always = driver.set_mig(CUT_SLOT, list(CUT))
        machine = SimpleNamespace(fake=SimpleNamespace(driver=driver), nvml=lambda: probes.nvml(driver.environment))
        site, fault = SimpleNamespace(machines={"k1": machine}), MigReconfigured()
        fault.begin(site)  # type: ignore[arg-type]
        driver.step()
        assert fault.in_force(site)  # type: ignore[arg-type]
        made = fault.happened(1.0, 2.0, took=True).instances
        assert len(made) == 3
        assert not made & set(always)
        fault.end(site)  # type: ignore[arg-type]
        driver.step()
        assert not fault.in_force(site)  # type: ignore[arg-type]


def test_those_of_a_page_are_told_by_their_uuids() -> None:
    text = (
        "# HELP gpu_info x\n"
        'gpu_info{gpu="0",gpu_uuid="GPU-1",mig="",mig_mode="enabled",mig_profile=""} 1.0\n'
        'gpu_info{gpu="0",gpu_uuid="GPU-1",mig="MIG-1",mig_mode="",mig_profile="1g.10gb"} 1.0\n'
        'gpu_memory_used_bytes{gpu="0",gpu_uuid="GPU-1",mig="MIG-2"} 1.0\n'
    )

    class Machine:
        name = "k1"

        def get(self, path: str, *, timeout: float) -> tuple[int, str]:
            return 200, text if path == "/metrics" else "OK"

    assert watching.exporter_page(Machine()).instances == {"MIG-1"}  # type: ignore[arg-type]


def test_every_pod_has_a_device_of_its_own_and_one_gpu_is_free() -> None:
    assert sum(case.gpus for case in POD_CASES.values()) == FREE_SLOT
    assert {profile for profile, _ in INSTANCE_CASES.values()} == CUT.keys()
    assert all(case.share == CUT[profile] for profile, case in INSTANCE_CASES.values())
