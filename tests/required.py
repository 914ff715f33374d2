"""What some tests need of the machine: without it they are skipped, and in CI, which must have it, they fail."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def lacking(what: str) -> NoReturn:
    """Ends the test that needs it. `what` is missing here: a program, a right."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"{what} is missing; CI must run this test")
    pytest.skip(f"{what} is missing")


@pytest.fixture
def root() -> None:
    """For tests that give files away, run as others, or take rights away."""
    if os.geteuid() != 0:
        lacking("root")
