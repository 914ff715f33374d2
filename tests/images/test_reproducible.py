"""The same sources give the same image."""

from __future__ import annotations

import pytest

from tests.images import tree
from tests.images.fixtures import TIMEOUT
from tests.images.image import Image, build
from tests.images.store import Store

pytestmark = pytest.mark.timeout(TIMEOUT)

EPOCH = 1580601600


def test_two_builds_are_the_same_files(exporter_image: Image, image_store: Store) -> None:
    """Contents, modes, owners, and times up to the moment that an engine's `rewrite-timestamp` sets."""
    second = build("exporter", image_store, like=exporter_image)
    assert second.root != exporter_image.root
    one, other = (tree.entries(image.root, until=EPOCH) for image in (exporter_image, second))
    assert {name for name in one.keys() | other.keys() if one.get(name) != other.get(name)} == set()
    assert tree.digest(one) == tree.digest(other)
