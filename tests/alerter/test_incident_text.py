"""One incident in a terminal: what its commands are for is said above them."""

from __future__ import annotations

from dataclasses import replace

from rich.console import Console

from dutycycle_alerter.cli.incident_text import incident_text
from dutycycle_alerter.incidents.model import Incident
from dutycycle_alerter.rules.purposes import Purpose
from tests.alerter.web.doubles import incident, status


def shown(one: Incident) -> list[str]:
    """Its lines."""
    console = Console(width=200, record=True, color_system=None)
    console.print(incident_text(one, [], status()))
    return [line.strip() for line in console.export_text().splitlines()]


def test_a_command_that_ends_the_job_stands_under_what_it_does() -> None:
    one = incident()
    lines = shown(replace(one, diagnosis=replace(one.diagnosis, commands=("scancel 1", "nvidia-smi"))))
    first = lines.index("Commands")
    assert lines[first + 1 : first + 5] == [
        f"{Purpose.LOOK.label}:", "nvidia-smi", f"{Purpose.END.label}:", "scancel 1"
    ]  # fmt: skip
