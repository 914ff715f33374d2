"""Whoever asks, with their role; what is refused to them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from dutycycle_alerter.errors import AlerterError


class Role(StrEnum):
    """What somebody may: everything; see everything; see and act on what is about their own jobs; nothing."""

    OPERATOR = "operator"
    VIEWER = "viewer"
    OWN = "own"
    NONE = "none"


class Means(StrEnum):
    """How somebody said who they are."""

    NONE = "none"
    BEARER = "bearer"
    SESSION = "session"
    PROXY = "proxy"


@dataclass(frozen=True, slots=True)
class Visitor:
    """`name` is empty for who did not say who they are."""

    role: Role
    name: str = ""
    means: Means = Means.NONE

    @property
    def acts(self) -> bool:
        """Whether they may change anything."""
        return self.role in (Role.OPERATOR, Role.OWN)


class NotLoggedInError(AlerterError):
    """Who asks has to say who they are, and did not, or not credibly."""


class ForbiddenError(AlerterError):
    """Who asks is known and may not."""


class TooManyAttemptsError(AlerterError):
    """Log-ins failed too often; `retry_after` is in whole seconds."""

    def __init__(self, retry_after: int) -> None:
        super().__init__(f"too many log-ins have failed: try again in {retry_after} s")
        self.retry_after = retry_after
