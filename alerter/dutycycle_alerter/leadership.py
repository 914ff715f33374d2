"""Takes the lease where it can be had, keeps it as long as it can, and has somebody evaluate meanwhile."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from dutycycle_alerter.errors import LeaseLostError, StoreError
from dutycycle_alerter.store.lease import Lease, Term
from dutycycle_alerter.views import Standing

log = logging.getLogger(__name__)


class Duty(Protocol):
    """What evaluates during one term."""

    def start(self) -> None:
        """Begin to work."""
        ...

    def close(self) -> None:
        """Finish what runs, do nothing more, and let go of everything."""
        ...


class Leadership:
    """`turn` is to be called several times in the length of a lease, by a thread that no pass holds up.

    `begin` makes what evaluates during a term. `alone` tells that no other alerter works on this database.
    """

    def __init__(
        self,
        lease: Lease,
        begin: Callable[[Term], Duty],
        *,
        alone: bool = False,
    ) -> None:
        self._lease = lease
        self._make = begin
        self._alone = alone
        self._term: Term | None = None
        self._evaluator: Duty | None = None
        self._epoch: int | None = None
        self._lost = 0

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
        )

    def turn(self) -> None:
        """Renew the lease, or take it where it can be had. Raises StoreError."""
        if self._term is None or not self._keep(self._term):
            self._take()

    def stop(self) -> None:
        """Finish, and let another take over at once."""
        term, evaluator = self._term, self._evaluator
        self._end(evaluator)
        if term is not None:
            try:
                term.release()
            except StoreError as error:
                log.warning("the lease was not released, and ends by itself: %s", error)

    def _keep(self, term: Term) -> bool:
        try:
            term.renew()
        except LeaseLostError as error:
            log.warning("%s", error)
        except StoreError as error:
            if not term.over:
                raise  # there is time to try again
            log.warning("epoch %d is over, since the lease could not be renewed: %s", term.epoch, error)
        else:
            return True
        self._lost += 1
        self._end(self._evaluator)
        return False

    def _take(self) -> None:
        seen, free = self._lease.look()
        self._epoch = None if seen is None else seen.epoch
        term = self._lease.take() if free else None
        if term is None:
            return
        try:
            evaluator = self._make(term)
        except BaseException:
            # Another may be luckier.
            with suppress(StoreError):
                term.release()
            raise
        log.info("%s evaluates in epoch %d", self._lease.holder, term.epoch)
        self._epoch, self._evaluator, self._term = term.epoch, evaluator, term
        evaluator.start()

    def _end(self, evaluator: Duty | None) -> None:
        self._evaluator = self._term = None
        if evaluator is not None:
            evaluator.close()
