"""The same sources give the same image, also on a machine of another name and in another time zone."""

from __future__ import annotations

import pytest

from tests.images import tree
from tests.images.fixtures import TIMEOUT
from tests.images.image import Image, build
from tests.images.store import Store

pytestmark = pytest.mark.timeout(TIMEOUT)

EPOCH = 1580601600


@pytest.mark.parametrize(
    "component",
    [
        "exporter",
        # Another minute, and 400 MB, for packages that the exporter does not have.
        pytest.param("alerter", marks=pytest.mark.soak),
    ],
)
def test_two_builds_are_the_same_files(component: str, image_store: Store, request: pytest.FixtureRequest) -> None:
    """Contents, modes, owners, and times up to the moment that an engine's `rewrite-timestamp` sets."""
    first: Image = request.getfixturevalue(f"{component}_image")
    second = build(component, image_store, like=first)
    assert second.root != first.root
    one, other = (tree.entries(image.root, until=EPOCH) for image in (first, second))
    assert {name for name in one.keys() | other.keys() if one.get(name) != other.get(name)} == set()
    assert tree.digest(one) == tree.digest(other)
