"""What the command line says instead of the configuration, and that it says no more than that."""

from __future__ import annotations

import pytest

from dutycycle_alerter.cli.serve import overridden
from dutycycle_alerter.errors import ConfigError
from dutycycle_alerter.settings import Prometheus, Settings


def test_nothing_said_changes_nothing_whatever_the_source_is() -> None:
    for settings in (Settings(), Settings(prometheus=Prometheus(url="http://p:9090")), Settings(time_scale=60)):
        assert overridden(settings) == settings


def test_what_is_said_counts() -> None:
    targets = ("http://n/metrics",)
    said = overridden(
        Settings(), listen="127.0.0.1:1", database="sqlite:///x", targets=targets, time_scale=3, replica="a"
    )
    assert (said.web.listen_address, said.database) == ("127.0.0.1:1", "sqlite:///x")
    assert (said.source.targets, said.time_scale, said.replica) == (targets, 3, "a")


def test_targets_beside_a_prometheus_are_a_mistake() -> None:
    with pytest.raises(ConfigError, match="exclude each other"):
        overridden(Settings(prometheus=Prometheus()), targets=("http://n/metrics",))
