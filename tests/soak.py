"""What full-length runs (`make soak`) leave: a table at their end, and a row each in benchmarks/RESULTS.md.

A test says what it found by `record_property("figure", "...")`; how long it took is added. What did not pass is a row,
too: an older one that did would be believed.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from benchmarks import results
from benchmarks.results import Row

_FIGURE = "figure"


@dataclass(eq=False)  # pytest keeps its plugins in sets
class Soaked:
    """Outcomes of a session's full-length tests. A pytest plugin; `kept` says whether their rows are written."""

    kept: bool
    rows: dict[str, list[Row]] = field(default_factory=dict)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> object:
        report: pytest.TestReport = yield
        if item.get_closest_marker("soak") is not None and (report.when == "call" or report.failed):
            section = "Fuzz" if item.nodeid.startswith("tests/fuzz/") else "Soak"
            self.rows.setdefault(section, []).append(_row(item, report))
        return report

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for section, rows in self.rows.items():
            terminalreporter.section(section)
            results.show(("what", "figure"), [(row.what, row.figure) for row in rows])
            if self.kept:
                results.record(rows, section=section)


def _row(item: pytest.Item, report: pytest.TestReport) -> Row:
    name = item.name.removeprefix("test_").replace("_", " ")
    found = [str(value) for key, value in report.user_properties if key == _FIGURE]
    took = f"{report.duration / 60:.1f} min"
    figure = "; ".join([*found, took]) if report.passed else f"**{report.outcome}** after {took}"
    return Row(f"{item.location[0]}: {name}", figure, f"`make soak ARGS={item.location[0]}`")
