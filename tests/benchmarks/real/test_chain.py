"""What is asked of a run beside its incidents: passes that were made while any was due, and what went wrong."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from benchmarks.box.nodes.protocol import Report
from benchmarks.box.played import NOT_ALL
from benchmarks.real.chain import Passes, troubles


def _metrics(runs: float, failures: float) -> Mapping[tuple[str, str], float]:
    return {
        ("dutycycle_alerter_task_runs_total", "pass"): runs,
        ("dutycycle_alerter_task_runs_total", "purge"): 99.0,
        ("dutycycle_alerter_task_failures_total", "pass"): failures,
    }


def test_passes_from_before_the_runs_began_are_none_of_those_that_were_due() -> None:
    pages = iter([_metrics(7, 1), _metrics(12, 3), _metrics(12, 3)])
    passes = Passes(lambda: next(pages))
    assert passes.made() == 5


def test_a_pass_that_failed_counts_whenever_it_was() -> None:
    pages = iter([_metrics(7, 1), _metrics(12, 3)])
    passes = Passes(lambda: next(pages))
    assert passes.failed() == 3


FINE = {"doubles-1": Report(), "crowd-1": Report()}


@pytest.mark.parametrize(
    ("reports", "scraped", "fed", "said"),
    [
        (FINE, 3, True, ()),
        (FINE, 2, True, ("Prometheus has 2 of 3 nodes",)),
        (FINE, 3, False, (NOT_ALL,)),
        (
            {**FINE, "doubles-1": Report(trouble=["job 1: KeyError('a')"])},
            3,
            True,
            ("doubles-1: job 1: KeyError('a')",),
        ),
    ],
)
def test_what_went_wrong_in_the_harness_is_named(
    reports: Mapping[str, Report], scraped: int, fed: bool, said: tuple[str, ...]
) -> None:
    assert troubles(reports, scraped=scraped, nodes=3, fed=fed) == said
