"""A certificate, and probes that wait for longer than those of a run."""

from __future__ import annotations

import subprocess
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.chaos import probes
from tests.fakes.smtp.fixtures import mail_certificate

__all__ = ["mail_certificate"]


@pytest.fixture
def patient_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A probe that is a program may take as long to begin as it does on a busy machine."""

    run = subprocess.run

    def patiently(*arguments: Any, **options: Any) -> Any:
        return run(*arguments, **options | {"timeout": 120})

    monkeypatch.setattr(probes, "subprocess", SimpleNamespace(run=patiently))
