"""Calls a function in several processes at once."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import Any, TypeVar

from dutycycle_alerter.errors import AlerterError

_Argument = TypeVar("_Argument")
_Result = TypeVar("_Result")


def cores() -> int:
    """Return how many processes can compute at once; 1 where processes cannot be forked safely."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else 1


def in_workers(
    function: Callable[[_Argument], _Result], arguments: Sequence[_Argument], workers: int
) -> Iterator[_Result]:
    """Yield the result for each argument, in the order of the arguments.

    Workers are forked, so that they read the arguments in this process's memory; results are pickled. Raises
    AlerterError where a worker is killed.
    """
    try:
        with ProcessPoolExecutor(workers, get_context("fork"), _begin, (function, arguments)) as pool:
            yield from pool.map(_call, range(len(arguments)))
    except BrokenProcessPool as error:
        raise AlerterError("a worker process was killed, perhaps for want of memory; see dmesg") from error


_work: list[tuple[Callable[[Any], Any], Sequence[Any]]] = []
"""In a worker: the function and its arguments."""


def _begin(function: Callable[[Any], Any], arguments: Sequence[Any]) -> None:
    _work.append((function, arguments))


def _call(number: int) -> Any:
    function, arguments = _work[0]
    return function(arguments[number])
