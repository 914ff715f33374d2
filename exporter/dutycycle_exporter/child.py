"""The NVML child: samples, sends snapshots and XIDs, and does nothing else. It ends where it cannot go on; its parent
starts it again.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

import click

from dutycycle_exporter import allocator
from dutycycle_exporter.collected import DEFAULT, parse_collected
from dutycycle_exporter.elapsed import elapsed
from dutycycle_exporter.errors import ExporterError, NvmlUnavailableError, ReplayError
from dutycycle_exporter.memory import Memory
from dutycycle_exporter.model import DeviceIndex, Snapshot, Unavailable
from dutycycle_exporter.pipe import Message, PipeClosedError, Sender

_PR_SET_PDEATHSIG = 1
_ENDING = (signal.SIGTERM,)


class Reader(Protocol):
    """What gives snapshots: NVML, or a recording."""

    def read(self, now: float, elapsed: float | None = None) -> Snapshot:
        """Everything since the previous call, at `now` (Unix seconds), when `elapsed()` was `elapsed`."""
        ...

    @property
    def poll_interval(self) -> float:
        """Return the wall seconds between two calls of `poll`; infinity where none is needed."""
        ...

    def poll(self, elapsed: float) -> None:
        """Read, between two snapshots, what has no buffer."""
        ...

    def close(self) -> None:
        """Let go of what is held."""
        ...


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent ends, however it ends: a kill -9 leaves nobody to tell us."""
    parent = os.getppid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        # It ended before the kernel was asked.
        os.kill(os.getpid(), signal.SIGKILL)


def run(reader: Reader, pipe: Sender, interval: float) -> None:
    """Read and send every `interval` wall seconds until SIGTERM, which is to be blocked, or until the exporter is gone.
    Raises what the reader raises.
    """
    due = time.monotonic()
    memory = Memory()
    try:
        while True:
            pipe.send(reader.read(time.time(), elapsed()))
            memory.turn()
            # Turns that were missed (a slow call, a paused machine) are not made up for.
            due = max(due + interval, time.monotonic())
            while (left := due - time.monotonic()) > (pause := reader.poll_interval):
                if _told_to_end(within=pause):
                    return
                reader.poll(elapsed())
            if _told_to_end(within=max(0.0, left)):
                return
    except PipeClosedError:
        return


def _told_to_end(*, within: float) -> bool:
    """Whether SIGTERM comes, or has come, within so many wall seconds."""
    taken = signal.sigtimedwait(_ENDING, within)
    # CPython answers with no signal's number, not with None, where a process was stopped or frozen until after that.
    return taken is not None and taken.si_signo in _ENDING


def _collected(context: click.Context, parameter: click.Parameter, value: str | None) -> frozenset[str]:
    try:
        return DEFAULT if value is None else parse_collected(value)
    except ExporterError as error:
        raise click.BadParameter(str(error), context, parameter) from error


@click.command(hidden=True)
@click.option("--fd", type=int, required=True)
@click.option("--interval", type=float, required=True)
@click.option("--time-scale", type=float, required=True)
@click.option("--timeout", type=float, default=20.0)
@click.option("--ask-last", type=(int, int), multiple=True, help="A GPU's index, of so many.")
@click.option("--leave-out", type=(int, int), multiple=True, help="A GPU's index, of so many.")
@click.option("--missing-age", type=float, help="Seconds until a GPU that was never seen is looked for anew.")
@click.option("--collect", callback=_collected, help="Names with commas between them.")
@click.option("--replay", type=click.Path(path_type=Path))
@click.option("--node", default="")
@click.option("--epoch", type=float, default=0.0)
def main(
    fd: int,
    interval: float,
    time_scale: float,
    timeout: float,
    ask_last: tuple[DeviceIndex, ...],
    leave_out: tuple[DeviceIndex, ...],
    missing_age: float | None,
    collect: frozenset[str],
    replay: Path | None,
    node: str,
    epoch: float,
) -> None:
    """Not for people: started by dutycycle-exporter."""
    die_with_parent()
    allocator.settle()
    # Ctrl-C reaches the whole process group; the exporter ends us when it ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # It is taken between two turns, so that no message is cut short; a turn that hangs is ended by SIGKILL.
    signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    pipe = Sender(fd)
    reader: Reader | None = None
    last_words: list[Message] = []
    try:
        if replay is None:
            # Imported where used: a replay needs no pynvml, and sampling no CSV.
            from dutycycle_exporter.nvml import NvmlReader  # noqa: PLC0415
            from dutycycle_exporter.nvml.lost import FIRST_AGE  # noqa: PLC0415

            reader = NvmlReader(
                interval=interval,
                time_scale=time_scale,
                timeout=timeout,
                ask_last=ask_last,
                leave_out=leave_out,
                missing_age=FIRST_AGE if missing_age is None else missing_age,
                collect=collect,
                on_xid=pipe.send,
                on_asking=pipe.send,
            )
        else:
            from dutycycle_exporter.replay import ReplayReader  # noqa: PLC0415

            reader = ReplayReader(replay, node=node, epoch=epoch, time_scale=time_scale)
        run(reader, pipe, interval)
    except NvmlUnavailableError as error:
        # Counts of failures and what was read are told once: they must not go with this process.
        last_words += [] if error.last is None else [error.last]
        last_words.append(Unavailable(time.time(), error.reason, str(error)))
    except ReplayError as error:
        last_words.append(Unavailable(time.time(), "replay", str(error)))
    _report(pipe, last_words)
    if reader is not None:
        # With a GPU off the bus this may never return. All has been said by now.
        reader.close()
    sys.exit(1 if last_words else 0)


def _report(pipe: Sender, messages: Iterable[Message]) -> None:
    try:
        for message in messages:
            pipe.send(message)
    except PipeClosedError:
        return


if __name__ == "__main__":
    main()
