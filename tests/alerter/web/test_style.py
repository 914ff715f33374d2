"""The style sheet: text can be read on what it stands on, in both schemes, and nothing comes from elsewhere."""

from __future__ import annotations

import re

import pytest

from dutycycle_alerter.web.templating import STATIC

SHEET = (STATIC / "style.css").read_text()

# Foreground, background: WCAG AA asks 4.5:1 of text and 3:1 of what is drawn.
TEXT = [
    *(
        (text, ground)
        for text in ("text", "muted", "accent", "critical", "warning", "info", "ok")
        for ground in ("surface", "page")
    ),
    ("critical", "critical-bg"),
    ("warning", "warning-bg"),
    ("info", "info-bg"),
    ("ok", "ok-bg"),
    ("on-accent", "accent"),
    ("on-replay", "replay"),
    ("text", "code"),
]
DRAWN = [
    ("busy", "surface"),
    ("busy", "track"),
    ("busy", "held"),
    ("idle", "surface"),
    ("idle", "track"),
    ("idle", "held"),
    ("hatch", "surface"),
    ("text", "held"),
    ("accent", "page"),
]


def palette(scheme: str) -> dict[str, str]:
    light, dark = (
        dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", block))
        for block in re.findall(r":root \{(.*?)\}", SHEET, re.DOTALL)
    )
    return light if scheme == "light" else light | dark


def luminance(colour: str) -> float:
    """WCAG 2.2, relative luminance."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a: str, b: str) -> float:
    bright, dark = sorted((luminance(a), luminance(b)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(
    ("front", "back", "least"), [*((a, b, 4.5) for a, b in TEXT), *((a, b, 3.0) for a, b in DRAWN)]
)
def test_contrast(scheme: str, front: str, back: str, least: float) -> None:
    colours = palette(scheme)
    assert contrast(colours[front], colours[back]) >= least


def test_both_schemes_define_every_colour() -> None:
    light, dark = (
        set(re.findall(r"--([\w-]+): #", block)) for block in re.findall(r":root \{(.*?)\}", SHEET, re.DOTALL)
    )
    assert light == dark


def test_every_colour_that_is_used_is_defined() -> None:
    assert set(re.findall(r"var\(--([\w-]+)\)", SHEET)) <= set(palette("light"))


def test_nothing_comes_from_elsewhere() -> None:
    assert not re.search(r"url\(|@import|https?:", SHEET)


def test_contrast_of_black_on_white() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
