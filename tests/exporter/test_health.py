"""Health fails where NVML asks for a restart, and where what reads from it stands still."""

from __future__ import annotations

import pytest

from dutycycle_exporter.daemon import Exporter


class Part:
    """Stands for the service and the supervisor of an exporter."""

    def __init__(self, unhealthy, standstill):
        self.unhealthy, self.standstill, self.unready = (lambda: unhealthy), (lambda: standstill), (lambda: "not yet")


@pytest.mark.parametrize(
    ("unhealthy", "standstill", "said"), [("", "", ""), ("a", "", "a"), ("", "b", "b"), ("a", "b", "a")]
)
def test_either_is_a_reason(unhealthy, standstill, said):
    exporter = Exporter.__new__(Exporter)
    exporter._service = exporter._supervisor = Part(unhealthy, standstill)
    assert exporter.unhealthy() == said
    assert exporter.unready() == "not yet"
