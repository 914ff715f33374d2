"""Programs that begin at once, each some time after its port was found, do not meet on one."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from multiprocessing.synchronize import Barrier

from tests.ports import free_port

PROCESSES, EACH = 4, 100
_all_have_found: Barrier


def share(barrier: Barrier) -> None:
    global _all_have_found  # noqa: PLW0603 - as a process of a pool is given what cannot be sent to it
    _all_have_found = barrier


def find(_: int) -> list[int]:
    ports = [free_port() for _ in range(EACH)]
    _all_have_found.wait(60)
    return ports


def test_no_two_processes_find_the_same_port() -> None:
    context = get_context("spawn")
    barrier = context.Barrier(PROCESSES)
    with ProcessPoolExecutor(PROCESSES, context, share, (barrier,)) as pool:
        found = [port for ports in pool.map(find, range(PROCESSES)) for port in ports]
    assert len(set(found)) == len(found) == PROCESSES * EACH
