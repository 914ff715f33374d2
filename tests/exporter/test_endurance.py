"""Over a long life, with another owner on every GPU at every scrape, the exporter does not grow.

Every scrape has other owners in `churn`: the exporter's parts in a process of its own, with snapshots that are made up.
The exporter as it is, with its child, is scraped over HTTP, and jobs come and go as fast as it takes snapshots.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.exporter.churn import workloads
from tests.exporter.daemon import Daemon, eventually
from tests.fakes.node import FakeNode

ROOT = Path(__file__).parents[2]
LEAK = 1_000
"""Bytes an owner that the exporter or its child may have grown by in the short run, of those owners that count."""
ALL = 2_000_000
"""Bytes that they may have grown by in the long one: what comes and goes, and what the allocator scatters."""
OWNERS = 3
HELD = 4
"""Workloads per GPU that may have series at once: the present one, one that was missed once, those that are held."""


@dataclass(frozen=True)
class Mark:
    scrapes: int
    resident: int
    blocks: int
    workloads: int


def run_churn(scrapes: int) -> list[Mark]:
    command = [sys.executable, "-m", "tests.exporter.churn", str(scrapes)]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return [Mark(*map(int, line.split())) for line in done.stdout.splitlines()]


@pytest.mark.parametrize(
    ("scrapes", "settled", "memory", "blocks"),
    [
        pytest.param(1_600, 1_100, 500_000, 250, marks=pytest.mark.timeout(900)),
        pytest.param(200_000, 5_000, ALL, 1_000, marks=pytest.mark.soak, id="soak"),
    ],
)
def test_with_new_owners_at_every_scrape_memory_stays_and_ended_owners_go(
    scrapes, settled, memory, blocks, record_property
):
    """Resident memory comes and goes: its height counts. Of what lives one could not leak a number: half a block a
    scrape is found in a short run. It is settled once as many users have come as are remembered: 1,024.
    """
    *marks, end = run_churn(scrapes)
    before, after = ([mark for mark in marks if (mark.scrapes > settled) is late] for late in (False, True))
    highest = [max(mark.resident for mark in marks) / 1e6 for marks in (before, after)]
    record_property("figure", f"at most {highest[0]:.1f} MB in {settled} scrapes, {highest[1]:.1f} MB in {scrapes}")
    assert max(mark.resident for mark in after) - max(mark.resident for mark in before) < memory
    assert max(mark.blocks for mark in after) - max(mark.blocks for mark in before) < blocks
    assert all(OWNERS <= mark.workloads <= OWNERS * HELD for mark in marks)
    assert end.workloads == 0


@pytest.mark.parametrize(
    ("owners", "settled", "grown"),
    [
        pytest.param(3_000, 1_500, 1_500 * LEAK, marks=pytest.mark.timeout(900)),
        pytest.param(40_000, 5_000, ALL, marks=pytest.mark.soak, id="soak"),
    ],
)
def test_the_exporter_and_its_child_stay_as_big_as_they_are(
    nvml_libraries, tmp_path, owners, settled, grown, record_property
):
    """Of the pages one in four is looked at: that costs as much as to make them. Of each time the height counts.

    How many snapshots are taken between two scrapes is the machine's pace; so owners are counted, of which each is in a
    snapshot. It is settled as in the other test: once more users have come than are remembered.
    """
    with FakeNode(tmp_path / "node", nvml_libraries, gpus=4) as node:
        paths = [f"--path.{name}={path}" for name, path in node.start().paths.items()]
        flags = ("--sample-interval=50ms", "--series-hold=50ms", "--collect.processes")
        with Daemon(tmp_path, node.environment, *paths, *flags) as daemon:
            pids = (daemon.process.pid, eventually(daemon.child, "the child runs"))
            files = [Prolog(tmp_path / "prolog", gpu.uuid) for gpu in node.driver.gpus]
            before, after = [0, 0], [0, 0]
            seen: set[str] = set()
            scrapes = 0
            while len(seen) < owners:
                scrapes += 1
                assert scrapes <= 20 * owners, "owners change"
                for gpu, file in enumerate(files):
                    file.allocate(len(files) * scrapes + gpu)
                status, page = daemon.get("/metrics")
                assert status == 200
                if scrapes % 4 == 0:
                    seen |= workloads(page)
                    highest = before if len(seen) <= settled else after
                    highest[:] = map(max, highest, map(resident, pids))
            sizes = [f"{then / 1e6:.2f} to {later / 1e6:.2f} MB" for then, later in zip(before, after, strict=True)]
            record_property("figure", f"{owners} owners, {scrapes} scrapes: exporter {sizes[0]}, its child {sizes[1]}")
            assert all(later - then < grown for then, later in zip(before, after, strict=True)), (before, after)
            for file in files:
                file.release()
            eventually(lambda: not workloads(daemon.get("/metrics")[1]), "series of ended owners go")


class Prolog:
    """A GPU's prolog file."""

    def __init__(self, directory: Path, uuid: str) -> None:
        directory.mkdir(mode=0o755, exist_ok=True)
        self._path = directory / f"{uuid}.json"

    def allocate(self, job: int) -> None:
        """To another job, at one blow."""
        aside = self._path.with_name(f".{self._path.name}.new")
        aside.write_text(json.dumps({"job_id": job, "uid": job, "user": f"user{job}"}))
        aside.chmod(0o644)
        aside.rename(self._path)

    def release(self) -> None:
        self._path.unlink()


def resident(pid: int) -> int:
    """Bytes of a process in memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
