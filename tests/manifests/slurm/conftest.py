"""Fixtures of the tests of the prolog and the epilog."""

import pytest

from .machine import Machine


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)
