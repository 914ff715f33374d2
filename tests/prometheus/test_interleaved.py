"""Groups of rules that interleave: what one stores while another is evaluated is counted once, in this or the next.

A real Prometheus evaluates the real expressions with seconds in place of minutes, the hour's left out. Twelve groups of
increments at other phases meet one of copies, which takes its time. Nothing is said of when: what was recorded is
compared with what the copies say of the same instants.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml

from dutycycle_dashboards import recording
from tests.dashboards.answers.asking import instant
from tests.prometheus.server import PATIENCE, PrometheusServer

BUSY = "workload_gpu_busy_seconds_total"
COPY, MARK = recording.copy_of(BUSY), recording.counted(BUSY)
EXPR = {rule.record: rule.expr for group in recording.groups() for rule in group.rules}
INCREMENT = recording.increase(BUSY, "5m")
GROUPS = 12
ENOUGH = 2
"""Evaluations of each group that are compared."""


def scaled(expr: str) -> str:
    """Minutes as seconds; half an interval is 2.5 of these."""
    return re.sub(r"\b(\d+)m\b", r"\1s", expr.replace("150s", "2500ms"))


def rules() -> dict[str, Any]:
    """The copies' group has a rule that takes its time, so that copies are stored within evaluations of others."""
    slow = {"record": "slow", "expr": "count(sum_over_time(vector(1)[200s:1ms]))"}
    copy = {"record": COPY, "expr": 'label_replace(vector(time()), "user", "u", "", "")'}
    groups = [{"name": "copies", "interval": "1s", "rules": [slow, copy]}]
    for number in range(GROUPS):
        mark = f"{MARK}{number}"
        made = {"record": f"increment{number}", "expr": scaled(EXPR[INCREMENT]).replace(MARK, mark)}
        marks = {"record": mark, "expr": scaled(EXPR[MARK])}
        groups.append({"name": f"increments {number}", "interval": "5s", "rules": [made, slow, marks]})
    return {"groups": groups}


def recorded(server: PrometheusServer, name: str) -> dict[float, float]:
    rows = instant(server.url, f"{name}[5m]", time.time())
    return {at: float(value) for row in rows for at, value in row["values"]}


class Watched:
    """When each copy was seen to be there: it was stored by then."""

    def __init__(self, server: PrometheusServer) -> None:
        self._server = server
        self._seen: dict[float, float] = {}

    def look(self) -> None:
        for row in instant(self._server.url, COPY, time.time()):
            self._seen.setdefault(float(row["value"][1]), time.time())

    def settled(self, at: float, copies: Iterable[float]) -> bool:
        """Whether what an evaluation reads of a second ago was there when it began; `copies` are all that
        were stored, as one may have come between two looks.
        """
        newest = max((copy for copy in copies if copy <= at - 1), default=math.inf)
        return self._seen.get(newest, math.inf) < at


def compared(server: PrometheusServer, watched: Watched, number: int) -> list[tuple[float, float]]:
    """Of each evaluation but the first, if it could read what was settled: its increment, and by how much its mark is
    beyond the one before.
    """
    made, marks = recorded(server, f"increment{number}"), recorded(server, f"{MARK}{number}")
    copies = recorded(server, COPY).values()
    instants = pairwise(sorted(marks))
    return [(made[at], marks[at] - marks[before]) for before, at in instants if watched.settled(at, copies)]


def test_what_is_stored_between_an_increment_and_its_mark_is_counted_once(tmp_path: Path) -> None:
    path = tmp_path / "rules.yaml"
    path.write_text(yaml.safe_dump(rules()))
    with PrometheusServer(tmp_path / "prometheus", rules=[path]) as server:
        watched, end = Watched(server), time.monotonic() + PATIENCE
        found: list[list[tuple[float, float]]] = [[]]
        while min(map(len, found)) < ENOUGH and time.monotonic() < end:
            for _ in range(20):
                watched.look()
                time.sleep(0.05)
            found = [compared(server, watched, number) for number in range(GROUPS)]
    assert any(found)
    for number, evaluations in enumerate(found):
        assert [increment for increment, _ in evaluations] == [grew for _, grew in evaluations], number
