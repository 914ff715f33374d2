"""What stands below a message to the user of a job: why they hear of it, and how to hear less."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dutycycle_alerter.notify.model import OPERATORS, Parcel, ParcelKind, Telling
from dutycycle_alerter.settings.notify import News
from tests.alerter.notify.composing.parcels import (
    ALICE,
    IDLE_LONG,
    NOW,
    UNSUBSCRIBE,
    WASTED,
    composition,
    many,
    parcels,
    told,
)
from tests.alerter.notify.composing.parcels import hesitating as small
from tests.alerter.web.html import parse
from tests.fakes.slack.rendering import seen

COMPOSER = composition()
NOTICED = Telling(News.OPENED, NOW)
WHY = f"You hear of it because {WASTED}. This is one of them."
FEWER = "(you then get only those about critical incidents, until you undo it on the same page)"


def test_the_user_of_a_job_reads_why_above_the_footer() -> None:
    parcel = told(small(), NOTICED, to=ALICE, because=WASTED)
    mail = COMPOSER.mail(parcel)
    assert f"\n\n{WHY}\n\n--\nThis is about a job of alice." in mail.text
    words = parse(mail.html).words
    assert words.index(WHY) < words.index("This is about a job of alice.")
    for threaded in (True, False):
        assert WHY in seen(COMPOSER.slack(parcel, threaded=threaded))
    for said in (mail.text, mail.html, seen(COMPOSER.slack(parcel))):
        assert said.count("You hear of") == 1


def test_what_comes_later_says_why_they_heard_of_it_first() -> None:
    """That it came now has another reason, which is what it tells."""
    for news in (News.ESCALATED, News.UPDATED):
        parcel = told(small(), Telling(news, NOW), to=ALICE, because=WASTED)
        for said in (COMPOSER.mail(parcel).text, seen(COMPOSER.slack(parcel))):
            assert WHY.replace("You hear", "You first heard") in said


def test_of_several_each_reason_is_said_once() -> None:
    parcel = parcels()["digest"]
    items = tuple(replace(item, because=WASTED if n % 3 else IDLE_LONG) for n, item in enumerate(many(30)))
    for kind, number in ((ParcelKind.DIGEST, 30), (ParcelKind.INCIDENTS, 3)):
        several = replace(parcel, kind=kind, to=ALICE, items=items[:number])
        for said in (COMPOSER.mail(several).text, seen(COMPOSER.slack(several))):
            assert said.count("You hear of these because ") == 1
            assert f", and because {WASTED}." in said
        assert "These are about jobs of alice." in COMPOSER.mail(several).text


@pytest.mark.parametrize("case", ["partly-idle-kubernetes", "resolved", "three", "weekly", "test"])
def test_who_hears_of_it_for_no_reason_of_their_own_reads_none(case: str) -> None:
    parcel = parcels()[case]
    if parcel.kind is not ParcelKind.REPORT:
        mail = COMPOSER.mail(parcel)
        assert "You hear of" not in mail.text + mail.html + seen(COMPOSER.slack(parcel))


def test_unsubscribing_can_be_seen_and_says_what_it_does() -> None:
    parcel = told(small(), to=ALICE)
    mail = COMPOSER.mail(parcel, unsubscribe=UNSUBSCRIBE)
    assert f"Fewer of these emails: {UNSUBSCRIBE}\n{FEWER}\n" in mail.text
    page = parse(mail.html)
    assert [link.words for link in page.all("a") if link.attributes["href"] == UNSUBSCRIBE] == ["Fewer of these emails"]
    assert f"Fewer of these emails {FEWER}" in page.words


@pytest.mark.parametrize("url", ["", "https://gpus.example.org/x y", 'javascript:alert("1")'])
@pytest.mark.parametrize("parcel", [told(small(), to=ALICE), told(small(), to=OPERATORS)])
def test_without_an_address_nothing_is_said_of_unsubscribing(parcel: Parcel, url: str) -> None:
    mail = COMPOSER.mail(parcel, unsubscribe=url)
    assert "Fewer" not in mail.text + mail.html
