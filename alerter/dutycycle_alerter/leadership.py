"""Takes the lease where it can be had, keeps it as long as it can, and has somebody evaluate meanwhile."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import suppress
from math import inf
from threading import Thread
from typing import Generic, Protocol, TypeVar

from dutycycle_alerter.errors import LeaseLostError, StoreError
from dutycycle_alerter.store.lease import Lease, Term
from dutycycle_alerter.views import Standing

log = logging.getLogger(__name__)

_PATIENCE = 60.0
"""Wall seconds for which what evaluated in a term may take to end, until it is left to itself."""

_MOST_LEFT = 1
"""How many of those there may be beside a new one: where all of them hang, a further one would, too."""


class Duty(Protocol):
    """What evaluates during one term."""

    def start(self) -> None:
        """Begin to work."""
        ...

    def close(self) -> None:
        """Finish what runs, do nothing more, and let go of everything."""
        ...


_Duty = TypeVar("_Duty", bound=Duty)
_Result = TypeVar("_Result")


class Leadership(Generic[_Duty]):
    """`turn` is to be called several times in the length of a lease, by a thread that no pass holds up.

    `begin` makes what evaluates during a term. However long that takes, and its end, the lease is renewed meanwhile.
    `alone` tells that no other alerter works on this database.
    """

    def __init__(
        self,
        lease: Lease,
        begin: Callable[[Term], _Duty],
        *,
        alone: bool = False,
        patience: float = _PATIENCE,
    ) -> None:
        self._lease = lease
        self._make = begin
        self._alone = alone
        self._patience = patience
        self._term: Term | None = None
        self._evaluator: _Duty | None = None
        self._epoch: int | None = None
        self._lost = 0
        self._left: list[Future[None]] = []

    @property
    def evaluator(self) -> _Duty | None:
        """What evaluates now; None while another does."""
        return self._evaluator

    def standing(self) -> Standing:
        """As of now; needs no database."""
        term = self._term
        leads = term is not None and not term.over
        return Standing(
            replica=self._lease.holder,
            shared=not self._alone,
            leads=leads,
            epoch=self._epoch if term is None else term.epoch,
            age=term.age if term is not None and leads else None,
            lost=self._lost,
            left=sum(not closing.done() for closing in self._left),
        )

    def turn(self) -> None:
        """Renew the lease, or take it where it can be had. Raises StoreError."""
        if self._term is None or not self._keep(self._term):
            self._take()

    def stop(self) -> None:
        """Finish, and let another take over at once."""
        term, evaluator = self._term, self._evaluator
        self._term = self._evaluator = None
        if term is None:
            return
        if evaluator is not None:
            self._end(evaluator, term.epoch, self._patience, renewing=term)
        try:
            term.release()
        except StoreError as error:
            log.warning("the lease was not released, and ends by itself: %s", error)

    def _keep(self, term: Term) -> bool:
        given_up = False
        try:
            term.renew()
        except LeaseLostError as error:
            given_up = True
            log.warning("%s", error)
        except StoreError as error:
            if not term.over:
                raise  # there is time to try again
            log.warning("epoch %d is over, since the lease could not be renewed: %s", term.epoch, error)
        else:
            return True
        self._lost += 1
        evaluator = self._evaluator
        self._term = self._evaluator = None
        if evaluator is not None:
            # Whatever hangs can write nothing more, and must not keep us from looking for the lease.
            self._end(evaluator, term.epoch, min(self._lease.length, self._patience))
        if given_up:
            # A term that ended itself, since the store was not as it had left it, has the lease still.
            with suppress(StoreError):
                term.release()
        return False

    def _take(self) -> None:
        seen, free = self._lease.look()
        self._epoch = None if seen is None else seen.epoch
        if not free:
            return
        self._left = [closing for closing in self._left if not closing.done()]
        if len(self._left) > _MOST_LEFT:
            log.error("the lease is not taken: what evaluated in %d former terms has not ended", len(self._left))
            return
        term = self._lease.take()
        if term is None:
            return
        self._epoch, self._term = term.epoch, term
        begun = _apart("begin", lambda: self._make(term))
        try:
            if not self._finished(begun, inf, renewing=term):
                self._lost += 1
                self._term = None
                self._left.append(_apart("end", lambda: begun.result().close()))
                return
            evaluator = begun.result()
        except BaseException:
            self._term = None
            # Another may be luckier.
            with suppress(StoreError):
                term.release()
            raise
        log.info("%s evaluates in epoch %d", self._lease.holder, term.epoch)
        self._evaluator = evaluator
        evaluator.start()

    def _end(self, evaluator: _Duty, epoch: int, seconds: float, *, renewing: Term | None = None) -> None:
        closing = _apart("end", evaluator.close)
        if self._finished(closing, seconds, renewing=renewing):
            closing.result()
            return
        self._left.append(closing)
        log.error("what evaluated in epoch %d has not ended, and is left to itself: it can write nothing more", epoch)

    def _finished(self, work: Future[_Result], seconds: float, *, renewing: Term | None) -> bool:
        """Wait for it, and keep the lease meanwhile. False where it takes longer, or where the lease is lost."""
        deadline = time.monotonic() + seconds
        while not work.done():
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            wait([work], min(left, self._lease.length / 4))
            if renewing is not None and not work.done():
                try:
                    renewing.renew()
                except StoreError as error:
                    log.warning("%s", error)
                    if renewing.over:
                        return False
        return True


def _apart(name: str, function: Callable[[], _Result]) -> Future[_Result]:
    """Have it run on a thread of its own, which the process's end does not wait for."""
    future: Future[_Result] = Future()

    def run() -> None:
        try:
            future.set_result(function())
        except BaseException as error:  # noqa: BLE001 - whoever waits for it has it
            future.set_exception(error)

    Thread(target=run, name=name, daemon=True).start()
    return future
