"""When the exporter counts as unhealthy, and what it says of lost children."""

from __future__ import annotations

from pathlib import Path

import pytest

from dutycycle_exporter.contract import RESTART_REASONS


def test_losses_are_counted_by_reason(page):
    for reason in ("hang", "hang", "exit"):
        page.service.on_loss(reason, "why")
    assert page.value("dutycycle_exporter_child_restarts_total", {"reason": "hang"}) == 2
    assert page.value("dutycycle_exporter_child_restarts_total", {"reason": "exit"}) == 1
    assert page.value("dutycycle_exporter_collector_success", {"collector": "nvml"}) == 0
    page.snapshot()
    assert page.value("dutycycle_exporter_collector_success", {"collector": "nvml"}) == 1


def test_every_reason_that_is_known_is_shown_at_0_before_the_first_loss(page):
    """PromQL's increase() does not see a series begin."""
    shown = [page.value("dutycycle_exporter_child_restarts_total", {"reason": reason}) for reason in RESTART_REASONS]
    assert set(shown) == {0}
    page.service.on_loss("no_permission", "another that NVML gave")
    assert page.value("dutycycle_exporter_child_restarts_total", {"reason": "no_permission"}) == 1


def test_the_documentation_has_every_reason_for_another_child():
    text = (Path(__file__).parents[2] / "docs" / "exporter.md").read_text()
    assert [reason for reason in RESTART_REASONS if f"`{reason}`" not in text] == []


@pytest.mark.parametrize("reason", ["hang", "driver_not_loaded", "library_not_found", "exit"])
def test_health_does_not_fail_where_a_restart_would_not_help(page, reason):
    page.service.on_loss(reason, "why")
    page.clock.advance(3600)
    assert page.service.unhealthy() == ""


@pytest.mark.parametrize("reason", ["lib_rm_version_mismatch", "garbled"])
def test_what_another_child_does_not_help_fails_health_after_a_while_and_until_it_fits(page, reason):
    """A library that is not the driver's, and children of another version than the exporter itself."""
    page.service.on_loss(reason, "restart the container")
    assert page.service.unhealthy() == ""
    page.clock.advance(200)
    page.service.on_loss(reason, "restart the container")
    assert page.service.unhealthy() == "restart the container"
    page.snapshot()
    assert page.service.unhealthy() == ""


@pytest.mark.parametrize("reason", ["unknown", "no_permission"])
@pytest.mark.parametrize(
    ("read", "driven", "helps"), [(True, False, True), (False, True, True), (False, False, False)], ids=str
)
def test_a_container_that_may_have_lost_its_devices_fails_health_after_a_while(page, reason, read, driven, helps):
    """As after a daemon-reload of systemd. One that never had any is not restarted again and again."""
    page.service._driven = lambda: driven
    if read:
        page.snapshot()
    page.service.on_loss(reason, "NVML cannot be used: Unknown Error")
    page.clock.advance(290)
    page.service.on_loss(reason, "NVML cannot be used: Unknown Error")
    assert page.service.unhealthy() == ""
    page.clock.advance(20)
    assert bool(page.service.unhealthy()) == helps
    if helps:
        assert "Unknown Error; this container may have lost its devices: restart it" in page.service.unhealthy()
    page.snapshot()
    assert page.service.unhealthy() == ""
