"""Keeps an NVML child alive: starts it, takes its messages, kills it when it hangs, starts the next with a pause.

Replacing the child is the one recovery for a call that never returns, a driver that is reloaded and a library that no
longer fits the driver. Nothing that serves `/metrics` waits for it. On demand there is no child for a while, so that
the driver, which a child keeps open, can be unloaded.
"""

from __future__ import annotations

import logging
import os
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from typing import Literal

from dutycycle_exporter.driver import Driver
from dutycycle_exporter.heartbeat import Heartbeat
from dutycycle_exporter.hung import HungGpus
from dutycycle_exporter.listening import START_UP, Listener
from dutycycle_exporter.lost_gpus import LookingForLost
from dutycycle_exporter.model import Snapshot, Xid

log = logging.getLogger(__name__)

_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 30.0
_END_WITHIN = 1.0
"""Seconds that a child has, from when it is asked to end, for the turn that it is in."""
_REAP_WITHIN = 5.0
_MOST_STUCK = 3
"""Children that hang where they cannot be killed, beyond which no other is started: it would hang as they do. Those
at a GPU that is left out do not count.
"""
_DRIVER_LOOK = 1.0
"""Seconds between looks for the driver while NVML is released."""
_LONGEST_REST = 5.0
"""Seconds of a pause after which it is told that there is no snapshot."""
_STANDSTILL = 300.0
"""Seconds beyond those that a child may be silent, after which a thread that did nothing will do nothing any more."""


