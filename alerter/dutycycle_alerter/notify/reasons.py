"""Why the user of a job hears of an incident: a clause, which its notice keeps, and the sentences that messages make of
it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from dutycycle_alerter.headline import rule_name
from dutycycle_alerter.incidents.model import Incident, OpenRule, Severity
from dutycycle_alerter.notify.owners import Due
from dutycycle_alerter.notify.routing import rules_of
from dutycycle_alerter.scale import format_duration
from dutycycle_alerter.settings import Settings

_ROUNDED = 0.999  # differences of Unix seconds are not exact
_TOGETHER = "your jobs together wasted more than "
_OF_THE_JOB = re.compile(r"(?:(all GPUs)|the GPU) of the job (was idle|were idle|hung) (for at least .+)")
_DID = {"idle": ("was idle", "were idle"), "hung": ("hung", "hung")}


def clause(found: Due, incident: Incident, settings: Settings) -> str:
    """What made it due, as it was then: `all GPUs of the job were idle for at least 2 h`. `settings` are scaled (wall
    seconds).
    """
    if found.cost:
        owners = settings.notify.owners
        within = format_duration(owners.within * settings.time_scale)
        return f"{_TOGETHER}{owners.wasted_gpu_hours:g} GPU-hours within {within}"
    if found.rule not in _DID:
        return f"this site notifies users at once where a job is critically {rule_name(found.rule)}"
    rule = next(one for one in rules_of(incident) if one.rule == found.rule)
    length = format_duration(_window(rule, incident, settings) * settings.time_scale)
    one, several = _DID[found.rule]
    single = max(incident.job_gpus, len(incident.gpus)) <= 1
    return f"{f'the GPU of the job {one}' if single else f'all GPUs of the job {several}'} for at least {length}"


def sentences(clauses: Sequence[str], *, new: bool = True) -> tuple[str, ...]:
    """Of the clauses of a message's incidents, each said once; empty where none is known. `new`: the message is the
    first of one of them; else it has come for what it tells.
    """
    hear = "You hear" if new else "You first heard"
    known = [one for one in clauses if one]
    if len(clauses) == 1 and known:
        more = " This is one of them." if known[0].startswith(_TOGETHER) else ""
        return (f"{hear} of it because {known[0]}.{more}",)
    if not known:
        return ()
    counted = sorted(Counter(known).most_common(), key=lambda item: item[0].startswith(_TOGETHER))
    why = ", and because ".join(_of_some_job(one, number) for one, number in counted)
    return (f"{hear} of {'these' if len(known) == len(clauses) else 'some of these'} because {why}.",)


def _of_some_job(one: str, number: int) -> str:
    """A clause as it is said beside other jobs."""
    found = _OF_THE_JOB.fullmatch(one)
    if found is None:
        return one
    every, did, length = found.groups()
    if number > 1:
        did, gpus = did.replace("was", "were"), f"{'all ' if every else ''}their GPUs"
        return f"jobs of yours {did} on {gpus} {length}"
    return f"a job of yours {did.replace('were', 'was')} on {'all its GPUs' if every else 'its GPU'} {length}"


def _window(rule: OpenRule, incident: Incident, settings: Settings) -> float:
    """Over how long the rule held at the least."""
    rules = settings.judging.rules
    if rule.rule == "hung":
        return rules.hung.window
    if rule.severity is not Severity.CRITICAL:
        return rules.idle.window
    # A serving job's incident begins with that window, and no other job's does.
    serving = incident.opened_at - incident.started_at >= rules.idle.serving_window * _ROUNDED
    return rules.idle.serving_window if serving else rules.idle.critical_window
