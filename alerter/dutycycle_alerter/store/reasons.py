"""What the drivers say of an error, fit to be shown."""

from __future__ import annotations


def reason_of(error: BaseException) -> str:
    """The driver's message on one line, without PostgreSQL's details: those repeat rows' values, names of people."""
    primary = getattr(getattr(error, "diag", None), "message_primary", None)
    return " ".join(str(primary or error).split()) or type(error).__name__
