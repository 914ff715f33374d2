"""However many threads scrape, the exporter and its child have one arena each."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.arenas import GLIBC, arenas
from tests.exporter.daemon import Daemon, eventually

pytestmark = pytest.mark.skipif(not GLIBC, reason="this C library is not glibc")


THREADS = """
import sys, threading
from dutycycle_exporter import allocator
if sys.argv[1] == "settled":
    allocator.settle()
together = threading.Barrier(8)
def work():
    together.wait()
    kept = [b"x" * 2000 for _ in range(1000)]
    together.wait()
threads = [threading.Thread(target=work) for _ in range(7)]
for thread in threads: thread.start()
together.wait()
together.wait()
print(open("/proc/self/maps").read())
"""


@pytest.mark.parametrize("settled", ["settled", "as it is"])
def test_threads_share_one_arena_where_it_is_settled(settled):
    """And would have others, or the next test looked for nothing."""
    command = [sys.executable, "-c", THREADS, settled]
    maps = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    assert bool(arenas(maps)) == (settled != "settled")


def test_after_many_scrapes_by_several_threads_the_exporter_and_its_child_have_one_arena(nvml_driver, tmp_path):
    driver = nvml_driver()
    for _ in range(8):
        driver.add_gpu()
    with Daemon(tmp_path, driver.start().environment, "--sample-interval=100ms") as daemon:
        eventually(lambda: daemon.values("gpu_utilization_ratio"))
        with ThreadPoolExecutor(8) as pool:
            statuses = [status for status, _ in pool.map(daemon.get, ["/metrics"] * 200)]
        assert statuses.count(200) > 100
        for pid in (daemon.process.pid, daemon.child()):
            assert arenas(Path(f"/proc/{pid}/maps").read_text()) == []
