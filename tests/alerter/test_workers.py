"""A function called in several processes: its results, its errors, and the death of a process."""

from __future__ import annotations

import os
import signal

import pytest

from dutycycle_alerter.analysis.workers import in_workers
from dutycycle_alerter.errors import AlerterError


def test_results_come_in_the_order_of_the_arguments_and_from_other_processes() -> None:
    found = list(in_workers(lambda number: (number, os.getpid()), range(20), 2))
    assert [number for number, _ in found] == list(range(20))
    assert os.getpid() not in {pid for _, pid in found}


def test_an_error_in_a_worker_is_raised_here() -> None:
    with pytest.raises(ZeroDivisionError):
        list(in_workers(lambda number: 1 / number, range(3), 2))


def test_a_killed_worker_is_an_error_that_says_so() -> None:
    with pytest.raises(AlerterError, match="a worker process was killed"):
        list(in_workers(lambda _: os.kill(os.getpid(), signal.SIGKILL), range(3), 2))
