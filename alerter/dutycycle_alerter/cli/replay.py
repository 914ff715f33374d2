"""A recording played by exporters, one for each of its nodes, in step and over and over."""

from __future__ import annotations

import time
from pathlib import Path

from dutycycle_alerter.cli.exporters import exporter_command
from dutycycle_alerter.errors import AlerterError, RecordingError
from dutycycle_alerter.recordings import is_log, load

_MOST_NODES = 16
_START_UP = 1.0
"""Wall seconds that the exporters have to start before the recording does."""
_REST = 600.0
"""Recorded seconds between the end and the next beginning: jobs end, and are seen to have ended."""


class Replay:
    """Which commands play a recording at present. All exporters count from one instant, also one started again."""

    def __init__(self, recording: Path, speed: float) -> None:
        """Raises RecordingError, and AlerterError for a recording of more nodes than one machine should play."""
        self.speed = speed
        self._file = recording
        if is_log(recording):
            raise RecordingError(
                f"{recording}: a log of nvidia-smi; --replay plays only recordings, as `dutycycle record` writes them. "
                f"`dutycycle analyze {recording}` reads such a log"
            )
        content = load([recording])
        self._nodes = sorted(content.texts["node"].names)
        if len(self._nodes) > _MOST_NODES:
            raise AlerterError(
                f"{recording}: {len(self._nodes)} nodes; up plays at most {_MOST_NODES}, one exporter each"
            )
        self._length = float(content.t.max() - content.t.min()) if len(content) else 0.0
        self.begin(time.time())

    def begin(self, now: float) -> None:
        """Play from the beginning."""
        self._epoch = now + _START_UP

    def over(self, now: float) -> bool:
        """Whether the recording has ended, and a rest after it."""
        return now >= self._epoch + (self._length + _REST) / self.speed

    def commands(self) -> list[list[str]]:
        """One exporter's command for each node."""
        return [
            exporter_command(
                "--log-level=warning",
                f"--replay={self._file}",
                f"--replay.node={node}",
                f"--replay.epoch={self._epoch:.3f}",
                f"--time-scale={self.speed:g}",
                f"--node-name={node}",
            )
            for node in self._nodes
        ]
