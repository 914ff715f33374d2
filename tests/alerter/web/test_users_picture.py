"""The histogram of users as Chromium draws it: bars stand where they should, as high as what they stand for."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence

import pytest
from PIL import Image, ImageColor
from playwright.sync_api import Locator, Page, expect

from dutycycle_alerter.usage import BINS, UserUsage, hours_histogram, users_histogram
from tests.alerter.web.conftest import Client
from tests.alerter.web.doubles import FixedReader
from tests.alerter.web.test_browser import DESK, PHONE, chromium, fits, visit

__all__ = ["chromium", "visit"]

pytestmark = pytest.mark.browser

HOUR = 3600.0
LOW_BINS = range(3)
"""Those under 15 %."""
COLOURS = {
    "light": {"low": "#cb6824", "rest": "#3f84c6", "ground": "#ffffff"},
    "dark": {"low": "#ec9150", "rest": "#58a6e0", "ground": "#171e27"},
}
"""Of the style sheet."""


def user(name: str, percent: float, hours: float) -> UserUsage:
    return UserUsage(name, hours * HOUR, hours * HOUR, hours * HOUR * percent / 100)


PEOPLE = (
    user("alice", 0, 1000),
    *(user(f"low{n}", 12.5, 10) for n in range(8)),
    user("edge", 15, 250),
    *(user(f"half{n}", 52, 40) for n in range(4)),
    user("ninety", 94.9, 500),
    user("full", 100, 700),
    user("also full", 97, 50),
    # Nothing was measured of this one.
    UserUsage("mig", 300 * HOUR, 0.0, 0.0),
)


@pytest.fixture(params=["light", "dark"])
def scheme(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=[PHONE, DESK], ids=["phone", "desk"])
def page(request: pytest.FixtureRequest, scheme: str, serve: Callable[..., Client], visit: Callable[..., Page]) -> Page:
    client = serve(FixedReader(people=PEOPLE))
    return visit(f"{client.url}users", viewport=request.param, color_scheme=scheme)


def pictures(page: Page) -> list[tuple[Locator, Sequence[float]]]:
    """Each histogram with the value of every bin."""
    counts, hours = users_histogram(PEOPLE), hours_histogram(PEOPLE)
    found = page.locator("svg.histogram")
    expect(found).to_have_count(2)
    return [(found.nth(0), counts), (found.nth(1), hours)]


def test_bars_are_as_high_as_their_values(page: Page) -> None:
    assert fits(page)
    for picture, values in pictures(page):
        expect(picture).to_be_visible()
        bars, width, floor = picture.evaluate("""
            svg => {
                const at = svg.getBoundingClientRect();
                const line = svg.querySelector('.floor').getBoundingClientRect();
                const bars = [...svg.querySelectorAll('.bar')].map(bar => {
                    const box = bar.getBoundingClientRect();
                    return [box.left - at.left, box.right - at.left, box.top - at.top, box.bottom - at.top];
                });
                return [bars, at.width, line.top - at.top];
            }
        """)
        drawn = {int(BINS * (left + right) / 2 / width): (top, bottom) for left, right, top, bottom in bars}
        assert drawn.keys() == {place for place, value in enumerate(values) if value}
        highest = max(bottom - top for top, bottom in drawn.values())
        assert highest > 100
        for place, (top, bottom) in drawn.items():
            assert bottom == pytest.approx(floor, abs=1)
            assert bottom - top == pytest.approx(max(2, highest * values[place] / max(values)), abs=1)
        assert all(0 <= left < right <= width for left, right, _, _ in bars)


def test_bars_are_on_the_screen(page: Page, scheme: str) -> None:
    """Column by column of a screenshot: from the floor up in the bar's colour, and then no more."""
    colours = {name: ImageColor.getrgb(code) for name, code in COLOURS[scheme].items()}
    for picture, values in pictures(page):
        box = picture.bounding_box()
        assert box is not None
        floor = picture.locator(".floor").evaluate("line => line.y1.baseVal.value")
        with Image.open(io.BytesIO(picture.screenshot())) as opened:
            shot = opened.convert("RGB")
        tallest = floor - 20
        for place, value in enumerate(values):
            x = round(box["width"] * (place + 0.5) / BINS)
            wanted = colours["low" if place in LOW_BINS else "rest"]
            height = 0
            while near(shot.getpixel((x, round(floor) - 3 - height)), wanted):
                height += 1
            if value:
                assert height + 3 == pytest.approx(max(2, tallest * value / max(values)), abs=3), place
            else:
                assert near(shot.getpixel((x, round(floor) - 3)), colours["ground"]), place


def test_share_and_median_stand_beside_it(page: Page) -> None:
    tiles = page.locator(".tiles")
    expect(tiles).to_contain_text("9 of 17")
    expect(tiles).to_contain_text("53 % of users")
    expect(tiles).to_contain_text("Median user")
    expect(tiles).to_contain_text("12 % mean utilization")


def near(colour: object, wanted: tuple[int, ...]) -> bool:
    """The same but for the rounding of a browser's blending."""
    assert isinstance(colour, tuple)
    return all(abs(a - b) <= 8 for a, b in zip(colour, wanted, strict=True))
