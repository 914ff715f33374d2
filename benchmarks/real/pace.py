"""The shipped recording rules at another pace: durations are divided by the time scale, all else stays as it is."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from tests.prometheus.evaluated import RULES

_UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"(?<![\w.])((?:\d+(?:ms|[smhd]))+)(?![\w])")


def scaled_rules(path: Path, time_scale: float) -> Path:
    """The shipped recording rules with every duration divided, as all else is; without those of hours, which a board
    reads for more than two days.
    """
    groups = yaml.safe_load(RULES.read_text())
    groups["groups"] = [group for group in groups["groups"] if not group["name"].endswith("-hourly")]
    for group in groups["groups"]:
        group["interval"] = scaled(group["interval"], time_scale)
        for rule in group["rules"]:
            rule["expr"] = scaled(rule["expr"], time_scale)
    path.write_text(yaml.safe_dump(groups, width=10_000))
    return path


def scaled(text: str, time_scale: float) -> str:
    """PromQL, or a duration, with its durations divided."""

    def divided(match: re.Match[str]) -> str:
        parts = re.findall(r"(\d+)(ms|[smhd])", match[1])
        total = sum(int(number) * _UNITS[unit] for number, unit in parts)
        return f"{max(1, round(total / time_scale))}ms"

    return _DURATION.sub(divided, text)
