"""Passes fill what reports are made from: idle hours, and those of jobs on more nodes than they need."""

from __future__ import annotations

from pathlib import Path

import pytest

from dutycycle_alerter.reports.model import Asked, Kind
from tests.alerter.exporters import FakeExporter
from tests.alerter.rig import running

MINUTE = 60.0


def test_passes_tell_idle_and_spread_hours_apart(tmp_path: Path) -> None:
    exporters = [FakeExporter("gpu01"), FakeExporter("gpu02")]
    for exporter in exporters:
        exporter.allocate("slurm/1", 0, start=0)
        exporter.allocate(f"slurm/{exporter.node}", 1, start=0)
    with running(tmp_path / "store.sqlite3", *exporters, interval=MINUTE) as rig:
        for _ in range(6):
            rig.step(1, {"slurm/1": 0.0, "slurm/gpu01": 0.5, "slurm/gpu02": 0.5})
            rig.run_pass()
        hours = rig.reader.waste_report(Asked(Kind.WASTE, 0.0, 1e12)).hours
    assert hours.idle == pytest.approx(2 * 5 * MINUTE)
    assert hours.busy == hours.low == pytest.approx(5 * MINUTE)
    assert (hours.spread, hours.placed) == (pytest.approx(2 * 5 * MINUTE), pytest.approx(4 * 5 * MINUTE))
    assert hours.waited is None
