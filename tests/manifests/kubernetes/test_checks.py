"""What schemas miss: nothing is wrong with what is rendered, and each check finds what it is for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .checks import CHECKS, objections
from .checks.cluster import Cluster
from .rendering import Object, Variant
from .spoiled import ROWS, Spoiled
from .variants import EVERY, PROVIDED, installed, objects

EVERYTHING = Variant(
    "overlays/prometheus-operator",
    ("components/pod-names", "components/openshift", "components/creator-policy"),
)
"""Most of the kinds that we have."""


@pytest.mark.parametrize("variant", EVERY, ids=str)
def test_a_cluster_has_nothing_against_it(variant: Variant) -> None:
    assert objections(objects(variant), provided=PROVIDED) == []


def test_a_cluster_has_nothing_against_what_is_installed() -> None:
    assert objections(installed(), provided=PROVIDED) == []


@pytest.fixture
def everything() -> Iterator[list[Object]]:
    """Each test spoils its own."""
    found = objects(EVERYTHING)
    assert objections(found, provided=PROVIDED) == []
    return found


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.what)
def test_what_is_spoiled_is_found(row: Spoiled, everything: list[Object]) -> None:
    row.spoil(everything)
    said = list(row.check(Cluster(tuple(everything), PROVIDED)))
    assert [one for one in said if row.said in one], said
    assert set(said) <= set(objections(everything, provided=PROVIDED))


def test_no_check_is_without_an_example() -> None:
    assert {row.check for row in ROWS} == set(CHECKS)
    assert len({row.what for row in ROWS}) == len(ROWS)