class Supervisor:
    """Runs on a thread of its own, on which it calls `on_snapshot`, `on_xid`, `on_loss(reason, text)` and, now and then
    while there is no snapshot, `on_silence`.

    `command` is the child's, which is told by `--fd` where to write its messages, and before that by `--ask-last` and
    `--leave-out` of GPUs at which others hung.
    `silence` is how many wall seconds may pass between two messages before the child counts as hanging. `driver` tells
    which driver the kernel has, and `release_timeout` for how many wall seconds NVML stays released at most.
    `time_scale` divides for how long a GPU is left out.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        silence: float,
        on_snapshot: Callable[[Snapshot], None],
        on_xid: Callable[[Xid], None],
        on_silence: Callable[[], None],
        on_loss: Callable[[str, str], None],
        driver: Callable[[], Driver | None] = lambda: None,
        release_timeout: float = 600.0,
        time_scale: float = 1.0,
    ) -> None:
        self._command = list(command)
        self._silence = silence
        self._driver = driver
        self._release_timeout = release_timeout
        self._lock = threading.Lock()
        self._order: Literal["", "release", "replace", "resume"] = ""
        """What was asked for and is not done yet; guarded by the lock, as the command is."""
        self._released = False
        self._wake = threading.Event()
        self._on_silence = on_silence
        self._on_loss = on_loss
        self._stop = threading.Event()
        self._looking = LookingForLost()

        def seen(snapshot: Snapshot) -> None:
            self._looking.shown(snapshot)
            on_snapshot(snapshot)

        self._listener = Listener(self._tell, on_snapshot=seen, on_xid=on_xid, on_silence=on_silence)
        self._hung = HungGpus(driver, time_scale=time_scale)
        self._heart = Heartbeat()
        self._pause = _FIRST_PAUSE
        self._waits = False
        """Whether it has been told that no child is started."""
        self._process: subprocess.Popen[bytes] | None = None
        self._hurried: subprocess.Popen[bytes] | None = None
        """The one that was told to end, and its killer waits for it; guarded by the lock, as the killer is."""
        self._killer: threading.Timer | None = None
        self._stuck: list[subprocess.Popen[bytes]] = []
        # PR_SET_PDEATHSIG acts when the thread that forked ends: this one lives as long as the exporter.
        self._thread = threading.Thread(target=self._run, name="supervisor", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End the child and the thread."""
        self._stop.set()
        self._wake.set()
        if self._process is not None:
            self._process.kill()
        if self._thread.ident is not None:
            self._thread.join()

    def standstill(self) -> str:
        """Why nothing is read ever again unless the exporter is restarted; empty while that is not so. From any
        thread.
        """
        if self._thread.ident is None or self._stop.is_set():
            return ""
        if not self._thread.is_alive():
            return "the thread that reads from NVML's child has ended: restart the exporter, its log says why"
        age = self._heart.age
        if age < self._silence + START_UP + _STANDSTILL:
            return ""
        return f"the thread that reads from NVML's child has stood still for {age:.0f} s: restart the exporter"

    def release(self) -> None:
        """End the child, and start no other until the driver has gone and come back, `release_timeout` has passed, or
        this is called again. From any thread.
        """
        with self._lock:
            self._order = "resume" if self._released or self._order == "release" else "release"
        self._hurry()

    def replace(self, command: Sequence[str], *, silence: float, release_timeout: float) -> None:
        """Go on with a child of another command, as in the constructor, from now on. From any thread."""
        with self._lock:
            self._silence, self._release_timeout = silence, release_timeout
            if self._command == list(command):
                return
            self._command = list(command)
            if self._released or self._order == "release":
                return
            self._order = "replace"
        self._hurry()

    def _hurry(self) -> None:
        """Have the thread look at its order now, and the child end after the turn that it is in: what it has found is
        told. One that hangs in it is killed.
        """
        self._wake.set()
        with self._lock:
            process = self._process if self._order in ("release", "replace") else None
            if process is None or process is self._hurried:
                return
            process.terminate()
            if self._killer is not None:
                # The one before has been ended. However many orders come, one thread waits.
                self._killer.cancel()
            self._killer = threading.Timer(_END_WITHIN, process.kill)
            self._killer.daemon = True
            try:
                self._killer.start()
            except RuntimeError:
                # The system has no thread for it, so nobody would notice that the turn takes too long.
                process.kill()
            self._hurried = process

    def _taken(self) -> str:
        """The order, which is done with that."""
        with self._lock:
            order, self._order = self._order, ""
            self._wake.clear()
            self._released = order == "release"
            if self._stop.is_set():
                self._wake.set()
        return order

    def _run(self) -> None:
        while not self._stop.is_set():
            self._heart.beat()
            try:
                self._one_round()
            except Exception:
                # Short memory, or a defect of ours: without this thread nothing would be read ever again.
                log.exception("the NVML child could not be supervised")
                self._lose("exit", "the NVML child was ended, as it could not be supervised")
                self._lengthen_pause()
            self._rest(self._pause)

    def _one_round(self) -> None:
        """A child, a release, or neither; sets the pause that follows."""
        if self._taken() == "release":
            self._stay_released()
            self._pause = 0.0
            return
        self._stuck = [process for process in self._stuck if process.poll() is None]
        if sum(not self._hung.explains(process) for process in self._stuck) < _MOST_STUCK:
            self._waits = False
            if self._one_child():
                self._pause = _FIRST_PAUSE
            else:
                self._lengthen_pause()
            return
        if not self._waits:
            self._waits = True
            self._lose("stuck", f"{_MOST_STUCK} NVML children hang inside the driver; no other is started meanwhile")
        self._pause = _LONGEST_PAUSE

    def _lengthen_pause(self) -> None:
        self._pause = min(max(2 * self._pause, _FIRST_PAUSE), _LONGEST_PAUSE)

    def _rest(self, seconds: float) -> None:
        """Wait, unless there is something to be done. Jobs begin and end meanwhile."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0 and not self._wake.wait(min(left, _LONGEST_REST)):
            self._tell(self._on_silence)

    def _stay_released(self) -> None:
        """Wait, without a child, until the driver has been exchanged or that has taken too long."""
        before = self._driver()
        gone = before is None
        deadline = time.monotonic() + self._release_timeout
        self._lose(
            "released",
            "NVML is released, so that the driver can be unloaded; it is read again when the driver comes back, "
            f"at another SIGUSR1, or after {self._release_timeout:g} s",
        )
        why = "the release timeout has passed"
        while not self._stop.is_set() and time.monotonic() < deadline:
            if self._order == "resume":
                why = "it was asked for"
                break
            now = self._driver()
            if now is not None and (gone or now != before):
                why = "the driver came back"
                break
            gone = gone or now is None
            self._tell(self._on_silence)
            self._wake.wait(min(_DRIVER_LOOK, max(0.0, deadline - time.monotonic())))
            # What it was set for is looked at next; left set, it would let no later wait rest.
            self._wake.clear()
        # Whoever asked for that may have repaired a GPU meanwhile.
        self._hung.forget()
        log.info("NVML is taken up again: %s", why)

    def _one_child(self) -> bool:
        """From the start of a child to its end; whether it ever gave a snapshot."""
        try:
            process, pipe = self._start_child()
        except OSError as error:
            self._lose("start", f"the NVML child cannot be started: {error}")
            return False
        try:
            heard, reason, text = self._listener.listen(pipe, lambda: self._silence, self._hung.turn)
        finally:
            self._end(process)
            self._listener.hear_out(pipe)
            os.close(pipe)
        if reason == "gpu_lost":
            self._looking.gave_way()
        if reason == "hang":
            self._hung.note(self._listener.asked, process, silence=self._silence)
        if self._order == "replace":
            self._lose("reload", "the NVML child was ended to start another with the new configuration")
        elif self._order != "release" and reason:
            self._lose(reason, text or f"the NVML child {_ending(process.returncode)}")
        return heard

    def _start_child(self) -> tuple[subprocess.Popen[bytes], int]:
        """A child, and the end of its pipe that we read. Raises OSError."""
        read_end, write_end = os.pipe()
        try:
            with self._lock:
                command = [*self._command, *self._hung.arguments(), *self._looking.arguments(), f"--fd={write_end}"]
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[write_end])
        except OSError:
            os.close(read_end)
            raise
        finally:
            os.close(write_end)
        if self._stop.is_set() or self._order in ("release", "replace"):
            # Who ordered that may have looked for a process a moment ago, when there was none.
            self._process.kill()
        return self._process, read_end

    def _tell(self, callback: Callable[..., None], *arguments: object) -> None:
        """A defect of ours in one call must not end the sampling; the trace says where it is."""
        try:
            callback(*arguments)
        except Exception:
            log.exception("what the NVML child told could not be processed")
        self._heart.beat()

    def _lose(self, reason: str, text: str) -> None:
        if not self._stop.is_set():
            self._tell(self._on_loss, reason, text)

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        process.kill()
        try:
            process.wait(_REAP_WITHIN)
        except subprocess.TimeoutExpired:
            # In an uninterruptible call of the driver: it goes when that call does. The next child may fare better.
            self._stuck.append(process)
            log.warning("the NVML child %d cannot be killed; it hangs inside the driver", process.pid)


def _ending(status: int | None) -> str:
    if status is None:
        return "hangs inside the driver"
    return f"ended with status {status}" if status >= 0 else f"was killed by signal {-status}"
