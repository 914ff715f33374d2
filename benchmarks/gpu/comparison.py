"""What programs said of themselves beside what the exporter and nvidia-smi said of their GPU. Pure.

All over the same time: that for which every program ran, without its ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from benchmarks.gpu.nvidia_smi import Watched
from benchmarks.gpu.scrape import Scrape, grown

LAG = 0.7
"""Seconds after which a scrape has what was measured until an instant: a sample of the driver's, and a turn."""
HEAD, TAIL = 2.0, 1.0
"""Seconds of every program that are left out at its begin and its end."""

Line = Mapping[str, float]


class TooShortError(Exception):
    """A program ran for too short a time to be compared."""


@dataclass
class Figures:
    """One case over `seconds`. Duty cycles and activities are shares of that time; `truth` is by CUDA events, `theirs`
    nvidia-smi's; `owned` has each job's own. `incidents` are those of all its jobs, `right` says whether they are as
    expected.
    """

    name: str
    seconds: float
    truth: float
    busy: float | None
    theirs: float | None
    observed: float | None
    sm: float | None
    sm_truth: float | None
    watts: float | None
    watts_theirs: float | None
    units: dict[str, float | None]
    owned: list[dict[str, Any]]
    facts: list[Line]
    incidents: list[dict[str, Any]] = field(default_factory=list)
    right: bool | None = None

    @property
    def off(self) -> float | None:
        """By how much our duty cycle is over the truth."""
        return None if self.busy is None else self.busy - self.truth


def until(lines: Iterable[Sequence[Line]]) -> float:
    """From when on the scrapes of a case are complete."""
    return min(each[-1]["t"] for each in lines) - TAIL + LAG


def compare(
    name: str, lines: Mapping[str, Sequence[Line]], scrapes: Sequence[Scrape], watched: Iterable[Watched]
) -> Figures:
    """`lines` are what each program wrote, by the beginning of its workload's name. Raises TooShortError."""
    start = max(each[0]["t"] for each in lines.values()) + HEAD
    end = min(each[-1]["t"] for each in lines.values()) - TAIL
    spans = {subject: _within(each, start, end) for subject, each in lines.items()}
    truths = {subject: _share(*span) for subject, span in spans.items()}
    begin, finish = next(iter(spans.values()))
    first, last = (next(scrape for scrape in scrapes if scrape.t >= line["t"] + LAG) for line in (begin, finish))
    by, length = grown(first, last), last.t - first.t
    theirs = [one for one in watched if first.t <= one.t <= last.t]
    busy, observed = by("gpu_busy_seconds_total"), by("gpu_observed_seconds_total")
    units = {
        unit: _over(by("workload_gpu_active_seconds_total", unit=unit), length) for unit in ("sm", "tensor", "dram")
    }
    between = [scrape for scrape in scrapes if first.t <= scrape.t <= last.t]
    units["graphics"] = _mean(scrape.total("gpu_graphics_active_ratio") for scrape in between)
    facts = {subject: each[-1] for subject, each in lines.items()}
    return Figures(
        name=name,
        seconds=length,
        truth=sum(truths.values()),
        busy=_over(busy, observed),
        theirs=_mean(one.utilization for one in theirs),
        observed=_over(observed, length),
        sm=units["sm"],
        sm_truth=_held(truths, facts),
        watts=_over(by("gpu_energy_joules_total"), length),
        watts_theirs=_mean(one.power for one in theirs),
        units=units,
        owned=[
            {
                "subject": subject,
                "truth": truth,
                "busy": _over(by("workload_gpu_busy_seconds_total", workload=subject), length),
            }
            for subject, truth in truths.items()
        ],
        facts=list(facts.values()),
    )


def _within(lines: Sequence[Line], start: float, end: float) -> tuple[Line, Line]:
    inside = [line for line in lines if start <= line["t"] <= end]
    if len(inside) < 2:
        raise TooShortError(f"a program ran for too short a time: {lines}")
    return inside[0], inside[-1]


def _share(first: Line, last: Line) -> float:
    return (last["busy"] - first["busy"]) / (last["t"] - first["t"])


def _held(truths: Mapping[str, float], facts: Mapping[str, Line]) -> float | None:
    """The share of the multiprocessors' time that the kernels held: only of kernels that say where they lie."""
    if any("multiprocessors" not in one for one in facts.values()):
        return None
    return sum(
        truths[subject] * one["multiprocessors"] / one["multiprocessors_in_all"] for subject, one in facts.items()
    )


def _over(value: float | None, length: float | None) -> float | None:
    return None if value is None or not length else value / length


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None
