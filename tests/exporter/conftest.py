"""Fixtures of the exporter's tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType
from typing import Any

import pynvml
import pytest

from dutycycle_exporter.collected import DEFAULT
from tests.exporter.held_page import collector, scrapes, server, verdicts
from tests.exporter.rig import Rig
from tests.exporter.service_page import Page
from tests.exporter.web_server import authority, serve, web_file
from tests.fakes.clock import FakeClock
from tests.fakes.node import FakeNode
from tests.fakes.nvml import Libraries

__all__ = ["authority", "collector", "scrapes", "serve", "server", "verdicts", "web_file"]


@pytest.fixture
def no_nvml() -> None:
    """For tests of machines without a driver."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return
    pynvml.nvmlShutdown()
    pytest.skip("this machine has a driver")


@pytest.fixture
def make_rig(
    nvml_libraries: Libraries, pynvml_double: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Rig]]:
    """Makes the rig on a node with the arguments of FakeNode; the named ones are the exporter's."""
    with ExitStack() as stack:

        def make(
            *,
            interval: float = 5.0,
            hold: float = 30.0,
            local: bool = False,
            collect: frozenset[str] = DEFAULT,
            **options: Any,
        ) -> Rig:
            clock = FakeClock()
            node = stack.enter_context(FakeNode(tmp_path / "node", nvml_libraries, clock=clock, **options))
            monkeypatch.setenv("NVML_DOUBLE_STATE", node.environment["NVML_DOUBLE_STATE"])
            rig = Rig(node, clock, tmp_path / "prolog", interval=interval, hold=hold, local=local, collect=collect)
            stack.callback(rig.close)
            return rig

        yield make


@pytest.fixture
def page(tmp_path: Path) -> Page:
    """A service that nothing was told yet."""
    return Page(tmp_path)
