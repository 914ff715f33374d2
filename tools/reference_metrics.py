"""docs/metrics.md: every metric family that the exporter publishes, from its contract."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dutycycle_exporter.contract import DEVICE, OWNERSHIP, SECTIONS, WORKLOAD, Family, Section
from tools.markdown import code, heading, paragraph, table

_SETS = {
    "device labels": DEVICE,
    "ownership labels": OWNERSHIP,
    "workload labels": WORKLOAD,
}
"""Sets of labels with a name of their own, since many families have them."""


def document() -> bytes:
    """The whole page."""
    return "\n".join(_lines()).encode()


def _lines() -> Iterator[str]:
    yield from heading("Metrics", "exporter/dutycycle_exporter/contract.py")
    yield from paragraph("""
        What `dutycycle-exporter` publishes at `/metrics`, on port 9836 by default. Base units throughout; `_ratio` is
        0..1, `_total` a counter. Seconds are wall seconds, whatever `--time-scale` says. What is not known is absent:
        0 is a measured zero.
    """)
    for name, labels in _SETS.items():
        yield f"- **{name}**: {_codes(labels)}"
    yield ""
    for section in SECTIONS:
        yield from _section(section)


def _section(section: Section) -> Iterator[str]:
    yield f"## {section.title}"
    yield ""
    yield from paragraph(section.about)
    rows = ((code(f.name), f.kind, _labels(f), f.help) for f in section.families)
    yield from table(("metric", "kind", "labels", "meaning"), rows)


def _labels(family: Family) -> str:
    """The label sets that the family has, by the largest, and what it has beyond."""
    for name, labels in sorted(_SETS.items(), key=lambda item: -len(item[1])):
        if set(labels) <= set(family.labels):
            rest = [label for label in family.labels if label not in labels]
            return ", ".join([name, *map(code, rest)])
    return _codes(family.labels)


def _codes(labels: Iterable[str]) -> str:
    return ", ".join(map(code, labels))
