"""Incidents of GPUs and nodes as people see them: in a title, on the page, in a terminal; nothing of a job in it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from rich.console import Console

from dutycycle_alerter.answers import incident_shape
from dutycycle_alerter.cli.incident_text import incident_text
from dutycycle_alerter.cli.tables import places
from dutycycle_alerter.headline import headline, subject_name
from dutycycle_alerter.incidents.audience import Audience, audience
from dutycycle_alerter.incidents.model import Event, EventKind, Incident
from tests.alerter.devices import one_of_each
from tests.alerter.web.conftest import Client
from tests.alerter.web.conftest import serve as serve  # noqa: PLC0414 - a fixture
from tests.alerter.web.doubles import FixedReader, incident, status
from tests.alerter.web.html import parse

Serve = Callable[..., Client]
TITLES = (
    "The GPU reported XID 95",
    "The GPU needs attention",
    "2 of 8 GPUs are lost",
    "9.0 GiB of GPU memory held by nobody",
    "The GPU is slowed down by heat or the power brake",
    "The GPU runs at its power limit",
)
ALL = list(zip(one_of_each(), TITLES, strict=True))
NAMES = ("GPU", "GPU", "Node", "GPU", "GPU", "GPU")


@pytest.mark.parametrize(("item", "title"), ALL)
def test_titles(item: Incident, title: str) -> None:
    assert headline(item) == title


def test_subjects_are_called_what_they_are() -> None:
    assert tuple(subject_name(item) for item in one_of_each()) == NAMES
    assert subject_name(incident()) == "Job"
    # A job of a cluster that is called like a subject is still a job.
    assert subject_name(incident(subject="node/slurm/1")) == "Job"


def test_they_are_the_operators() -> None:
    assert [audience(item) for item in one_of_each()] == [Audience.OPERATORS] * 5 + [Audience.NOBODY]


@pytest.mark.parametrize(("item", "title"), ALL)
def test_the_page_of_one(serve: Serve, item: Incident, title: str) -> None:
    history = [Event(item.opened_at, EventKind.OPENED, item.diagnosis.evidence[0])]
    page = parse(serve(FixedReader(found=[item], history=history)).page(f"/incidents/{item.id}"))
    words = page.words
    assert page.all("h1")[0].words == title
    assert f"{subject_name(item)} {item.subject}" in words
    assert [code.words for code in page.all("code")] == [" ".join(c.split()) for c in item.diagnosis.commands]
    for nonsense in ("Job ", "Wasted", "Energy drawn", "GPU-hours", "In guides", "unknown user", "0 of"):
        assert nonsense not in words
    assert "operators" in words


def test_the_list(serve: Serve) -> None:
    page = parse(serve(FixedReader(found=[*one_of_each(), incident()])).page("/")).all("main")[0]
    rows = [row.words for row in page.all("tbody")[0].all("tr")]
    for row, (item, title) in zip(rows, ALL, strict=False):
        assert title in row
        assert f"operators {item.subject}" in row
        assert "GPU-h" not in row
    assert "node1" in rows[2]
    assert "node1:" not in rows[2]
    assert "2.0 GPU-h" in rows[-1]


@pytest.mark.parametrize(("item", "title"), ALL)
def test_one_in_a_terminal(item: Incident, title: str) -> None:
    console = Console(width=200, record=True, color_system=None)
    console.print(incident_text(item, [], status()))
    text = console.export_text()
    assert title in text
    assert f"{subject_name(item)} {item.subject}" in text
    for command in item.diagnosis.commands:
        assert command in text
    for nonsense in ("Wasted", "Energy", "In guides"):
        assert nonsense not in text


def test_a_node_is_a_place_of_its_own() -> None:
    assert [places(item).plain for item in one_of_each()][2:4] == ["node1", "node0:3 (1 MIG)"]


@pytest.mark.parametrize(("item", "title"), ALL)
def test_the_api_tells_the_class(item: Incident, title: str) -> None:
    shape = incident_shape(item, time_scale=1)
    assert (shape.kind, shape.rule, shape.title, shape.user) == (item.rule, item.rule, title, "")
    assert shape.figures == item.figures
