"""The configuration in force, and its exchange while the exporter runs."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass

from dutycycle_exporter.errors import ExporterError
from dutycycle_exporter.options import flag
from dutycycle_exporter.settings import FIXED, Settings, changed, reloaded

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ReloadState:
    """Whether the last reload worked, and when the last one that did was (Unix seconds)."""

    successful: bool
    at: float


class Configuration:
    """Holds the settings. `read` reads them anew, `apply` puts them in force; both raise ExporterError. `apply` returns
    the sections of the web configuration that changed.

    What cannot be read, or not be applied, changes nothing: the settings before go on, the log says why, and `state`
    tells it to the metrics.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        read: Callable[[], Settings],
        apply: Callable[[Settings], Collection[str]],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.settings = settings
        self._read = read
        self._apply = apply
        self._clock = clock
        self.state = ReloadState(successful=True, at=clock())

    def reload(self) -> None:
        """Read everything again, and change what can be changed. Never raises."""
        try:
            found = self._read()
            after = reloaded(self.settings, found)
            web = self._apply(after)
        except ExporterError as error:
            self.state = ReloadState(successful=False, at=self.state.at)
            # A person's mistake has no trace worth showing.
            log.error("the configuration was not reloaded, what held before goes on: %s", error)  # noqa: TRY400
            return
        except Exception:
            # A defect of ours must not end the exporter here.
            self.state = ReloadState(successful=False, at=self.state.at)
            log.exception("the configuration was not reloaded")
            return
        fixed = changed(self.settings, found) & FIXED
        if fixed:
            log.warning("only a restart changes %s", ", ".join(sorted(map(flag, fixed))))
        new = sorted(map(flag, changed(self.settings, after)))
        if web:
            new.append(f"{flag('web_config')} ({', '.join(web)})")
        log.info("the configuration was reloaded; changed: %s", ", ".join(new) or "nothing")
        self.settings = after
        self.state = ReloadState(successful=True, at=self._clock())
