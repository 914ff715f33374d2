"""Fixtures for every test, and the order in which several workers take them."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling

from tests.fakes.nvml.fixtures import nvml_driver, nvml_libraries, nvml_library, pynvml_double
from tests.images.fixtures import alerter_image, exporter_image, image_store
from tests.postgres.fixtures import empty_postgres_url, postgres, postgres_template, postgres_url
from tests.required import root
from tests.soak import Soaked

__all__ = [
    "alerter_image",
    "empty_postgres_url",
    "exporter_image",
    "image_store",
    "nvml_driver",
    "nvml_libraries",
    "nvml_library",
    "postgres",
    "postgres_template",
    "postgres_url",
    "pynvml_double",
    "root",
]

# How long an example takes says how busy the machine is, not whether the code is right.
settings.register_profile("dutycycle", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("dutycycle")

# Hundreds of tests start processes, and with it each of them would compile the whole package again. So would each
# worker the tests, with their assertions: half of what it takes to find them.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

WITH_SLURM = ("tests/cluster/", "tests/slurm/", "tests/e2e/test_kubernetes.py")
WHOLE_STACKS = (
    *WITH_SLURM,
    "tests/e2e/",
    "tests/manifests/compose/test_stack.py",
    "tests/benchmarks/box/test_chain.py",
)
"""Tests of many processes in scaled time: they wait more than they compute, and many at once would slow each other."""

IMAGES = {"exporter_image", "alerter_image"}
MAKERS = ("tests/images/test_running_images.py", "tests/dashboards/answers/test_boards.py")
"""Their first tests make what other files want, too: images, and the data of a day of a fleet."""

WAITING = (
    "tests/exporter/test_faults.py",
    "tests/exporter/test_endurance.py",
    "tests/exporter/test_kubernetes_node.py",
    "tests/exporter/test_reload.py",
)
"""They take minutes and compute for seconds: at the end nothing would be left to be computed meanwhile."""

_MAKES_WAY = 10


def pytest_addoption(parser: pytest.Parser) -> None:
    """What pytest itself does not have."""
    parser.addoption("--resume", action="store_true", help="leave out full-length runs that passed here at this commit")


def pytest_configure(config: pytest.Config) -> None:
    """Full-length runs are kept, unless they are some of many tests or a worker's."""
    alone = config.option.markexpr == "soak" and not hasattr(config, "workerinput")
    config.pluginmanager.register(Soaked(kept=alone, resumed=alone and config.option.resume), "soaked")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest first, or the others would wait for them at the end; what another worker makes is wanted late."""
    root = Path(__file__).parent.parent

    def turn(item: pytest.Item) -> int:
        path = item.path.relative_to(root).as_posix()
        if path.startswith(WHOLE_STACKS):
            return 1 if IMAGES & set(getattr(item, "fixturenames", ())) else 0
        return 2 if path in MAKERS else 3 if path in WAITING else 4

    items.sort(key=turn)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """No garbage is collected while a report parses source: a finalizer whose own trouble is shown parses, too, and
    CPython (3.11 at least) then ends the outer one, and with it all tests, with "AST constructor recursion depth
    mismatch".
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        return (yield)
    finally:
        if collecting:
            gc.enable()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Beside whole stacks, whose time is scaled, all others make way: they only get done later."""
    stacks = item.nodeid.startswith(WHOLE_STACKS)
    if "PYTEST_XDIST_WORKER" in os.environ and not stacks and os.nice(0) < _MAKES_WAY:
        os.nice(_MAKES_WAY)


class _Scheduling(LoadScopeScheduling):  # type: ignore[misc]
    """A file is one worker's. So are all whole stacks with a Slurm, and so are all without."""

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(WITH_SLURM):
            return "whole stacks with a Slurm"
        return "other whole stacks" if nodeid.startswith(WHOLE_STACKS) else str(nodeid.split("::", 1)[0])


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> LoadScopeScheduling:
    """Chosen with `-n`."""
    config.option.loadscopereorder = False
    return _Scheduling(config, log)
