"""A child that was told to stop is looked for until it stands."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from types import SimpleNamespace
from typing import cast

import pytest

from benchmarks.chaos import probes
from benchmarks.chaos.faults import processes
from benchmarks.chaos.site import Site
from tests.exporter.daemon import eventually


@pytest.fixture
def child() -> Iterator[int]:
    process = subprocess.Popen(["sleep", "60"])
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()


def a_site(pid: int) -> Site:
    exporter = SimpleNamespace(children=lambda: [pid])
    return cast("Site", SimpleNamespace(machines={"n1": SimpleNamespace(exporter=exporter)}))


def test_one_that_stands_a_moment_later_was_paused(child: int, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = iter([False, False])
    really = probes.stopped

    def late(pid: int) -> bool:
        return next(looks, None) is None and really(pid)

    monkeypatch.setattr(probes, "stopped", late)
    fault, site = processes.ReaderPaused("n1"), a_site(child)
    fault.begin(site)
    assert fault.in_force(site)
    assert really(child)
    fault.end(site)
    eventually(lambda: not really(child), "it goes on")


def test_one_that_never_stands_was_not(child: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "stopped", lambda _: False)
    monkeypatch.setattr(processes, "_UNTIL_IT_STANDS", 0.05)
    fault, site = processes.ReaderPaused("n1"), a_site(child)
    fault.begin(site)
    assert not fault.in_force(site)
