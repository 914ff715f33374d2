"""`dutycycle gpus`: every GPU at its last scrape."""

from __future__ import annotations

import click
from rich.text import Text

from dutycycle_alerter import answers, figures
from dutycycle_alerter.cli.reading import json_option, json_text, opened, store_options
from dutycycle_alerter.cli.tables import LOW, QUIET, bar, lines, outside, show, status_lines, table
from dutycycle_alerter.fleet import Doing, count_gpus, doing, none_listed, unallocated_use
from dutycycle_alerter.views import GpuNow, Status


@click.command()
@json_option
@store_options
@click.pass_context
def gpus(context: click.Context, as_json: bool) -> None:
    """Every GPU now: what it does, and whose it is.

    \b
    Examples:
      dutycycle gpus
      dutycycle gpus --json | jq '.gpus[] | select(.utilization_ratio == 0) | .node + ":" + .index'
    """
    with opened(context) as reader:
        status, found = reader.status(), reader.gpus()
    if as_json:
        click.echo(json_text(answers.gpus_answer(found, status)))
        return
    if not found:
        show(status_lines(status), Text(none_listed(status)))
        return
    listed = table(
        ("GPU", 3), "Utilization", "Memory", "Power", "Temp", ("Whose", 4), right=("Memory", "Power", "Temp")
    )
    for gpu in found:
        listed.add_row(
            outside(gpu.gpu.label + (" MIG" if gpu.gpu.mig else "")),
            _utilization(gpu),
            figures.gibibytes(gpu.memory_used),
            _reading(gpu.power, "W"),
            _reading(gpu.temperature, "°C"),
            _owners(gpu, status),
        )
    counts = count_gpus(found)
    summary = (
        f"{figures.count(counts.total, 'GPU')}: {counts.busy} busy, {counts.idle} allocated and idle, "
        f"{counts.free} free, {counts.unknown} unknown."
    )
    show(status_lines(status), listed, Text(summary, QUIET))


def _utilization(gpu: GpuNow) -> Text:
    word = doing(gpu)
    if word is Doing.UNKNOWN:
        return bar(None) + Text(" unknown", QUIET)
    said = "idle" if word is Doing.IDLE else figures.percent(gpu.utilization)
    return bar(gpu.utilization) + Text(f" {said}", LOW if word is Doing.IDLE else "")


def _reading(value: float | None, unit: str) -> Text:
    return Text(figures.UNKNOWN, QUIET) if value is None else Text(f"{value:.0f} {unit}")


def _owners(gpu: GpuNow, status: Status) -> Text:
    said = [
        outside(f"{user or 'unknown user'} {workload}" + ("" if share > 0.999 else f" ({figures.percent(share)})"))
        for workload, user, share in gpu.workloads[:4]
    ]
    if len(gpu.workloads) > 4:
        said.append(Text(f"and {len(gpu.workloads) - 4} more", QUIET))
    if gpu.lost_since is not None:
        seen = figures.moment(gpu.lost_since, now=status.now, zone=None, seconds=status.time_scale > 1)
        said.append(Text(f"lost, last seen {seen}", LOW))
    elif not said:
        said.append(Text(unallocated_use(gpu), QUIET))
    return lines(*said)
