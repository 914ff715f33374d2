"""docs/metrics.md: every metric family that the exporter and the alerter publish, from their contracts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from dutycycle_alerter.incidents.tally import BOUNDS
from dutycycle_alerter.web import families as alerter
from dutycycle_exporter import contract as exporter
from tools.markdown import code, heading, paragraph, table

_Sets = Mapping[str, tuple[str, ...]]

_EXPORTERS: _Sets = {
    "device labels": exporter.DEVICE,
    "ownership labels": exporter.OWNERSHIP,
    "workload labels": exporter.WORKLOAD,
}
"""Sets of labels with a name of their own, since many families have them."""


def document() -> bytes:
    """The whole page."""
    return "\n".join(_lines()).encode()


def _lines() -> Iterator[str]:
    yield from heading(
        "Metrics", "exporter/dutycycle_exporter/contract.py and alerter/dutycycle_alerter/web/families.py"
    )
    yield from paragraph("""
        What `dutycycle-exporter` publishes at `/metrics`, on port 9836 by default, and what the alerter (`dutycycle
        serve` and `dutycycle up`) says of itself and of incidents, on port 9838 by default. Base units
        throughout; `_ratio` is
        0..1, `_total` a counter. Seconds are wall seconds, whatever `--time-scale` says. What is not known is absent:
        0 is a measured zero.
    """)
    yield "## The exporter"
    yield ""
    for name, labels in _EXPORTERS.items():
        yield f"- **{name}**: {_codes(labels)}"
    yield ""
    for section in exporter.SECTIONS:
        yield from _section(section, _EXPORTERS)
    yield "## The alerter"
    yield ""
    yield from paragraph(f"""
        At `/metrics` of `web.health_listen_address`, for whoever reaches it; single incidents for who may see all of
        them. Labels that
        come from outside, as names of users and jobs,
        are cut to 120 characters, and what is invisible in them is shown as U+FFFD. The bounds of the times to resolve
        are {", ".join(f"{bound:,}" for bound in BOUNDS)} seconds.
    """)
    for described in alerter.SECTIONS:
        yield from _section(described, {})


def _section(section: exporter.Section | alerter.Section, sets: _Sets) -> Iterator[str]:
    yield f"### {section.title}"
    yield ""
    yield from paragraph(section.about)
    rows = ((code(f.name), f.kind, _labels(f.labels, sets), f.help) for f in section.families)
    yield from table(("metric", "kind", "labels", "meaning"), rows)


def _labels(own: tuple[str, ...], sets: _Sets) -> str:
    """The label sets that a family has, by the largest, and what it has beyond."""
    for name, labels in sorted(sets.items(), key=lambda item: -len(item[1])):
        if set(labels) <= set(own):
            rest = [label for label in own if label not in labels]
            return ", ".join([name, *map(code, rest)])
    return _codes(own)


def _codes(labels: Iterable[str]) -> str:
    return ", ".join(map(code, labels))
