"""A page or a message names one zone for its times, that of now: what is of another says so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from dutycycle_alerter.analysis import analyze
from dutycycle_alerter.notify.links import Action
from dutycycle_alerter.notify.model import Telling
from dutycycle_alerter.settings import Settings
from dutycycle_alerter.settings.notify import News
from dutycycle_alerter.web.report import report
from tests.alerter.notify.composing.parcels import NOW as NOVEMBER
from tests.alerter.notify.composing.parcels import composition, idle_on_slurm, resolved, told
from tests.alerter.recordings.rows import recording, steady
from tests.alerter.web.conftest import KEY, Client
from tests.alerter.web.doubles import NOW, FixedReader, incident
from tests.alerter.web.html import parse
from tests.alerter.web.linking import ALICE, LINKS, PUBLIC, path

BERLIN = ZoneInfo("Europe/Berlin")
WINTER = datetime(2026, 2, 1, 13, 5, tzinfo=UTC).timestamp()
"""NOW is in summer."""


def test_a_page_says_of_which_zone_a_moment_before_the_change_is(serve: Callable[..., Client]) -> None:
    reader = FixedReader(found=[incident(started_at=WINTER)])
    page = parse(serve(reader, zone=BERLIN).page("/incidents/7"))
    assert "Times are CEST." in page.words
    assert "Sun 1 Feb, 14:05 CET" in page.words
    assert "as clocks go here (now CEST)" in page.words
    assert not any(" CEST" in one.words for one in page.all("time"))


@pytest.mark.parametrize(("began", "said"), [(WINTER, "Sun 1 Feb, 14:05 CET"), (NOW - 60, "16:12 CEST")])
def test_the_page_of_a_link_names_the_zone_once(serve: Callable[..., Client], began: float, said: str) -> None:
    client = serve(FixedReader(found=[incident(started_at=began)]), zone=BERLIN, key=KEY, public_url=PUBLIC)
    page = parse(client.page(path(LINKS.action(7, Action.ACKNOWLEDGE, ALICE, now=NOW))))
    assert page.all("main")[0].all("p")[2].words.endswith(f"since {said}")


def test_an_analysis_names_the_zone_of_what_is_of_another_season() -> None:
    """START is in winter."""
    made = analyze(recording(steady(0.0, 60, processes=0.0)), Settings())
    assert made.findings
    page = parse(report(made, BERLIN, now=NOW))
    assert "times are CEST." in page.words
    assert [one.words for one in page.all("time")] == ["14 Nov 2023, 23:23 CET", "21 Sep 2026, 16:13"]
    assert "CET" in [span.words for span in page.all("span")]


def test_a_message_says_of_which_zone_a_moment_before_the_change_is() -> None:
    """A job of October, told of in November: also the end beside its beginning is of October."""
    autumn = datetime(2023, 10, 20, 12, 5, tzinfo=UTC).timestamp()
    over = replace(resolved(idle_on_slurm()), started_at=autumn, resolved_at=autumn + 3600)
    text = composition().mail(told(over, Telling(News.RESOLVED, NOVEMBER))).text
    assert "Times are CET." in text
    assert "Fri 20 Oct, 14:05 CEST" in text
    assert "15:05 CEST" in text
