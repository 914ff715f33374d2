"""Tables for the terminal: colour only on one, 80 columns suffice, and text from outside is never markup."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import tzinfo

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from dutycycle_alerter import figures
from dutycycle_alerter.headline import duration, not_evaluable
from dutycycle_alerter.incidents.model import Incident, Severity
from dutycycle_alerter.printable import NAME_LIMIT, printable
from dutycycle_alerter.views import Status

SEVERITY_STYLE = {Severity.CRITICAL: "bold red", Severity.WARNING: "yellow", Severity.INFO: "blue"}
QUIET = "bright_black"
LOW = "bold yellow"


def show(*parts: RenderableType) -> None:
    """Print to stdout. rich decides on colour (none unless stdout is a terminal; NO_COLOR counts) and on the width."""
    console = Console(highlight=False, markup=False, emoji=False)
    for part in parts:
        console.print(part)


def outside(text: str, style: str = "", limit: int = NAME_LIMIT) -> Text:
    """Text from outside, harmless."""
    return Text(printable(text, limit), style)


def lines(*parts: Text | str) -> Text:
    """Several lines in one cell."""
    return Text("\n").join(Text(part) if isinstance(part, str) else part for part in parts)


def table(*columns: str | tuple[str, int], right: Iterable[str] = ()) -> Table:
    """A table without frames; a column with a number shares the width left over, in that proportion."""
    made = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold", expand=False)
    for column in columns:
        title, ratio = (column, None) if isinstance(column, str) else column
        made.add_column(
            title, justify="right" if title in right else "left", ratio=ratio, overflow="fold", no_wrap=False
        )
    return made


def bar(ratio: float | None, width: int = 10) -> Text:
    """A ratio as a bar; blank where it is not known."""
    if ratio is None:
        return Text(" " * width)
    full = round(min(1.0, max(0.0, ratio)) * width)
    return Text("█" * full, "blue") + Text("░" * (width - full), QUIET)


def places(incident: Incident) -> Text:
    """The GPUs concerned, one node a line."""
    found = figures.gpu_places(incident.gpus)
    said = [outside(f"{node}:{gpus}" if node and gpus else node or gpus, limit=60) for node, gpus in found[:3]]
    if len(found) > 3:
        said.append(Text(f"and {len(found) - 3} more nodes", QUIET))
    return lines(*said)


def status_lines(status: Status, zone: tzinfo | None = None) -> Group:
    """What has to be known before the table is read: a replay, no verdict yet, sources that do not answer, the
    policies' own notices."""
    said: list[Text] = []
    if status.replay:
        speed = f", played {status.time_scale:g} times as fast" if status.time_scale != 1 else ""
        said.append(Text(f"REPLAY: this is a recording{speed}", "bold magenta"))
    if status.last_pass is None:
        said.append(Text("No pass yet: nothing has been judged.", "yellow"))
    if status.first_verdict_at is not None:
        at = figures.moment(status.first_verdict_at, now=status.now, zone=zone, seconds=status.time_scale > 1)
        said.append(Text(f"Observing, first verdict at {at}.", "blue"))
    failing = [target for target in status.targets if target.error]
    for target in failing[:5]:
        text = f"Source {printable(target.node or target.url, NAME_LIMIT)} does not answer: {target.error}"
        said.append(outside(text, "red", 300))
    if len(failing) > 5:
        said.append(Text(f"and {len(failing) - 5} more sources do not answer", "red"))
    said += [
        outside(f"Source {printable(target.node or target.url, NAME_LIMIT)}: {target.note}", "yellow", 300)
        for target in [target for target in status.targets if target.note][:5]
    ]
    said += [outside(notice, QUIET, 300) for notice in status.notices[:5]]
    said += [outside(f"Rule {not_evaluable(rule)}", QUIET, 300) for rule in status.not_evaluable[:5]]
    return Group(*said, *([Text()] if said else []))


def since(incident: Incident, status: Status, zone: tzinfo | None = None) -> Text:
    """When the condition began, and for how long it has held."""
    began = figures.moment(incident.started_at, now=status.now, zone=zone, seconds=status.time_scale > 1)
    return lines(began, Text(duration(incident, status.now, status.time_scale), QUIET))
