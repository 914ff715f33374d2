"""Disks that are full."""

from __future__ import annotations

import random
from typing import Self

from ..disks import SmallDisk
from ..happened import EVERY_NODE, Effects
from ..site import Site
from .base import Fault


class _Full(Fault):
    """A disk on which there is no room."""

    @classmethod
    def draw(cls, chance: random.Random) -> Self:  # noqa: ARG003 - there is one way
        return cls()

    def fill(self, disk: SmallDisk) -> None:
        """Not a byte is left on it. Whether that is so is asked at once: who ends for want of room may leave some."""
        disk.fill()
        self._took = disk.full()

    def in_force(self, site: Site) -> bool | None:  # noqa: ARG002 - by now there may be room again
        return self._took


class DatabaseDiskFull(_Full):
    """The disk of PostgreSQL is full; it is started again where it ended, when there is room."""

    name = "database-disk-full"
    touches = frozenset({"database"})
    effects = Effects(halts=frozenset({"evaluation", "database"}))

    def begin(self, site: Site) -> None:
        self.fill(site.database.disk)

    def end(self, site: Site) -> None:
        site.database.disk.free()
        site.database.revive()


class PrometheusDiskFull(_Full):
    """The disk of Prometheus is full; it is started again where it ended, when there is room."""

    name = "prometheus-disk-full"
    touches = frozenset({"prometheus"})
    effects = Effects(blinds=frozenset({EVERY_NODE}), loses=True)

    def begin(self, site: Site) -> None:
        self.fill(site.prometheus.disk)

    def end(self, site: Site) -> None:
        site.prometheus.disk.free()
        site.prometheus.revive()


DISKS = (DatabaseDiskFull, PrometheusDiskFull)
