"""The images as pytest fixtures; `tests/conftest.py` offers them to every test.

The first test that wants one waits until it is built, or until another worker has: `pytest.mark.timeout(TIMEOUT)`.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest

from tests.images.base import PROGRAMS
from tests.images.image import STORE, Image, build
from tests.images.store import Store
from tests.required import lacking

TIMEOUT = 1200


@pytest.fixture(scope="session")
def image_store() -> Iterator[Store]:
    """What is built once, for all workers and the next run."""
    if os.geteuid() != 0:
        lacking("root")
    if missing := [program for program in PROGRAMS if shutil.which(program) is None]:
        lacking(" and ".join(missing))
    store = Store(STORE)
    yield store
    store.close()


@pytest.fixture(scope="session")
def exporter_image(image_store: Store) -> Image:
    """What exporter/Dockerfile makes."""
    return build("exporter", image_store)


@pytest.fixture(scope="session")
def alerter_image(image_store: Store) -> Image:
    """What alerter/Dockerfile makes."""
    return build("alerter", image_store)
