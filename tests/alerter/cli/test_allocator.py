"""However many passes, deliveries and people, `dutycycle serve` has one arena."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.arenas import GLIBC, arenas
from tests.e2e.site import Alerter, wait_for

pytestmark = pytest.mark.skipif(not GLIBC, reason="this C library is not glibc")


def test_after_many_requests_by_several_threads_the_alerter_has_one_arena(tmp_path: Path) -> None:
    alerter = Alerter(["http://127.0.0.1:9/metrics"], tmp_path, 600.0).start()
    try:
        wait_for(lambda: alerter.get("/api/v1/status"), "the page answers", within=180)
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(alerter.get, ["/api/v1/status", "/api/v1/incidents", "/api/v1/fleet"] * 40))
        assert arenas(Path(f"/proc/{alerter.pid}/maps").read_text()) == []
    finally:
        alerter.kill()
