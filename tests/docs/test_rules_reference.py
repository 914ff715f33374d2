"""docs/rules.md: every rule and cause, with numbers that are the settings' and change with them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dutycycle_alerter.incidents.model import Cause
from dutycycle_alerter.model import Gpu, Job, JobEvidence, JobKind, WindowEvidence
from dutycycle_alerter.rules import Outcome, judge
from dutycycle_alerter.rules.advice import ADVICE
from dutycycle_alerter.scale import format_duration
from dutycycle_alerter.settings import Judging, Rules
from dutycycle_alerter.settings.types import WINDOWS, Section
from tools import reference_rules

PAGE = reference_rules.document().decode()
ENTRIES = {entry.name: entry for entry in reference_rules.entries(Judging())}


def test_every_rule_and_every_cause_has_its_place() -> None:
    assert set(ENTRIES) == set(Rules.model_fields)
    headings = re.findall(r"^### `?(.*?)`?$", PAGE, re.M)
    assert headings == [*ENTRIES, *(cause.value for cause in Cause)]
    for steps in ADVICE.values():
        assert [step for step in steps if f"    - {step}\n" not in PAGE] == []


def test_researchers_find_each_cause_by_the_name_that_messages_have() -> None:
    page = (Path(__file__).parents[2] / "docs" / "researcher.md").read_text()
    firsts = [line.split(" | ")[0].removeprefix("| ") for line in page.splitlines() if line.startswith("| ")]
    assert [cause.label for cause in Cause if cause.label not in ", ".join(firsts).split(", ")] == []


def test_every_cause_is_named_by_a_rule_and_every_rule_names_one() -> None:
    assert {cause for entry in ENTRIES.values() for cause in entry.causes} == set(Cause)
    assert [name for name, entry in ENTRIES.items() if not entry.causes] == []


def test_links_within_the_page_lead_somewhere() -> None:
    places = {re.sub(r"[^\w\- ]", "", head).replace(" ", "-").lower() for head in re.findall(r"^#+ (.*)$", PAGE, re.M)}
    assert set(re.findall(r"\]\(#([^)]+)\)", PAGE)) - places == set()


def settings() -> Iterator[tuple[str, str]]:
    """Each number that decides when a rule fires or clears."""
    rules = Judging().rules
    for rule in Rules.model_fields:
        section: Section = getattr(rules, rule)
        for key in type(section).model_fields:
            if isinstance(getattr(section, key), float | int) and key != "enabled":
                yield rule, key


@pytest.mark.parametrize(("rule", "key"), list(settings()))
def test_a_number_is_the_settings_own(rule: str, key: str) -> None:
    """With another value the rule's own words are others: nobody typed it."""
    rules = Judging().rules
    section = getattr(rules, rule)
    value: Any = getattr(section, key)
    other = next(window for window in WINDOWS if window != value) if key.endswith("window") else value * 0.97
    changed = rules.model_copy(update={rule: section.model_copy(update={key: other})})
    ((before, after),) = [
        (ENTRIES[rule].text, entry.text)
        for entry in reference_rules.entries(Judging().model_copy(update={"rules": changed}))
        if entry.name == rule
    ]
    assert before != after or (key == "shortest" and format_duration(value) == format_duration(other))


def test_what_holds_for_all_is_the_settings_own() -> None:
    changed = Judging().model_copy(update={"coverage": 0.71, "lost_after": 7 * 86400.0, "reopen_within": 300.0})
    page = reference_rules.document(changed).decode()
    assert "measured for 71 %" in " ".join(page.split())
    assert "nothing was known for 7 d" in " ".join(page.split())
    assert "within 5 min" in page
    assert "71 %" not in PAGE


@pytest.mark.parametrize("kind", list(JobKind))
def test_kinds_of_jobs_are_those_that_a_rule_judges(kind: JobKind) -> None:
    job = Job("slurm/1", (Gpu("a", "0"), Gpu("a", "1")), start=0.0, kind=kind)
    evidence = JobEvidence(job, 60.0, lambda length: WindowEvidence(length, ()), watched_from=0.0)
    judged = {v.rule for v in judge(evidence, Judging()).verdicts if v.outcome is not Outcome.NOT_APPLICABLE}
    assert judged == {rule for rule in Rules.ORDER if kind in reference_rules.KINDS[rule]}
