"""Makes the jobs' courses ahead of their starts, one at a time, and gives them to the processes of their nodes."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from multiprocessing.connection import Connection

from ..clock import Clock
from ..model import Job, Phase
from .protocol import Fed

AHEAD = 20.0
"""Wall seconds before a job's start at which its course is made."""

Courses = Callable[[Job], tuple[Phase, ...]]


def feed(
    jobs: Iterable[Job],
    courses: Courses,
    time_scale: float,
    control: Connection,
    feeds: Iterable[tuple[Iterable[str], Connection]],
) -> None:
    """Runs in a process of its own, or in a thread where `courses` cannot be sent to one. `feeds` are by nodes.

    What begins with the scenario is made first; then it says that over `control`, and is told the clock.
    """
    if threading.current_thread() is threading.main_thread():
        # Ctrl-C is the parent's to answer.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    by_node: Mapping[str, Connection] = {name: connection for names, connection in feeds for name in names}
    ordered = sorted(jobs, key=lambda job: (job.start, job.number))
    first = [job for job in ordered if job.start < AHEAD * time_scale]
    made = [Fed(job, courses(job)) for job in first]
    control.send(len(made))
    clock = control.recv()
    try:
        if isinstance(clock, Clock):
            for fed in made:
                _send(fed, by_node)
            del made
            for job in ordered[len(first) :]:
                pause = clock.wall(job.start) - AHEAD - time.time()
                if control.poll(max(0.0, pause)):
                    return
                _send(Fed(job, courses(job)), by_node)
    except (BrokenPipeError, ConnectionResetError):
        return
    finally:
        for connection in set(by_node.values()):
            try:
                connection.send(None)
            except OSError:
                continue


def _send(fed: Fed, by_node: Mapping[str, Connection]) -> None:
    for connection in {id(one): one for node in fed.job.nodes if (one := by_node.get(node)) is not None}.values():
        connection.send(fed)
