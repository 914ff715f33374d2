"""Hears one NVML child out: takes its messages until there is a reason for another child."""

from __future__ import annotations

import time
from collections.abc import Callable

from dutycycle_exporter.model import Asking, DeviceIndex, Returned, Snapshot, Unavailable, Xid
from dutycycle_exporter.pipe import Message, PipeBrokenError, PipeClosedError, PipeSilentError, receive, wait

_LOOKS = 4
"""How often a child is looked for within the time that it may be silent."""
START_UP = 60.0
"""Seconds more that the first message may take. Without persistence mode NVML brings up every GPU when it begins."""
_WAIT = 1.0
"""Seconds of a wait at most."""
STOOD_STILL = 1.0
"""Seconds after the end of a wait at which this process was not late, but did not run: it was stopped or frozen."""
SUSPECTED = 600.0
"""Wall seconds, at any time scale, for which a GPU is suspected at which a child hung."""


class Listener:
    """Tells of snapshots and XIDs as they come and, now and then while there is no snapshot, of silence.

    `tell(callback, *arguments)` makes each of these calls, and raises nothing that they raise.
    """

    def __init__(
        self,
        tell: Callable[..., None],
        *,
        on_snapshot: Callable[[Snapshot], None],
        on_xid: Callable[[Xid], None],
        on_silence: Callable[[], None],
    ) -> None:
        self._tell = tell
        self._on_snapshot = on_snapshot
        self._on_xid = on_xid
        self._on_silence = on_silence
        self.asked: Asking | None = None
        """The GPU about which the child makes calls, as far as it told; None where they are about no GPU."""
        self._look_at = 0.0
        """When to say next that there is no snapshot yet (time.monotonic())."""
        self._deadline = 0.0
        """When there has to be one, by the same clock."""

    def listen(
        self, pipe: int, silence: Callable[[], float], enough: Callable[[set[DeviceIndex]], bool]
    ) -> tuple[bool, str, str]:
        """Take messages until there is a reason for another child: (whether there was a snapshot, reason, text).

        `silence` is how many wall seconds may pass now from one snapshot to the next. `enough` is told after each
        snapshot which GPUs have returned from calls, and tells whether to go on with another child: then there is no
        reason.
        """
        heard, self.asked = False, None
        asked: set[DeviceIndex] = set()
        within = silence() + START_UP
        self._rest(within, silence())
        while True:
            try:
                message = self._receive(pipe, silence())
            except PipeSilentError:
                where = "" if self.asked is None else f" in calls about GPU {self.asked.gpu[0]}"
                return heard, "hang", f"the NVML child was silent for {within:g} s{where} and was killed"
            except PipeClosedError:
                return heard, "exit", ""
            except PipeBrokenError as error:
                return heard, "garbled", str(error)
            if isinstance(message, Unavailable):
                return heard, message.reason, message.text
            if isinstance(message, Asking):
                if message.anew or (self.asked is not None and self.asked.anew):
                    # NVML brings it up, for which a turn has no time; and then begins to read it.
                    within = silence() + (START_UP if message.anew else 0.0)
                    self._rest(within, silence())
                self.asked = message
                asked.add(message.gpu)
                continue
            if isinstance(message, Returned):
                self.asked = None
                continue
            if isinstance(message, Xid):
                # Another thread's: what reads the GPUs may hang all the same, and has no more time for it.
                self._tell(self._on_xid, message)
                continue
            heard, self.asked = True, None
            self._tell(self._on_snapshot, message)
            if enough(asked):
                return heard, "", ""
            within = silence()
            self._rest(within, within)

    def hear_out(self, pipe: int) -> None:
        """What the child's other thread had to say while it was ended."""
        try:
            while True:
                message = receive(pipe, within=0.0)
                if isinstance(message, Xid):
                    self._tell(self._on_xid, message)
        except PipeBrokenError:
            return

    def _rest(self, within: float, silence: float) -> None:
        """Set the deadline of the next snapshot; it is missed for the first time after a part of that."""
        now = time.monotonic()
        self._look_at = now + silence / _LOOKS
        self._deadline = now + within

    def _receive(self, pipe: int, silence: float) -> Message:
        """As `receive` does, and says now and then that there is no snapshot yet, whatever else there is."""
        while True:
            began = time.monotonic()
            # For a second at most: of a longer wait it would not be known when in it this process was stopped.
            until = min(self._look_at, self._deadline, began + _WAIT)
            found = wait(pipe, until - began)
            now = time.monotonic()
            if (late := now - max(began, until)) > STOOD_STILL:
                # So may the child have, and what it wrote since waits in the pipe: that was not its silence.
                self._deadline += late
            if now >= self._deadline:
                return receive(pipe, within=0.0)
            if now >= self._look_at:
                self._look_at = now + silence / _LOOKS
                self._tell(self._on_silence)
            if found:
                return receive(pipe, within=self._deadline - now)
