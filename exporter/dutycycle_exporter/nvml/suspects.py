"""GPUs about which calls did not return in an earlier child: those are asked last, or not at all.

A turn that hangs tells the exporter only which GPU it hung at, and a driver that stands still as a whole hangs at
whichever comes next. So whoever is suspected is asked after all others: a turn that then hangs again at the same GPU,
after some were read that nobody suspects, shows that it is that GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

from dutycycle_exporter.listening import SUSPECTED
from dutycycle_exporter.model import Asking, DeviceIndex, Returned


class Suspects:
    """`ask_last` and `leave_out` are what the exporter says; `on_asking` is told which GPU is about to be asked. In its
    first turn a child asks no suspect, so that there is something to tell of the others. After `SUSPECTED` seconds by
    the `timer` nobody is suspected any more.
    """

    def __init__(
        self,
        ask_last: Collection[DeviceIndex],
        leave_out: Collection[DeviceIndex],
        on_asking: Callable[[Asking | Returned], None],
        *,
        timer: Callable[[], float],
    ) -> None:
        self._ask_last = frozenset(ask_last)
        self._leave_out = frozenset(leave_out)
        self._on_asking = on_asking
        self._timer = timer
        self._until = timer() + SUSPECTED
        self._first = True
        self._count = 0
        self._left_out: frozenset[int] = frozenset()
        self.suspected: frozenset[int] = frozenset()
        """Those at which an earlier child hung, of which nobody knows yet whether that was theirs."""
        self._read: set[int] = set()
        """Those that were read in this turn and that nobody suspects."""
        self.last: frozenset[int] = frozenset()
        """Whom to ask last in this turn."""

    def begin(self, count: int | None) -> None:
        """A turn begins, with so many GPUs; with as many as before where NVML does not tell."""
        self._count = self._count if count is None else count
        self._read.clear()
        self._left_out = self._here(self._leave_out)
        suspected = self._here(self._ask_last) if self._timer() < self._until else frozenset()
        # Where nobody else is there, nobody can be read before them.
        self.suspected = suspected if len(suspected) + len(self._left_out) < self._count else frozenset()
        self.last = frozenset() if self._first else self.suspected

    def begin_poll(self) -> None:
        """Begin to poll GPUs between two turns. What the turn read does not prove that the driver works now."""
        self._read.clear()

    def end_poll(self) -> None:
        """End the poll: a later hang is not the last polled GPU's."""
        self._on_asking(Returned())

    def end(self) -> None:
        """The turn has ended, and suspects are asked from now on."""
        self._first = False

    @property
    def waiting(self) -> bool:
        """Whether some are to be asked from the next turn on."""
        return self._first and bool(self.suspected)

    def left_out(self, index: int) -> bool:
        """Whether a GPU is not asked at all in this turn."""
        return index in self._left_out or (self._first and index in self.suspected)

    @contextmanager
    def asking(self, index: int, *, whole: bool = False, anew: bool = False) -> Iterator[None]:
        """Around the calls about one GPU. `whole`: they are all of a turn's. `anew`: it may have to be brought up."""
        self._on_asking(Asking((index, self._count), len(self._read), anew))
        yield
        if whole and (index, self._count) not in self._ask_last:
            self._read.add(index)

    def _here(self, gpus: Collection[DeviceIndex]) -> frozenset[int]:
        return frozenset(index for index, of in gpus if of == self._count)
