"""Disks that are full."""

from __future__ import annotations

import random
from typing import Self

from ..happened import EVERY_NODE, Effects
from ..site import Site
from .base import Fault


class DatabaseDiskFull(Fault):
    """The disk of PostgreSQL is full; it is started again where it ended, when there is room."""

    name = "database-disk-full"
    touches = frozenset({"database"})
    effects = Effects(halts=frozenset({"evaluation", "database"}))

    @classmethod
    def draw(cls, chance: random.Random) -> Self:  # noqa: ARG003 - there is one way
        return cls()

    def begin(self, site: Site) -> None:
        site.database.disk.fill()

    def in_force(self, site: Site) -> bool | None:
        return site.database.disk.full()

    def end(self, site: Site) -> None:
        site.database.disk.free()
        site.database.revive()


class PrometheusDiskFull(Fault):
    """The disk of Prometheus is full; it is started again where it ended, when there is room."""

    name = "prometheus-disk-full"
    touches = frozenset({"prometheus"})
    effects = Effects(blinds=frozenset({EVERY_NODE}), loses=True)

    @classmethod
    def draw(cls, chance: random.Random) -> Self:  # noqa: ARG003 - there is one way
        return cls()

    def begin(self, site: Site) -> None:
        site.prometheus.disk.fill()

    def in_force(self, site: Site) -> bool | None:
        return site.prometheus.disk.full()

    def end(self, site: Site) -> None:
        site.prometheus.disk.free()
        site.prometheus.revive()


DISKS = (DatabaseDiskFull, PrometheusDiskFull)
