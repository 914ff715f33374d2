"""Examples are what the programs read for which they are written: configurations, manifests, rules, PromQL, JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.docs.blocks import Block, blocks
from tests.docs.examples import CHECKS, expression, kind, wrong

YAML = [block for block in blocks() if block.language == "yaml"]
PROMQL = [block for block in blocks() if block.language == "promql"]


@pytest.mark.parametrize("block", YAML, ids=str)
def test_an_example_is_read_by_what_it_is_for(block: Block, tmp_path: Path) -> None:
    """One that no program of a known kind reads names the test that reads it, or what would have to be there."""
    if not kind(block.text):
        assert block.how in ("tested", "needs"), f"{block} is for no program that is known, and it names no test"
        return
    assert wrong(block.text, tmp_path) == ""


def test_there_are_examples_of_each_kind() -> None:
    assert {kind(block.text) for block in YAML} >= set(CHECKS) - {"broken", "rules"}


@pytest.mark.parametrize("block", PROMQL, ids=str)
def test_promql_is_understood(block: Block, tmp_path: Path) -> None:
    assert expression(block.text, tmp_path) == ""


@pytest.mark.parametrize("block", [block for block in blocks() if block.language == "json"], ids=str)
def test_json_is_json(block: Block) -> None:
    json.loads(block.text)


@pytest.mark.parametrize(
    ("text", "is_a", "says"),
    [
        ("judging: {rules: {idle: {below: 2}}}", "alerter", "judging.rules.idle.below"),
        ("notify: {recievers: []}", "alerter", "recievers"),
        ("sample-interval: soon", "exporter", "sample-interval"),
        ("apiVersion: v1\nkind: Service\nmetadata: {name: x}\nspec: {prots: []}", "kubernetes", "prots"),
        ("- {alert: X, expr: 'up ==', for: 5m}", "rules", "parse error"),
        ("scrape_configs: [{job_name: x, static_config: []}]", "prometheus", "static_config"),
        ("route: {receiver: x}\nreceivers: [{name: y}]", "alertmanager", "undefined receiver"),
        ("a: [", "broken", "no YAML"),
    ],
)
def test_what_is_wrong_is_noticed(text: str, is_a: str, says: str, tmp_path: Path) -> None:
    assert kind(text) == is_a
    assert says in wrong(text, tmp_path)


def test_wrong_promql_is_noticed(tmp_path: Path) -> None:
    assert "parse error" in expression("sum by user (x)", tmp_path)
