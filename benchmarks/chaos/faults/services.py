"""Prometheus, PostgreSQL and Alertmanager, killed, paused, restarted and emptied."""

from __future__ import annotations

import random
import time
from dataclasses import replace
from typing import Self

from .. import probes
from ..happened import EVERY_NODE, Effects
from ..site import Site
from .base import Fault


class PrometheusKilled(Fault):
    """Prometheus is killed (kill -9), and started again with its data."""

    name = "prometheus-killed"
    touches = frozenset({"prometheus"})
    effects = Effects(blinds=frozenset({EVERY_NODE}), says=frozenset({"source:prometheus"}))

    @classmethod
    def draw(cls, chance: random.Random) -> Self:  # noqa: ARG003 - there is one way
        return cls()

    def begin(self, site: Site) -> None:
        site.prometheus.server.kill()

    def in_force(self, site: Site) -> bool | None:
        return site.prometheus.server.ended()

    def end(self, site: Site) -> None:
        site.prometheus.server.start()


class PrometheusPaused(PrometheusKilled):
    """Prometheus is stopped (SIGSTOP), and goes on: it accepts connections, and neither answers nor scrapes."""

    name = "prometheus-paused"

    def begin(self, site: Site) -> None:
        site.prometheus.server.freeze()

    def in_force(self, site: Site) -> bool | None:
        return probes.stopped(site.prometheus.server.pid)

    def end(self, site: Site) -> None:
        site.prometheus.server.thaw()


class PrometheusEmptied(PrometheusKilled):
    """Prometheus loses all that it knew, and goes on scraping: it answers every question, at first with nothing."""

    name = "prometheus-emptied"
    lasts = (3.0, 4.0)
    effects = replace(PrometheusKilled.effects, says=frozenset(), loses=True)

    def begin(self, site: Site) -> None:
        self._began = time.time()
        site.prometheus.empty()

    def in_force(self, site: Site) -> bool | None:
        return site.prometheus.oldest() > self._began

    def end(self, site: Site) -> None:
        """What it lost is lost."""


class DatabaseKilled(Fault):
    """PostgreSQL is killed with all its processes (kill -9), and recovers from its log when it is over."""

    name = "database-killed"
    touches = frozenset({"database"})
    effects = Effects(halts=frozenset({"evaluation", "database"}), says=frozenset({"store:"}))

    @classmethod
    def draw(cls, chance: random.Random) -> Self:  # noqa: ARG003 - there is one way
        return cls()

    def begin(self, site: Site) -> None:
        site.database.kill()

    def in_force(self, site: Site) -> bool | None:
        return site.database.ended()

    def end(self, site: Site) -> None:
        site.database.start()


class DatabasePaused(DatabaseKilled):
    """PostgreSQL and its processes are stopped (SIGSTOP), and go on: connections stand, and nothing is answered."""

    name = "database-paused"
    effects = replace(DatabaseKilled.effects, says=frozenset())

    def begin(self, site: Site) -> None:
        site.database.server.freeze()

    def in_force(self, site: Site) -> bool | None:
        return probes.stopped(site.database.server.pid)

    def end(self, site: Site) -> None:
        site.database.server.thaw()


class DatabaseRestarted(DatabaseKilled):
    """PostgreSQL is restarted as for an upgrade: connections are ended."""

    name = "database-restarted"
    lasts = (3.0, 4.0)
    effects = replace(DatabaseKilled.effects, says=frozenset())

    def begin(self, site: Site) -> None:
        self._before = site.database.server.pid
        site.database.restart()

    def in_force(self, site: Site) -> bool | None:
        return site.database.server.pid != self._before

    def end(self, site: Site) -> None:
        """It is back already."""


class AlertmanagerKilled(Fault):
    """Alertmanager is killed (kill -9), and started again: it has lost every alert."""

    name = "alertmanager-killed"
    touches = frozenset({"alertmanager"})
    effects = Effects(halts=frozenset({"alertmanager"}), says=frozenset({"receiver:alerts"}))

    @classmethod
    def draw(cls, chance: random.Random) -> Self:  # noqa: ARG003 - there is one way
        return cls()

    def begin(self, site: Site) -> None:
        site.receivers.alertmanager.server.kill()

    def in_force(self, site: Site) -> bool | None:
        return site.receivers.alertmanager.server.ended()

    def end(self, site: Site) -> None:
        site.receivers.alertmanager.server.start()


class AlertmanagerPaused(AlertmanagerKilled):
    """Alertmanager is stopped (SIGSTOP), and goes on: it accepts connections, and says nothing."""

    name = "alertmanager-paused"

    def begin(self, site: Site) -> None:
        site.receivers.alertmanager.server.freeze()

    def in_force(self, site: Site) -> bool | None:
        return probes.stopped(site.receivers.alertmanager.server.pid)

    def end(self, site: Site) -> None:
        site.receivers.alertmanager.server.thaw()


SERVICES = (
    PrometheusKilled,
    PrometheusPaused,
    PrometheusEmptied,
    DatabaseKilled,
    DatabasePaused,
    DatabaseRestarted,
    AlertmanagerKilled,
    AlertmanagerPaused,
)
