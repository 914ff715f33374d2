"""How people say which incidents they mean: one word for one or several states."""

from __future__ import annotations

from enum import StrEnum

from dutycycle_alerter.incidents.model import State


class StateChoice(StrEnum):
    """Which states to list."""

    ACTIVE = "active"
    OPEN = "open"
    ACKNOWLEDGED = "acknowledged"
    SNOOZED = "snoozed"
    RESOLVED = "resolved"
    ALL = "all"

    @property
    def states(self) -> frozenset[State]:
        """The states; empty is any."""
        if self is StateChoice.ALL:
            return frozenset()
        if self is StateChoice.ACTIVE:
            return frozenset(state for state in State if state.active)
        return frozenset({State(self.value)})
