"""What processes cost: CPU time to the nanosecond, memory, and the time of a scrape."""

from __future__ import annotations

import gzip
import http.client
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_CPUCLOCK_SCHED = 2


def cpu_seconds(pid: int) -> float:
    """CPU time of a process so far, of threads that have ended too: its POSIX CPU-time clock."""
    return time.clock_gettime((~pid << 3) | _CPUCLOCK_SCHED)


@dataclass(frozen=True)
class Memory:
    """Megabytes of some processes together.

    `pss` divides what is shared among all that share it, whoever they are: other Python programs on the machine make
    it smaller. `alone` is what it would be without any others: what they share with each other counts once.
    """

    resident: float
    pss: float
    alone: float


def memory(pids: Iterable[int]) -> Memory:
    resident = pss = 0
    files: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
    for pid in pids:
        lines = Path(f"/proc/{pid}/smaps").read_text().splitlines()
        mapping: tuple[str, ...] = ()
        for line in lines:
            field, _, rest = line.partition(":")
            if " " in field:
                # 7f..-7f.. r-xp OFFSET DEVICE INODE PATH: without a file it is this process's alone.
                address, _, offset, device, inode, *_ = line.split()
                mapping = (offset, device, inode) if inode != "0" else (str(pid), address)
            elif field == "Rss":
                shared = int(rest.split()[0])
                resident += shared
            elif field == "Pss":
                pss += int(rest.split()[0])
            elif field == "Anonymous":
                # Pages of a file that were written to are private again.
                own = int(rest.split()[0])
                files[(*mapping, str(pid))].append(own)
                files[mapping].append(shared - own)
    alone = sum(max(sizes) for sizes in files.values())
    return Memory(*(kilobytes * 1024 / 1e6 for kilobytes in (resident, pss, alone)))


@dataclass(frozen=True)
class Scrape:
    """One scrape: `seconds` as its client sees them, `cpu` seconds of the process that answers, over `window` seconds
    of time, `size` in bytes, and how many series there were.
    """

    seconds: float
    cpu: float
    window: float
    size: int
    series: int


_SETTLE = 0.003
"""Seconds after an answer in which what the server still has to do for it is done."""


def scrape(port: int, pid: int, *, packed: bool = False) -> Scrape:
    """Over a connection of its own. `packed`: as Prometheus asks, with gzip."""
    cpu, start = cpu_seconds(pid), time.perf_counter()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", "/metrics", headers={"Accept-Encoding": "gzip" if packed else "identity"})
        response = connection.getresponse()
        body = response.read()
    finally:
        connection.close()
    seconds = time.perf_counter() - start
    time.sleep(_SETTLE)
    used, window = cpu_seconds(pid) - cpu, time.perf_counter() - start
    page = gzip.decompress(body) if packed else body
    assert response.status == 200
    assert page.startswith(b"# HELP")
    series = sum(not line.startswith(b"#") for line in page.splitlines())
    return Scrape(seconds, used, window, len(body), series)
