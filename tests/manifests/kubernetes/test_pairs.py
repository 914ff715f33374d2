"""Any two components go together: a cluster takes what comes of them, and each keeps what it has changed."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from .checks import objections
from .flattened import Leaf, leaves
from .rendering import Variant
from .variants import COMPONENTS, PAIRS, PROVIDED, objects


@cache
def _base() -> frozenset[Leaf]:
    return frozenset(leaves(objects(Variant("base"))))


@cache
def _changed(variant: Variant) -> tuple[frozenset[Leaf], frozenset[Leaf]]:
    """What a rendering has more than the base, and what less."""
    after = leaves(objects(variant))
    return frozenset(after - _base()), frozenset(_base() - after)


@pytest.mark.parametrize("first", COMPONENTS[:-1])
def test_two_components_go_together(first: str) -> None:
    """Patches by place in a list, and lists that replace each other, would lose what the one before has put there."""
    wrong: dict[tuple[str, str], object] = {}
    for (one, other), variant in PAIRS.items():
        if one != first:
            continue
        if refused := objections(objects(variant), provided=PROVIDED):
            wrong[str(variant), "refused"] = refused
        added, removed = _changed(variant)
        for name in (one, other):
            own_added, own_removed = _changed(Variant("base", (name,)))
            if lost := (own_added - added) | (own_removed - removed):
                wrong[str(variant), name] = lost
    assert wrong == {}


def test_the_pairs_are_all_there_are() -> None:
    assert len(PAIRS) == len(COMPONENTS) * (len(COMPONENTS) - 1) // 2 > 0


@pytest.mark.parametrize(
    ("changed", "lost"),
    [
        ({"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]}, set()),
        (
            {"env": [{"name": "B", "value": "2"}]},
            {("ConfigMap a env [A] name", "'A'"), ("ConfigMap a env [A] value", "'1'")},
        ),
        ({"env": [{"name": "A", "value": "2"}]}, {("ConfigMap a env [A] value", "'1'")}),
        ({}, {("ConfigMap a env [A] name", "'A'"), ("ConfigMap a env [A] value", "'1'")}),
    ],
)
def test_what_is_lost_is_seen(changed: dict[str, Any], lost: set[tuple[str, str]]) -> None:
    named = {"kind": "ConfigMap", "metadata": {"name": "a-1"}}
    assert leaves([named | {"env": [{"name": "A", "value": "1"}]}]) - leaves([named | changed]) == lost
