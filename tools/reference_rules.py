"""docs/rules.md: every rule with its formula, thresholds, source, causes and advice, from the rules' own tables.

A number on the page is a default of the settings or a constant of the code that judges; the prose around it is here.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from inspect import getdoc
from types import ModuleType

from dutycycle_alerter.incidents.model import Cause
from dutycycle_alerter.incidents.reasons import REASONS
from dutycycle_alerter.model import JobKind
from dutycycle_alerter.rules import (
    causes,
    device_diagnosis,
    idle_causes,
    report_causes,
    straggling,
    underused_causes,
)
from dutycycle_alerter.rules.advice import ADVICE, SIGNS
from dutycycle_alerter.scale import format_duration
from dutycycle_alerter.settings import Judging, Rules
from tools import reference_configuration
from tools.markdown import code, heading, paragraph, table
from tools.reference_rules_prose import AFTER, BEFORE, SOURCES, Text, alone, described

DEVICES = ("gpu_fault", "leaked_memory", "throttled")
"""The rules on GPUs and nodes, in the order in which they are explained."""

_ALL = (JobKind.BATCH, JobKind.INTERACTIVE, JobKind.SERVING)
KINDS: dict[str, tuple[JobKind, ...]] = {
    **dict.fromkeys((*Rules.ORDER, *Rules.REPORTS), (JobKind.BATCH,)),
    "idle": _ALL,
    "partially_idle": (JobKind.BATCH, JobKind.INTERACTIVE),
}
"""Which kinds of jobs each rule on jobs judges."""

DIAGNOSES: dict[str, Iterable[Callable[..., object] | ModuleType]] = {
    **{rule: (why,) for rule, why in (causes.BY_RULE | report_causes.BY_RULE).items()},
    "idle": (idle_causes,),
    "partially_idle": (causes._without_process, causes._partially_idle),  # noqa: SLF001
    "stalled": (causes._of_a_stall, straggling),  # noqa: SLF001
    "uneven": (causes._uneven, straggling),  # noqa: SLF001
    "underused": (underused_causes, straggling),
    "gpu_fault": (device_diagnosis._fault, device_diagnosis.diagnose_node),  # noqa: SLF001 - read, not called
    "leaked_memory": (device_diagnosis._leaked,),  # noqa: SLF001
    "throttled": (device_diagnosis._throttled,),  # noqa: SLF001
}
"""The functions, or modules of them, that name a rule's causes."""


@dataclass(frozen=True)
class Entry:
    """A rule as the page has it."""

    name: str
    about: str
    text: Text
    keys: tuple[reference_configuration.Key, ...]
    causes: tuple[Cause, ...]


def document(judging: Judging | None = None) -> bytes:
    """The whole page; the numbers are those of these settings, the defaults if they are left out."""
    return "\n".join(_lines(judging or Judging())).encode()


def entries(judging: Judging) -> list[Entry]:
    """Every rule, in the order of the page."""
    parts = {part.path: part for part in reference_configuration.parts()}
    texts = described(judging)
    return [
        Entry(
            name=name,
            about=" ".join((getdoc(type(getattr(judging.rules, name))) or "").split()),
            text=texts[name],
            keys=parts[f"judging.rules.{name}"].keys,
            causes=_named(name),
        )
        for name in (*Rules.ORDER, *Rules.REPORTS, *DEVICES)
    ]


def _named(rule: str) -> tuple[Cause, ...]:
    """The causes that a rule's diagnosis can name, in the order in which its code does."""
    found = [name for why in DIAGNOSES[rule] for name in re.findall(r"\bCause\.([A-Z_]+)", inspect.getsource(why))]
    return tuple(dict.fromkeys(Cause[name] for name in found))


def _lines(judging: Judging) -> Iterator[str]:
    yield from heading(
        "What is found, and how",
        "alerter/dutycycle_alerter/rules, their settings, and tools/reference_rules_prose.py",
    )
    for text in BEFORE:
        yield from paragraph(text(judging))
    found = {entry.name: entry for entry in entries(judging)}
    yield from table(
        ("rule", "what it is", "over", "first looked at after"),
        ((f"[`{e.name}`](#{e.name})", e.about, e.text.window, _first(e.name, judging)) for e in found.values()),
    )
    yield from _section("While a job runs", Rules.ORDER, found)
    yield from _section("When a job has ended", Rules.REPORTS, found)
    yield from _section("GPUs and nodes", DEVICES, found)
    yield from _causes(judging, found.values())
    for text in AFTER:
        yield from paragraph(text(judging))


def _first(name: str, judging: Judging) -> str:
    """When a rule can first speak of a batch job."""
    if name in Rules.REPORTS:
        return "the job's end"
    window = getattr(getattr(judging.rules, name), "window", 0.0)
    if name in DEVICES:
        return format_duration(window) if window else "at once"
    return format_duration(judging.grace.batch + window)


def _section(title: str, rules: Iterable[str], found: dict[str, Entry]) -> Iterator[str]:
    yield f"## {title}"
    yield ""
    for name in rules:
        yield from _rule(found[name])


def _rule(entry: Entry) -> Iterator[str]:
    kinds = KINDS.get(entry.name)
    rows = [
        ("fires when", entry.text.fires),
        ("over", entry.text.window),
        ("severity", entry.text.severity),
        ("clears when", entry.text.clears),
        ("needs", entry.text.needs),
        ("judges", ", ".join(f"{kind} jobs" for kind in kinds) if kinds else "GPUs and nodes"),
        ("likely causes", ", ".join(_link(cause) for cause in entry.causes)),
        ("where the numbers are from", "; ".join(SOURCES[entry.name])),
    ]
    yield f"### `{entry.name}`"
    yield ""
    yield from paragraph(entry.about)
    yield from table(("", ""), ((f"**{name}**", " ".join(text.split())) for name, text in rows if text))
    yield from table(
        ("setting", "default", "meaning"),
        ((code(key.path.rsplit(".", 1)[1]), code(key.default or ""), key.meaning) for key in entry.keys),
    )
    if entry.text.more:
        yield from paragraph(entry.text.more)


def _causes(judging: Judging, rules: Iterable[Entry]) -> Iterator[str]:
    yield "## Causes"
    yield ""
    yield from paragraph("""
        A cause is named alone only where a signal separates it from the others. Otherwise a finding says between which
        of them the evidence does not decide (two or three, seldom four), and how to tell them apart: the line “looks
        like” below. What is not known excludes no cause. Advice in a message begins with steps that have the job's own
        numbers, as far as these are known. After it come exact commands: to look at the job (nvidia-smi, py-spy), to
        profile its next run (Nsight Systems, or the profilers of PyTorch and TensorFlow), and to end it where all of it
        does nothing.
    """)
    named_alone = alone(judging)
    rules = list(rules)
    for cause in Cause:
        yield f"### {cause.value}"
        yield ""
        yield f"- **Named alone where** {' '.join(named_alone[cause].split())}."
        yield f"- **Looks like** {SIGNS[cause].partition(': ')[2]}."
        yield f"- **In guides on GPU utilization:** {REASONS[cause].value}."
        yield f"- **Rules that name it:** {', '.join(f'[`{e.name}`](#{e.name})' for e in rules if cause in e.causes)}."
        yield "- **What to do:**"
        yield from (f"    - {step}" for step in ADVICE[cause])
        yield ""


def _link(cause: Cause) -> str:
    return f"[{cause.value}](#{cause.value.lower().replace(' ', '-')})"
