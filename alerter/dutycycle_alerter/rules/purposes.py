"""What each command line of a job is for, and how that is said: who looks must not end her job by it.

It is read from the line itself, so that it is known of incidents that were stored long ago, too.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum


class Purpose(StrEnum):
    """In the order of use. `DUMP` and `STACKS` are the same line: the latter where the job may be ended after it."""

    LOOK = "look"
    DUMP = "dump"
    STACKS = "stacks"
    END = "end"
    PROFILE = "profile"
    TRACE = "trace"

    @property
    def label(self) -> str:
        """What stands above such a line, everywhere; a fixed text that ends in neither a full stop nor a colon."""
        return _LABELS[self]


_LABELS = {
    Purpose.LOOK: "To look at it, which changes nothing",
    Purpose.DUMP: "To see what its Python processes are doing (also kept in stacks.txt)",
    Purpose.STACKS: "First, to save the stacks",
    Purpose.END: "To end the job, only if its work is done or lost (what is not saved is gone)",
    Purpose.PROFILE: (
        "To profile the next run: start your program like this, with your own command in place of `python train.py`"
    ),
    Purpose.TRACE: "Or in the program itself, with the profiler of its framework",
}
_ENDING = ("scancel ", "kubectl delete ", "kubectl scale ", "kubectl annotate ")
_TRACING = ("torch.profiler", "keras.callbacks")


def by_purpose(lines: Iterable[str]) -> dict[Purpose, tuple[str, ...]]:
    """The lines by what they are for, in the order of use, and without purposes that none has."""
    found: dict[Purpose, list[str]] = {}
    for line in lines:
        found.setdefault(_purpose(line), []).append(line)
    if Purpose.END in found and Purpose.DUMP in found:
        found[Purpose.STACKS] = found.pop(Purpose.DUMP)
    return {purpose: tuple(found[purpose]) for purpose in Purpose if purpose in found}


def _purpose(line: str) -> Purpose:
    if line.startswith(_ENDING):
        return Purpose.END
    if "py-spy dump" in line:
        return Purpose.DUMP
    if any(sign in line for sign in _TRACING):
        return Purpose.TRACE
    return Purpose.PROFILE if "nsys profile" in line else Purpose.LOOK
