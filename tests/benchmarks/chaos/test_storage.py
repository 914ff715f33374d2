"""A disk that was full has been, also where a program that ended on it has left room since."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from benchmarks.chaos.faults import Fault
from benchmarks.chaos.faults.storage import DISKS


class Disk:
    """Of 400 blocks, of which `room` are left; one that does not fill keeps one."""

    def __init__(self, fills: bool = True) -> None:
        self.room, self._fills = 400, fills

    def fill(self) -> None:
        self.room = 0 if self._fills else 1

    def full(self) -> bool:
        return self.room == 0

    def free(self) -> None:
        self.room = 400


@pytest.mark.parametrize("kind", DISKS)
@pytest.mark.parametrize("fills", [True, False])
def test_whether_it_was_full_is_known_from_when_it_was_filled(kind: type[Fault], fills: bool) -> None:
    disk, revived = Disk(fills), []
    part = SimpleNamespace(disk=disk, revive=lambda: revived.append(disk.room))
    site, fault = SimpleNamespace(database=part, prometheus=part), kind()
    fault.begin(site)  # type: ignore[arg-type]
    disk.room += 7  # whoever ended unlinked its files
    assert fault.in_force(site) is fills  # type: ignore[arg-type]
    fault.end(site)  # type: ignore[arg-type]
    assert revived == [400]
