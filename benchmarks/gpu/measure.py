"""The exporter and the alerter over programs on a real GPU whose mechanism is known.

    python -m benchmarks.gpu.measure                                  # everything: 13 minutes
    python -m benchmarks.gpu.measure starved idle --out figures
    python -m benchmarks.gpu.measure --quick                          # a few seconds each: that it works

Beside each program run an exporter, an alerter that scrapes it, `dutycycle record` and nvidia-smi, at a time scale at
which a window of half an hour is a minute. Compared are, over the time for which the program ran: the duty cycle with
what CUDA events say, the activity of the multiprocessors with that of a kernel that holds so many of them, energy with
nvidia-smi's power, and what the alerter found with what there was to be found. As root, with cgroup v2, the programs
are jobs with CPUs of their own, else process groups: then their CPU use is not known, nor causes that need it.

`--out` keeps the figures as JSON, the recording, logs and the alerter's store. Needs torch and an NVIDIA GPU. Exits
with 77 where there is none, with 1 where a duty cycle or SM activity is over 2 points off, energy over 2 %, or a
finding is not the one that was to be made; it names what.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks import results
from benchmarks.exits import NOT_HERE
from benchmarks.gpu import jobs
from benchmarks.gpu.aims import missed
from benchmarks.gpu.cases import CASES, Case, as_expected, verdict
from benchmarks.gpu.comparison import Figures, TooShortError, compare, until
from benchmarks.gpu.nvidia_smi import absent, query
from benchmarks.gpu.site import Site
from benchmarks.interruptible import run_until_interrupted

TIME_SCALE = 30.0
SECONDS = 86.0
"""Grace and half an hour at that scale, and some more."""
SHORT, QUICK = 14.0, 6.0
SAMPLE_INTERVAL = 0.5
ALONE = 15.0
"""Seconds in which it is learned what a GPU draws that nobody uses."""


def main() -> int:
    names = ", ".join(case.name for case in CASES)
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.measure")
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"which, by how they begin: {names}")
    parser.add_argument("--out", type=Path, metavar="DIRECTORY", help="a new directory (a temporary one, which stays)")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of each program [%(default)s]")
    results.arguments(parser)
    options = parser.parse_args()
    if why := absent():
        print(f"this measures real GPUs: {why}", file=sys.stderr)
        return NOT_HERE
    chosen = [case for case in CASES if not options.cases or case.name.startswith(tuple(options.cases))]
    options.out = options.out or Path(tempfile.mkdtemp(prefix="gpu-"))
    options.out.mkdir(parents=True, exist_ok=True)
    print(f"what is measured is kept in {options.out}", file=sys.stderr)
    gpu, reading = next(iter(query().items()))
    with Site(options.out, time_scale=TIME_SCALE, sample_interval=SAMPLE_INTERVAL, gpu=gpu) as site:
        why = jobs.possible()
        print(f"programs are {'process groups: ' + why if why else 'jobs with CPUs of their own'}", file=sys.stderr)
        time.sleep(ALONE / 5 if options.quick else ALONE)
        began, (spent, _) = time.monotonic(), site.cost()
        found = _run_all(site, chosen, options, gpu, scheduled=not why)
        until_now, resident = site.cost()
        share = (until_now - spent) / (time.monotonic() - began)
        _judge(chosen, found, site.incidents())
    kept = {"driver": reading.driver, "cpu": share, "resident": resident, "found": [asdict(one) for one in found]}
    (options.out / "figures.json").write_text(json.dumps(kept))
    _show(found)
    print(f"exporter, reading every {SAMPLE_INTERVAL} s: {share:.2%} of a core, {resident / 2**20:.0f} MiB resident")
    results.report([row(one, reading.driver) for one in found], options, section="On real GPUs")
    by_name = {one.name: one for one in found}
    wrong = [f"{case.name} ({', '.join(why)})" for case in chosen if (why := missed(case, by_name.get(case.name)))]
    print(f"not as aimed at: {', '.join(wrong) or 'none'}")
    return 1 if wrong and not options.quick else 0


def row(found: Figures, driver: str) -> results.Row:
    """What is kept of a case."""
    what = f"{found.name}: duty cycle by CUDA events, exporter, nvidia-smi"
    off = "-" if found.off is None else f"{100 * found.off:+.2f} points"
    said = [f"{_percent(found.truth)}, {_percent(found.busy)} ({off}), {_percent(found.theirs)}"]
    if len(found.owned) > 1:
        each = (f"{_percent(one['truth'])} and {_percent(one['busy'])}" for one in found.owned)
        said.append(f"each one's by events and exporter {', '.join(each)}")
    for facts in found.facts:
        if "kernels" in facts and found.busy is not None:
            step = facts["step_in_graph"]
            said.append(
                f"a step of {facts['kernels']:.0f} kernels {1e6 * facts['step_by_profiler']:.0f} us by CUPTI, "
                f"{1e6 * step:.0f} in a CUDA graph (what events say here), {1e6 * step * found.busy / found.truth:.0f} "
                f"by the exporter; graphics engine by GPM {_percent(found.units['graphics'])}"
            )
    if found.sm_truth is not None:
        said.append(f"multiprocessors that the kernels hold {_percent(found.sm_truth)}, SM active {_percent(found.sm)}")
    if found.watts is not None and found.watts_theirs:
        more = 100 * (found.watts / found.watts_theirs - 1)
        said.append(f"energy counter {found.watts:.1f} W, nvidia-smi {found.watts_theirs:.1f} W ({more:+.1f} %)")
    if found.right is not None:
        said.append(f"found: {_findings(found)}, {verdict(found.right, found.incidents)}")
    said.append(f"over {found.seconds:.0f} s")
    return results.Row(what, "; ".join(said), "`python -m benchmarks.gpu.measure`", f"driver {driver}")


def _run_all(
    site: Site, chosen: list[Case], options: argparse.Namespace, gpu: str, *, scheduled: bool
) -> list[Figures]:
    """Those that could be measured; of the others it is told why they could not."""
    found = []
    for number, case in enumerate(chosen):
        seconds = QUICK if options.quick else options.seconds if case.judged else SHORT
        print(f"{case.name}: {seconds:g} s", file=sys.stderr, flush=True)
        try:
            found.append(_run(site, number, case, seconds, options.out, gpu, scheduled=scheduled))
        except (jobs.FailedError, TooShortError) as error:
            print(f"{case.name}: {error}", file=sys.stderr)
        # So that the next begins on a GPU that is nobody's.
        time.sleep(3)
    return found


def _run(site: Site, number: int, case: Case, seconds: float, folder: Path, gpu: str, *, scheduled: bool) -> Figures:
    with ExitStack() as stack:
        running = [
            stack.enter_context(
                jobs.Job(
                    jobs.FIRST + 10 * number + place,
                    jobs.workload(*program, f"--seconds={seconds:g}"),
                    gpu=gpu,
                    cpus=case.cpus,
                    prolog=site.prolog if scheduled else None,
                    log=folder / f"program-{number}-{place}.log",
                )
            )
            for place, program in enumerate(case.programs)
        ]
        for job in running:
            job.wait()
        lines = {job.subject: job.lines for job in running}
        # While the jobs are still there.
        scrapes = site.scraped(until(lines.values()))
        return compare(case.name, lines, scrapes, [one for one in site.smi.found if one.uuid == gpu])


def _judge(chosen: list[Case], found: list[Figures], incidents: list[dict[str, Any]]) -> None:
    """Give each case its incidents, and say whether they are what there was to be found."""
    kept = [
        {name: each[name] for name in ("subject", "rule", "severity")}
        | {name: each["diagnosis"][name] for name in ("causes", "evidence")}
        for each in incidents
    ]
    for one in found:
        case = next(case for case in chosen if case.name == one.name)
        by_job = [[each for each in kept if each["subject"].startswith(job["subject"])] for job in one.owned]
        one.incidents = [each for mine in by_job for each in mine]
        one.right = as_expected(case, by_job)


def _show(found: list[Figures]) -> None:
    header = ("program", "s", "CUDA events", "exporter", "nvidia-smi", "SM", "kernels'", "W", "their W", "found")
    results.show(
        header,
        [
            (
                one.name,
                f"{one.seconds:.0f}",
                *(_percent(share) for share in (one.truth, one.busy, one.theirs, one.sm, one.sm_truth)),
                *(None if watts is None else f"{watts:.1f}" for watts in (one.watts, one.watts_theirs)),
                _findings(one),
            )
            for one in found
        ],
    )


def _findings(found: Figures) -> str:
    return "; ".join(f"`{each['rule']}`, {' or '.join(each['causes'])}" for each in found.incidents) or "nothing"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.2f} %"


if __name__ == "__main__":
    sys.exit(run_until_interrupted(main))
