"""When the site's Prometheus had scraped is known after it was emptied, and nothing else of what it knew."""

from __future__ import annotations

import time
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks.chaos import clocks
from benchmarks.chaos import prometheus as module
from benchmarks.chaos.alertmanager import Alertmanager
from benchmarks.chaos.certificates import Authority
from benchmarks.chaos.clocks import SteppedClock
from benchmarks.chaos.prometheus import Prometheus
from tests.e2e.site import wait_for

INTERVAL = 0.2


def scrapes(site: Prometheus) -> list[float]:
    return [at for times in site.scrapes(0.0, time.time()).values() for at in times]


def test_what_it_had_scraped_before_it_was_emptied_is_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A disk of its own needs a mount, and is not what this is about.
    monkeypatch.setattr(module, "SmallDisk", lambda *_: nullcontext(SimpleNamespace()))
    with SteppedClock(tmp_path / "clock", clocks.build(tmp_path)) as clock:
        authority = Authority(tmp_path / "certificates", clock)
        with Alertmanager(tmp_path / "alertmanager", authority) as target:
            address = target.server.url.removeprefix("https://")
            with Prometheus(tmp_path / "prometheus", [address], authority, INTERVAL) as site:
                wait_for(lambda: len(scrapes(site)) > 5, "it scrapes", within=60)
                before, emptied = scrapes(site), time.time()
                site.empty()
                wait_for(lambda: scrapes(site)[-1] > emptied, "it scrapes again", within=60)
                found = scrapes(site)
                assert found[: len(before)] == before
                assert found == sorted(set(found))
                assert site.oldest() > emptied
                site.empty()
                assert scrapes(site)[: len(found)] == found
