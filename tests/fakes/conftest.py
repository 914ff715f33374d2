"""Fixtures of the doubles' own tests."""

import pytest

from tests.fakes.nvml.machine import Machine


@pytest.fixture
def machine(pynvml_double, nvml_driver, monkeypatch):
    made = []

    def make(**options):
        made.append(Machine(pynvml_double, nvml_driver, monkeypatch, **options))
        return made[-1]

    yield make
    for _ in made:
        pynvml_double.nvmlShutdown()
