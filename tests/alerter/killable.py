"""Alerters in processes of their own, to be killed at any moment. Each is forked from one process that has imported all
it needs, which takes longer than many passes.
"""

from __future__ import annotations

import multiprocessing
import urllib.request
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Self

from dutycycle_alerter.engine import Engine
from dutycycle_alerter.notify.announcing import Announcer
from dutycycle_alerter.settings import Settings
from dutycycle_alerter.sources.scrape import ScrapeSource
from dutycycle_alerter.store.database import open_database
from tests.alerter.killing_itself import killing_itself
from tests.alerter.rig import TIMEOUT

PATIENCE = 240.0
"""Seconds; fewer than any test may take, so that what was waited for is said."""

_NOTIFY = {
    "people": {"address": "{user}@example.org"},
    "owners": {"wasted_gpu_hours": 0},
    "receivers": [
        {"name": "hook", "webhook": {"url": "http://hook.example.org"}},
        {"name": "mail", "email": {"to": ["ops@example.org"]}},
    ],
    "routes": [{"receiver": "hook"}, {"receiver": "mail", "audience": "owner"}],
}


class KillableAlerter:
    """Scrapes and passes, one after the other, at the times that the clock's URL says; a context manager.

    It kills itself when a pass has reached the step.
    """

    def __init__(self, url: str, clock: str, target: str, step: str = "none") -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([__name__])
        self._passes, passes = context.Pipe(duplex=False)
        self._process = context.Process(target=_run, args=(url, clock, target, step, passes), daemon=True)
        self._process.start()
        # Or its end would not be seen.
        passes.close()

    def passed(self) -> float:
        """When the next pass was, once it is done."""
        assert self._passes.poll(PATIENCE), "no pass"
        try:
            return float(self._passes.recv())
        except EOFError:
            raise AssertionError("the alerter ended by itself") from None

    def kill(self) -> None:
        """-9."""
        self._process.kill()

    def wait(self) -> int | None:
        """How it ended: the negative number of a signal."""
        self._process.join(PATIENCE)
        return self._process.exitcode

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        self._process.join()
        self._passes.close()


def _run(url: str, clock: str, target: str, step: str, passes: Connection) -> None:
    def asked() -> float:
        return float(urllib.request.urlopen(clock).read())

    now = asked()
    data = {"source": {"targets": [target], "interval": "1m", "timeout": TIMEOUT}, "notify": _NOTIFY}
    settings = Settings.model_validate(data).scaled()
    database = open_database(url, time_scale=1)
    source = ScrapeSource(settings, database, lambda: now)
    announcer = Announcer(settings, database)
    announcer.begin(now)
    engine = Engine(settings, source, database, lambda: now, announce=announcer.announce, reached=killing_itself(step))
    source.restore()
    while True:
        now = asked()
        source.scrape()
        engine.run_pass()
        passes.send(now)
