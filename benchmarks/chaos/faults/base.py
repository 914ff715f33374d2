"""What a fault is, and what it says about itself so that the checker knows whom it touched."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from typing import ClassVar, Self

from ..happened import Effects, Happened
from ..promises.bounds import LOOK, outlasts, taken_over_after
from ..site import Site


class Fault(ABC):
    """One fault, drawn. Its class's docstring is the sentence that tells people what it is.

    `begin` and `end` are called once each, from one thread. `touches` are the parts that it is done to: two faults at
    once do not touch the same part. `effects` are known when it has begun.
    """

    name: ClassVar[str]
    lasts: ClassVar[tuple[float, float]] = (8.0, 16.0)
    """Wall seconds, at least and at most. A fault that is over at once still takes what follows it."""
    hands_over: ClassVar[bool] = False
    """Whether it takes from an alerter what it does, so that another one has to do it."""

    touches: frozenset[str]
    effects: Effects = Effects()

    @classmethod
    @abstractmethod
    def draw(cls, chance: random.Random) -> Self:
        """One of this kind; the same for the same chance."""

    @abstractmethod
    def begin(self, site: Site) -> None:
        """It happens."""

    @abstractmethod
    def end(self, site: Site) -> None:
        """It is over, and somebody or something has put right what does not come right by itself."""

    @abstractmethod
    def in_force(self, site: Site) -> bool | None:
        """Whether it shows, asked before its end, that it was in force; None where nobody could be asked."""

    @property
    def what(self) -> str:
        """To whom it is done."""
        return ", ".join(sorted(self.touches))

    @classmethod
    def sentence(cls) -> str:
        return " ".join((cls.__doc__ or "").split())

    def outlasts(self, time_scale: float) -> float:
        """Wall seconds that it has to last at least so that one can look often enough whether it is told, and whether
        another alerter takes over.
        """
        told = outlasts(self.effects.says, self.effects.broken, time_scale)
        return max(told, taken_over_after(time_scale) + LOOK) if self.hands_over else told

    def happened(
        self, began: float, ended: float, took: bool | None, stood: tuple[float, float] | None = None
    ) -> Happened:
        """It, as evidence."""
        return Happened(self.name, self.what, began, ended, took, stood, **vars(self.effects))
