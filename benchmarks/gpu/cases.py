"""Which programs are measured on a real GPU, and what the alerter has to say of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Case:
    """One program or several at once: their arguments, and what there is to be found of each job: an incident of one of
    `rules` with `cause` among its causes, or none at all where there are no rules.

    `exact`: CUDA events tell all of the time for which the GPU counts as busy. They do not where kernels are shorter
    than their launches: to the driver each then takes about a microsecond more. `steady`: nvidia-smi, which looks five
    times a second, sees all phases of the load alike. It does not where the load has a period of a whole second.
    """

    name: str
    programs: tuple[tuple[str, ...], ...]
    rules: tuple[str, ...] = ()
    cause: str = ""
    cpus: float = 4.0
    judged: bool = True
    exact: bool = True
    steady: bool = True


CASES = (
    Case("fed", (("fed",),)),
    # One CPU, as a job gets that asks for no more: its loader has it busy.
    Case("starved", (("starved",),), ("stalled",), "data loading", cpus=1.0),
    Case("launch-bound", (("launch-bound",),), ("low_sm_activity", "underused"), "small work per step", exact=False),
    # Its multiprocessors all wait for memory, and count as active: a GPU that is used.
    Case("memory-bound", (("memory-bound",),)),
    Case("spinning", (("spinning",),), ("hung", "low_sm_activity"), "small work per step"),
    Case("idle with memory held", (("idle",),), ("idle",), "idle notebook"),
    Case(
        "two processes sharing",
        (("pulsed", "--duty=0.3"), ("pulsed", "--duty=0.2", "--phase=0.5")),
        ("stalled",),
        "small work per step",
        steady=False,
    ),
    *(
        Case(
            f"{number} multiprocessors",
            (("narrow", f"--multiprocessors={number}", "--step=0.5", "--duty=0.6"),),
            judged=False,
        )
        for number in (33, 66, 132)
    ),
)


def as_expected(case: Case, incidents: Sequence[Sequence[dict[str, Any]]]) -> bool | None:
    """Whether the incidents of each of the case's jobs are those that were to be found; None where none could be."""
    if not case.judged:
        return None
    if not case.rules:
        return not any(incidents)
    return all(any(one["rule"] in case.rules and case.cause in one["causes"] for one in mine) for mine in incidents)


def verdict(right: bool, incidents: Sequence[dict[str, Any]]) -> str:
    """What the findings of a case are worth, in words: to name one cause is more than to have it among several."""
    if not right:
        return "**which is wrong**"
    if not incidents:
        return "rightly not told"
    most = max(len(one["causes"]) for one in incidents)
    return "named" if most == 1 else f"hesitates between {most}"
