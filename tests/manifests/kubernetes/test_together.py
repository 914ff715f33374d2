"""All components go together, in any order: a cluster takes what comes of them, and each keeps what it has changed."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from .checks import objections
from .flattened import Leaf, leaves
from .rendering import Variant
from .variants import ALL_AT_ONCE, COMPONENTS, NEEDS, PROVIDED, objects


@cache
def _base() -> frozenset[Leaf]:
    return frozenset(leaves(objects(Variant("base"))))


@cache
def _changed(variant: Variant) -> tuple[frozenset[Leaf], frozenset[Leaf]]:
    """What a rendering has more than the base, and what less."""
    after = leaves(objects(variant))
    return frozenset(after - _base()), frozenset(_base() - after)


@pytest.mark.parametrize("order", ALL_AT_ONCE)
def test_a_cluster_has_nothing_against_all_at_once(order: str) -> None:
    assert objections(objects(ALL_AT_ONCE[order]), provided=PROVIDED) == []


@pytest.mark.parametrize("order", ALL_AT_ONCE)
@pytest.mark.parametrize("name", COMPONENTS)
def test_a_component_keeps_what_it_changes(name: str, order: str) -> None:
    """Patches by place in a list, and lists that replace each other, would lose what the one before has put there."""
    added, removed = _changed(ALL_AT_ONCE[order])
    own_added, own_removed = _changed(Variant("base", (*NEEDS.get(name, ()), name)))
    assert (own_added - added) | (own_removed - removed) == set()


def _own(name: str) -> frozenset[Leaf]:
    return _changed(Variant("base", (*NEEDS.get(name, ()), name)))[0]


def test_none_hides_that_another_has_lost_what_both_add() -> None:
    """All at once a third may put back what a second took from a first: of those that say the same, each by itself."""
    same = {one: {other for other in COMPONENTS if other != one and _own(one) & _own(other)} for one in COMPONENTS}
    twins = {one: found - set(NEEDS.get(one, ())) for one, found in same.items() if found - set(NEEDS.get(one, ()))}
    assert twins, "or this is no test"
    for name, found in twins.items():
        others = tuple(one for one in COMPONENTS if one not in found)
        for order in (others, others[::-1]):
            assert _own(name) - _changed(Variant("base", order))[0] == set(), name


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
