"""Figures without pyplot: places in pixels, the colours, text that is never read as markup, and the way to PNG."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any, NamedTuple

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, get_font
from matplotlib.patches import PathPatch, Rectangle
from matplotlib.path import Path
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from dutycycle_alerter.printable import printable

INK = "#1c2530"
BUSY = "#3f84c6"
IDLE = "#d0702a"
QUIET = 0.66
"""Opacity of secondary text."""
FAINT = 0.16
"""Opacity of guide lines."""

_COLOURS = 48
_PIXELS_PER_INCH = 72
_FONT = "DejaVu Sans"
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"

Shape = Sequence[tuple[float, float]]

# Read while a figure is drawn, so it has to be global. Nothing else in the process uses matplotlib.
mpl.rcParams.update({"font.family": _FONT, "path.simplify": False})


class Place(NamedTuple):
    """A rectangle in pixels, from the lower left corner of the figure."""

    left: float
    bottom: float
    width: float
    height: float


class Canvas:
    """A figure of so many pixels; the origin of every place is its lower left corner."""

    def __init__(self, width: float, height: float) -> None:
        self.width, self.height = width, height
        size = (width / _PIXELS_PER_INCH, height / _PIXELS_PER_INCH)
        self._figure = Figure(figsize=size, dpi=_PIXELS_PER_INCH, facecolor="white")

    def axes(self, place: Place) -> Axes:
        """Bare axes: no frame, no tick marks, no background."""
        made = self._figure.add_axes(self._relative(place))
        made.set_facecolor("none")
        made.tick_params(length=0, labelsize=10.5, labelcolor=INK)
        for side in made.spines.values():
            side.set_visible(False)
        return made

    def text(self, x: float, y: float, text: str, *, size: float = 11, quiet: bool = False, **options: Any) -> None:
        """Hostile text stays text: no markup, no control characters, and what the font lacks is shown as missing."""
        style = {"fontsize": size, "color": INK, "alpha": QUIET if quiet else None, "va": "center", **options}
        self._figure.text(x / self.width, y / self.height, drawable(text), parse_math=False, **style)

    def box(self, place: Place, color: str, *, alpha: float = 1) -> None:
        """A filled rectangle."""
        left, bottom, width, height = self._relative(place)
        style = {"color": color, "alpha": alpha, "linewidth": 0}
        self._figure.add_artist(
            Rectangle((left, bottom), width, height, transform=self._figure.transFigure, **style)  # type: ignore[arg-type]
        )

    def _relative(self, place: Place) -> tuple[float, float, float, float]:
        return (
            place.left / self.width,
            place.bottom / self.height,
            place.width / self.width,
            place.height / self.height,
        )

    def png(self, *, title: str) -> bytes:
        """The picture at twice the size, for dense screens."""
        return self._drawn(title, scale=2)

    def small_png(self, *, title: str, largest: int) -> bytes:
        """The picture with few colours, and at its own size where it would have more than `largest` bytes otherwise."""
        dense = _few_colours(self._drawn(title, scale=2), title)
        return dense if len(dense) <= largest else _few_colours(self._drawn(title, scale=1), title)

    def _drawn(self, title: str, *, scale: int) -> bytes:
        pixels = io.BytesIO()
        self._figure.savefig(
            pixels, format="png", dpi=scale * _PIXELS_PER_INCH, metadata={"Software": None, "Title": title}
        )
        return pixels.getvalue()


def _few_colours(png: bytes, title: str) -> bytes:
    """A palette instead of true colour: a third of the size, and nobody can tell."""
    said = PngInfo()
    said.add_text("Title", title)
    smaller = io.BytesIO()
    with Image.open(io.BytesIO(png)) as picture:
        few = picture.convert("RGB").quantize(_COLOURS, dither=Image.Dither.NONE)
    few.save(smaller, format="PNG", optimize=True, pnginfo=said)
    return smaller.getvalue()


def fill(at: Axes, shapes: Sequence[Shape], **style: Any) -> None:
    """Closed shapes as one path: hundreds of small elements would make a page slow."""
    _draw(at, shapes, closed=True, **{"linewidth": 0, **style})


def stroke(at: Axes, shapes: Sequence[Shape], **style: Any) -> None:
    """Open lines as one path."""
    _draw(at, shapes, closed=False, **{"facecolor": "none", **style})


def _draw(at: Axes, shapes: Sequence[Shape], *, closed: bool, **style: Any) -> None:
    vertices: list[tuple[float, float]] = []
    codes: list[int] = []
    for shape in shapes:
        vertices += shape
        codes += [int(Path.MOVETO), *[int(Path.LINETO)] * (len(shape) - 1)]
        if closed:
            vertices.append(shape[0])
            codes.append(int(Path.CLOSEPOLY))
    if vertices:
        at.add_patch(PathPatch(Path(vertices, codes), **style))


def width_of(text: str, size: float, *, bold: bool = False) -> float:
    """Width in pixels of a text as `Canvas.text` draws it."""
    font = get_font(findfont(FontProperties(family=_FONT, weight="bold" if bold else "normal")))
    font.set_size(size, _PIXELS_PER_INCH)
    font.set_text(drawable(text), 0.0)
    # FreeType counts in 64ths of a pixel.
    return float(font.get_width_height()[0]) / 64


def drawable(text: str) -> str:
    """The text with each character that the font cannot draw replaced."""
    text = printable(text)
    if text.isascii():
        return text
    known = get_font(findfont(FontProperties(family=_FONT))).get_charmap()
    return "".join(c if ord(c) in known else _REPLACEMENT for c in text)


def cut(text: str, limit: int) -> str:
    """A name that fits its place: the middle left out, since names differ at both ends."""
    if len(text) <= limit:
        return text
    return text[: limit // 2] + "…" + text[len(text) - (limit - limit // 2 - 1) :]
