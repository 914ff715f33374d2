"""What `dutycycle analyze` says of runs, by its command and its JSON."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

from benchmarks.real.comparison import Seen, Usage
from benchmarks.real.runs import Run, write
from tests.e2e.site import BIN

WINDOW = 1800.0
"""Of every rule for which utilization alone is the evidence: an incident opens so long after it began."""
RULES = ("idle", "partially_idle", "uneven", "underused")
WITHOUT_EVIDENCE = ("hung", "stalled", "low_sm_activity")
"""Rules that need what such a recording does not have: power limits, idle gaps within a row, GPM."""
JUDGING: Mapping[str, Any] = {"rules": {rule: {"enabled": False} for rule in WITHOUT_EVIDENCE}}


@dataclass(frozen=True)
class Analyzed:
    """Incidents by workload, in seconds of the run; users, and the histogram of users."""

    incidents: Mapping[str, tuple[Seen, ...]]
    users: Mapping[str, Usage]
    histogram: tuple[int, ...]
    seconds: float


def analyze(runs: Sequence[Run], directory: Path, name: str, *, judging: Mapping[str, Any], made: bool) -> Analyzed:
    """Of the runs as one recording, with or without the rows that were made for holes."""
    file, config = directory / f"{name}.csv.gz", directory / f"{name}.yaml"
    write(file, runs, made=made)
    config.write_text(yaml.safe_dump({"judging": dict(judging)}))
    command = [str(BIN / "dutycycle"), "analyze", "--json", "--config", str(config), str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr[-2000:]}")
    answer = json.loads(done.stdout)
    starts = {run.workload: run.start for run in runs}
    incidents: dict[str, list[Seen]] = {}
    for finding in answer["findings"]:
        begun = datetime.fromisoformat(finding["start"]).timestamp() - starts[finding["workload"]]
        ended = datetime.fromisoformat(finding["end"]).timestamp() - starts[finding["workload"]]
        seen = Seen(finding["rule"], begun + WINDOW, ended, finding["resolution"] or "")
        incidents.setdefault(finding["workload"], []).append(seen)
    return Analyzed(
        incidents={workload: tuple(sorted(seen, key=lambda one: one.opened)) for workload, seen in incidents.items()},
        users={
            user["user"]: Usage(3600 * user["observed_gpu_hours"], 3600 * user["busy_gpu_hours"])
            for user in answer["users_table"]
        },
        histogram=tuple(answer["users_histogram"]),
        seconds=3600 * answer["gpu_hours"],
    )
