"""Why NVML cannot be read at present, and whether a restart of the whole exporter is what helps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

# Another child does not help. Either the library that this process tree can load does not fit the driver, but another
# mount would; or the children are of another version than this process, whose package was replaced under it.
_NEEDS_RESTART = frozenset({"lib_rm_version_mismatch", "garbled"})
_RESTART_AFTER = 120.0

# How NVML answers in a container that has lost its devices, as after a daemon-reload of systemd: only another container
# has them again. It answers so as well where there never were any, which no restart would change.
_MAY_NEED_RESTART = frozenset({"unknown", "no_permission"})
_MAY_RESTART_AFTER = 300.0


@dataclass(frozen=True, slots=True)
class Loss:
    """There are no snapshots: for which reason (a fixed word), in words, and since when."""

    reason: str
    text: str
    since: float

    def needs_restart(self, now: float, *, time_scale: float, had_devices: Callable[[], bool]) -> str:
        """Why only a restart helps; empty while that is not so. `had_devices` says whether there is, or was, something
        to be read.
        """
        lasted = (now - self.since) * time_scale
        if self.reason in _NEEDS_RESTART and lasted >= _RESTART_AFTER:
            return self.text
        if self.reason in _MAY_NEED_RESTART and lasted >= _MAY_RESTART_AFTER and had_devices():
            return f"{self.text}; this container may have lost its devices: restart it"
        return ""
