"""What full-length runs (`make soak`) leave: a row in benchmarks/RESULTS.md as soon as each ends, and a table at last.

A test says what it found by `record_property("figure", "...")`; how long it took is added. What did not pass is a row,
too: an older one that did would be believed. `--resume` goes on where an earlier run was stopped.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field

import pytest

from benchmarks import results
from benchmarks.results import Row

_FIGURE = "figure"
_SECTIONS = ("Soak", "Fuzz")


@dataclass(eq=False)  # pytest keeps its plugins in sets
class Soaked:
    """Outcomes of a session's full-length tests. A pytest plugin; `kept` says whether their rows are written, `resumed`
    whether those are left out that passed on this machine, at this commit.
    """

    kept: bool
    resumed: bool = False
    rows: dict[str, list[Row]] = field(default_factory=dict)

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        done = set().union(*map(results.measured, _SECTIONS)) if self.resumed else set()
        left_out = [item for item in items if _is_soak(item) and (_what(item), _by(item)) in done]
        if left_out:
            config.hook.pytest_deselected(items=left_out)
            items[:] = [item for item in items if item not in left_out]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if _is_soak(item) and (report.when == "call" or report.failed):
            row, section = _row(item, report), _section(item)
            self.rows.setdefault(section, []).append(row)
            if self.kept:
                results.record([row], section=section)
                if report.failed:
                    # Hours may pass until pytest tells of it, or the run may be stopped before.
                    terminal = item.config.get_terminal_writer()
                    terminal.line(f"\n{report.longreprtext}")
                    terminal.flush()
        return report

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for section, rows in self.rows.items():
            terminalreporter.section(section)
            results.show(("what", "figure"), [(row.what, row.figure) for row in rows])


def _is_soak(item: pytest.Item) -> bool:
    return item.get_closest_marker("soak") is not None


def _section(item: pytest.Item) -> str:
    return "Fuzz" if item.nodeid.startswith("tests/fuzz/") else "Soak"


def _what(item: pytest.Item) -> str:
    name = item.name.removeprefix("test_").removesuffix("[soak]").replace("_", " ")
    return f"{item.location[0]}: {name}"


def _by(item: pytest.Item) -> str:
    return f"`make soak ARGS={item.location[0]}`"


def _row(item: pytest.Item, report: pytest.TestReport) -> Row:
    found = [str(value) for key, value in report.user_properties if key == _FIGURE]
    took = f"{report.duration / 60:.1f} min"
    figure = "; ".join([*found, took]) if report.passed else f"**{report.outcome}** after {took}"
    return Row(_what(item), figure, _by(item))
