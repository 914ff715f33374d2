"""What the rules could not say of recordings, and why: the same words in a terminal and on a page."""

from __future__ import annotations

from dutycycle_alerter import figures
from dutycycle_alerter.analysis.judging import TooShort, Verdicts
from dutycycle_alerter.headline import rule_name
from dutycycle_alerter.scale import format_duration


def judged(verdicts: Verdicts, jobs: int) -> str:
    """How many of these jobs could be judged, and how many of them by some rules only."""
    said = f"{verdicts.judged} of {figures.count(jobs, 'job')} could be judged"
    if not verdicts.partly:
        return said
    some = "" if verdicts.partly == verdicts.judged else f"{verdicts.partly} of them "
    return f"{said}, {some}by some rules only"


def too_short(short: TooShort, scale: float) -> str:
    """Which rules could not look for want of time, how much they need of a job, and how much there is."""
    rules, jobs = ", ".join(map(rule_name, short.rules)), figures.count(short.jobs, "job")
    least, most, window = (format_duration(t * scale) for t in (short.least, short.most, short.window))
    longest = format_duration(short.longest * scale)
    grace = "grace" if short.grace is None else f"{format_duration(short.grace * scale)} of grace"
    need = "they need" if len(short.rules) > 1 else "it needs"
    need += f" {least}" if least == most else f" {least} to {most}"
    each, of_it = ("it", "it") if short.jobs == 1 else ("each", "the longest")
    has = f"the log has {longest} of {of_it}"
    if longest == least:  # they differ by less than is shown
        has = f"the log has {format_duration((short.least - short.longest) * scale)} less"
    return f"{rules} cannot be judged for {jobs}: {need} of {each} ({grace} and a window of {window}), {has}"
