"""Slurm's words for the state of a job, and how a job ended."""

from __future__ import annotations

from collections.abc import Collection

from dutycycle_alerter.slurm.fields import Fields
from dutycycle_alerter.slurm.model import ExitCode, JobState

ENDED = frozenset(
    {
        "BOOT_FAIL",
        "CANCELLED",
        "COMPLETED",
        "DEADLINE",
        "FAILED",
        "LAUNCH_FAILED",
        "NODE_FAIL",
        "OUT_OF_MEMORY",
        "PREEMPTED",
        "RECONFIG_FAIL",
        "REVOKED",
        "TIMEOUT",
    }
)
_RUNNING = frozenset({"CONFIGURING", "EXPEDITING", "POWER_UP_NODE", "RESIZING", "RUNNING", "SIGNALING", "STAGE_OUT"})
_PENDING = frozenset({"PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT"})
_SUSPENDED = frozenset({"SUSPENDED", "STOPPED"})
# Words for failure; with them a status of 0 is not how the script ended.
_FAILED = frozenset({"FAILED", "OUT_OF_MEMORY", "BOOT_FAIL", "LAUNCH_FAILED"})


def job_state(words: Collection[str]) -> JobState:
    """What the words for a job's state amount to; those that are not known do not count."""
    found = set(words)
    if "COMPLETING" in found:
        return JobState.COMPLETING
    for state, meant in (
        (JobState.SUSPENDED, _SUSPENDED),
        (JobState.ENDED, ENDED),
        (JobState.RUNNING, _RUNNING),
        (JobState.PENDING, _PENDING),
    ):
        if found & meant:
            return state
    return JobState.UNKNOWN


def exit_code(fields: Fields, name: str, words: Collection[str] = ()) -> ExitCode:
    """How it ended: from a wait status (a number, until data_parser v0.0.39), or from an object.

    In the objects that Slurm 22.05 writes of accounting, jobs that failed say SUCCESS and 0: that is not known, then.
    """
    code = fields.part(name) if fields.kind(name) is dict else None
    if code is None or code.has("number"):
        status = fields.number(name)
        if status is None:
            return ExitCode()
        found = ExitCode(status >> 8 & 0xFF, status & 0x7F or None)
    else:
        signal = code.part("signal") if code.has("signal") else None
        found = ExitCode(code.number("return_code"), signal.number("id", "signal_id") or None if signal else None)
    return ExitCode() if found == ExitCode(0) and set(words) & _FAILED else found
