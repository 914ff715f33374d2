"""Recording rules over data that a Prometheus already has: what they would have recorded, had they been there."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import yaml

from tests.prometheus.server import PrometheusServer, program

RULES = Path(__file__).parents[2] / "manifests" / "prometheus" / "dutycycle-recording.rules.yaml"
"""The real ones."""

Span = tuple[float, float]


def evaluate(
    server: PrometheusServer, spans: Iterable[Span], *, choose: Callable[[str], bool] = lambda _: True
) -> None:
    """Every rule whose record is chosen, at every time of its group's within the spans; the server starts again.

    Groups are evaluated one after the other, and marks before what is made from them: promtool asks the server, which
    does not see yet what is being written. So a rule that looks whether it recorded something before is evaluated under
    another name first, and looks there.
    """
    spans = list(spans)
    for group in yaml.safe_load(RULES.read_text())["groups"]:
        rules = [rule for rule in group["rules"] if choose(rule["record"])]
        for part in (
            [rule for rule in rules if rule["record"].endswith(":counted")],
            [{**rule, "record": _left(rule)} for rule in rules if rule["record"] in rule["expr"]],
            [
                {**rule, "expr": rule["expr"].replace(rule["record"], _left(rule))}
                for rule in rules
                if not rule["record"].endswith(":counted")
            ],
        ):
            if part:
                _record(server, {**group, "rules": part}, spans)
                server.stop()
                server.start()


def _left(rule: dict[str, str]) -> str:
    return f"{rule['record']}:left"


def _record(server: PrometheusServer, group: dict[str, Any], spans: Iterable[Span]) -> None:
    # A group's times depend on the path of its file as it is given: this one's are always the same.
    (server.directory / "rules.yaml").write_text(yaml.safe_dump({"groups": [group]}))
    for start, end in spans:
        command = ["tsdb", "create-blocks-from", "rules", f"--start={start:.0f}", f"--end={end:.0f}"]
        flags = [f"--url={server.url}", f"--output-dir={server.data}", f"--eval-interval={group['interval']}"]
        done = subprocess.run(
            [program("promtool"), *command, *flags, "rules.yaml"],
            cwd=server.directory,
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
        # It says what went wrong, and ends as if nothing had.
        assert done.returncode == 0, done.stderr
        assert "err=" not in done.stderr, done.stderr
