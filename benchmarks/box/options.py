"""The command line of a fleet in a box."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from benchmarks import results

from .parameters import DEFAULT
from .play import BoxSettings

SEEDS = range(1, 21)
_FASTEST = 1000
"""The highest time scale that is proposed."""


def options(arguments: Sequence[str] | None, about: str) -> argparse.Namespace:
    """What is wanted; ends the process where that cannot be."""
    usual = BoxSettings()
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.box", description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    results.arguments(parser)
    parser.add_argument("--seeds", "--seed", type=seeds, default=None, help="as 1-20 or 3,7 (1-20; quick: 1)")
    parser.add_argument("--parameters", type=Path, default=DEFAULT, help="the workload's parameters")
    parser.add_argument(
        "--time-scale",
        type=_positive,
        default=usual.time_scale,
        help=f"how many times as fast as it is told ({usual.time_scale:g}); seeds of one figure may differ in it",
    )
    parser.add_argument(
        "--processes",
        type=int,
        default=usual.processes,
        help=f"nodes with an exporter's process of their own ({usual.processes})",
    )
    for name, what in (
        ("interval", "seconds between two scrapes"),
        ("read-interval", "seconds between two readings of NVML"),
        ("pass-interval", "seconds between two passes of the alerter"),
    ):
        value = getattr(usual, name.replace("-", "_"))
        parser.add_argument(f"--{name}", type=_positive, default=value, help=f"{what}, at full length ({value:g})")
    parser.add_argument("--resume", type=Path, help="keep outcomes here, and play what has none yet")
    parser.add_argument("--score", action="store_true", help="score what is kept, and play nothing")
    parser.add_argument("--late", action="store_true", help="score also what this machine was too slow for")
    found = parser.parse_args(arguments)
    found.seeds = found.seeds or ([1] if found.quick else list(SEEDS))
    if found.score and found.resume is None:
        parser.error("--score needs --resume: where the outcomes are")
    if why := unplayable(found.interval, found.time_scale):
        parser.error(why)
    return found


def seeds(text: str) -> list[int]:
    """Of ranges and numbers. Raises ArgumentTypeError."""
    found: list[int] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        last = last if dash else first
        if not first.isdecimal() or not last.isdecimal() or int(last) < int(first):
            raise argparse.ArgumentTypeError(f"{text!r} is no list of seeds: write it like 1-20 or 3,7")
        found += range(int(first), int(last) + 1)
    return found


def unplayable(interval: float, time_scale: float) -> str:
    """Why no alerter takes these seconds between scrapes at this time scale, and which scales it takes; empty where it
    does: PromQL knows no time shorter than a millisecond.
    """
    if _whole(interval, time_scale):
        return ""
    known = [float(scale) for scale in range(1, _FASTEST + 1) if _whole(interval, scale)]
    below = max((scale for scale in known if scale < time_scale), default=None)
    above = min((scale for scale in known if scale > time_scale), default=None)
    nearest = " or ".join(f"{scale:g}" for scale in (below, above) if scale is not None)
    length = f"--interval {interval:g} at --time-scale {time_scale:g} is {1000 * interval / time_scale:.6g} ms"
    other = f"--time-scale {nearest}" if nearest else "another interval"
    return f"{length}, and it must be whole milliseconds: take {other}"


def _whole(interval: float, time_scale: float) -> bool:
    step = 1000 * interval / time_scale
    return round(step) > 0 and abs(step - round(step)) <= 1e-6 * step


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is no number above 0")
    return value
