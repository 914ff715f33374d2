"""The examples of the documents are configurations, and name every key that they explain."""

import re
from pathlib import Path

import pytest
import yaml

from dutycycle_alerter.config_file import parse
from dutycycle_alerter.settings.matching import JobMatch
from dutycycle_alerter.settings.policies import Attention, Expectations, Maintenance, OptOut, Policy

DOCS = Path(__file__).parents[3] / "docs"


def examples(name: str) -> list[str]:
    return re.findall(r"```yaml\n(.*?)```", (DOCS / name).read_text(), re.DOTALL)


@pytest.mark.parametrize(
    ("name", "text"),
    [(name, text) for name in ("policies.md", "backtest.md") for text in examples(name)],
    ids=lambda value: value[:20],
)
def test_an_example_is_a_configuration_that_says_something(name: str, text: str) -> None:
    settings = parse(yaml.safe_load(text), origin=name)
    assert settings.policies != parse({}).policies


def test_there_are_examples() -> None:
    assert (len(examples("policies.md")), len(examples("backtest.md"))) == (4, 1)


def test_every_key_of_a_policy_is_explained() -> None:
    text = (DOCS / "policies.md").read_text()
    sections = (JobMatch, Policy, OptOut, Expectations, Maintenance)
    keys = {key for section in sections for key in section.model_fields}
    assert {key for key in keys if f"`{key}" not in text and f"{key}:" not in text} == set()
    assert {level.value for level in Attention if f"`{level}`" not in text} == set()
