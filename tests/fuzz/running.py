"""How a fuzz test runs: its two lengths, and what it watches beside the answer: a hang, and memory.

A parser may refuse its input with an error of its own, and do nothing else: another exception, a warning, a loop
without end and memory out of all proportion to the input all fail the test, which prints the input so that it can be
pasted above the test as an `@example`.
"""

from __future__ import annotations

import functools
import gc
import inspect
import os
import random
import resource
import signal
import time
import tracemalloc
import warnings
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import HypothesisWarning

QUICK = 60
"""Examples of each test in `make test`, the same in every run."""

SOAK = int(os.environ.get("FUZZ_EXAMPLES", "100000"))
"""Examples of each test in `make soak ARGS=tests/fuzz`, others in every run."""

_BATCH = 1000
"""Hypothesis remembers every example that it has tried: in one piece a soak would fill the memory by itself."""

_TOLD = 20_000
"""Examples after which a soak shows how far it is."""

PER_BYTE = 600
"""Bytes of memory that a byte of input may cost at most: `[],` is 3 bytes, and in Python a list and a place in one."""

AT_ONCE = 64 * 2**20
"""Bytes of memory that any input may cost: a block that is read at a time, as lines."""

SECONDS_PER_BYTE = 2e-5
"""Processor time that a byte of input may cost: the slowest that is sound, YAML, takes a quarter of it while its memory
is traced. What grows with the square of 70 kB takes minutes.
"""

SECONDS_AT_ONCE = 4.0
"""Processor time that any input may cost. Most take less than a millisecond. What takes PyYAML half a second while its
memory is traced takes twice that beside others on the same core.
"""

HANG = 3
"""How many times that is a hang, and cut off."""

TRIES = 3
"""What is beyond a bound is run again: modules that are imported, and garbage of others, are no cost of the input's."""

_UNPACKED = 2**18
"""Bytes of a packed input that explain time; what is refused for its size is refused soon."""

_MOST = 2**30
"""More than this is not to be had within an example, so that what runs away hurts nobody else on the machine."""

_PAGE = resource.getpagesize()


class _HangError(BaseException):
    """No `Exception`: parsers catch those."""


def fuzz(**inputs: st.SearchStrategy[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a test of a check that takes these inputs: a quick one, and a long one that is marked `soak`.

    A check that takes a `directory` besides is given an empty one of its own, the same for all examples.
    """

    def decorate(check: Callable[..., None]) -> Callable[..., None]:
        @pytest.mark.parametrize(
            "examples",
            [pytest.param(QUICK, id="quick"), pytest.param(SOAK, id="soak", marks=pytest.mark.soak)],
        )
        def test(examples: int, request: pytest.FixtureRequest, tmp_path: Path) -> None:
            places = {"directory": tmp_path} if "directory" in inspect.signature(check).parameters else {}
            if examples <= QUICK:
                _run(check, inputs, places, examples, None, first=True)
                return
            given_seed = request.config.getoption("--hypothesis-seed")
            first = random.randrange(2**32) if given_seed is None else int(given_seed)
            print(f"\n{request.node.nodeid}: --hypothesis-seed={first}", flush=True)
            began = time.monotonic()
            for batch in range(0, examples, _BATCH):
                _run(check, inputs, places, min(_BATCH, examples - batch), first + batch, first=batch == 0)
                if (batch + _BATCH) % _TOLD == 0 and batch + _BATCH < examples:
                    print(f"{request.node.nodeid}: {batch + _BATCH:,} of {examples:,}", flush=True)
            request.node.user_properties.append(("figure", f"{examples:,} examples, seed {first}"))
            print(f"{request.node.nodeid}: {examples:,} examples in {time.monotonic() - began:.0f} s", flush=True)

        test.__name__, test.__qualname__ = check.__name__, check.__qualname__
        test.__module__, test.__doc__ = check.__module__, check.__doc__
        # Where it is, to whom reports it; what it wants, to whom runs it.
        test.__wrapped__, test.__signature__ = check, inspect.signature(test)  # type: ignore[attr-defined]
        return test

    return decorate


def _run(
    check: Callable[..., None],
    inputs: dict[str, st.SearchStrategy[Any]],
    places: dict[str, Path],
    examples: int,
    number: int | None,
    *,
    first: bool,
) -> None:
    phases = (Phase.explicit, Phase.generate, Phase.shrink) if first else (Phase.generate, Phase.shrink)
    configured = settings(
        max_examples=examples,
        derandomize=number is None,
        phases=phases,
        deadline=None,
        database=None,
        print_blob=False,
        suppress_health_check=list(HealthCheck),
    )
    run = configured(given(**inputs)(watched(check)))
    with warnings.catch_warnings():
        # A long example that fails is to be printed all the same.
        warnings.simplefilter("ignore", HypothesisWarning)
        (run if number is None else seed(number)(run))(**places)


def watched(
    check: Callable[..., None],
    *,
    per_byte: int = PER_BYTE,
    at_once: int = AT_ONCE,
    seconds_per_byte: float = SECONDS_PER_BYTE,
    seconds_at_once: float = SECONDS_AT_ONCE,
) -> Callable[..., None]:
    """The same check, which fails besides where it hangs, or its memory or time is beyond what its inputs explain."""

    @functools.wraps(check)
    def guarded(*args: Any, **kwargs: Any) -> None:
        values = [*args, *kwargs.values()]
        memory = at_once + per_byte * sum(map(_size, values))
        seconds = seconds_at_once + seconds_per_byte * sum(map(_explained, values))
        for _ in range(TRIES):
            peak, took = _cost(functools.partial(check, *args, **kwargs), seconds)
            if peak <= memory and took <= seconds:
                return
        assert peak <= memory, f"{peak} bytes of memory at once, where the input explains {memory}"
        raise AssertionError(f"{took:.2f} s of processor time, where the input explains {seconds:.2f} s")

    return guarded


def _cost(run: Callable[[], None], seconds: float) -> tuple[int, float]:
    """Bytes at once and seconds of processor time, of all threads, as a parser may have some of its own."""
    with _undisturbed(), _headroom(), _cut_off(HANG * seconds):
        tracemalloc.start()
        began = time.process_time()
        try:
            run()
            return tracemalloc.get_traced_memory()[1], time.process_time() - began
        finally:
            tracemalloc.stop()


def _explained(value: object) -> int:
    """Bytes that explain time: of what is packed, those that are in it, up to a measure. Memory it explains packed."""
    if isinstance(value, bytes) and value.startswith(b"\x1f\x8b"):
        with suppress(zlib.error):
            return max(len(value), len(zlib.decompressobj(wbits=31).decompress(value, _UNPACKED)))
    return _size(value) if not isinstance(value, list | tuple) else sum(map(_explained, value))


def _size(value: object) -> int:
    if isinstance(value, bytes | str):
        return len(value)
    return sum(map(_size, value)) if isinstance(value, list | tuple) else 0


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Without collections of garbage, most of which is Hypothesis's. What runs in one where the parser is at the end of
    its recursion, its memory or its time fails there, is ignored, and fails the test after its last example.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextmanager
def _cut_off(seconds: float) -> Iterator[None]:
    """By processor time: how busy the machine is with others says nothing of the parser."""

    def hung(_: int, frame: FrameType | None) -> NoReturn:
        raise _HangError("" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}")

    before = signal.signal(signal.SIGPROF, hung)
    # And again, where that was lost in a finalizer.
    signal.setitimer(signal.ITIMER_PROF, seconds, seconds)
    try:
        yield
    except _HangError as error:
        # Where a signal came between two lines, a traceback has no number, for which reporters have no word.
        raise AssertionError(f"no answer within {seconds:g} s of processor time, at {error}") from None
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@contextmanager
def _headroom() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * _PAGE
    wanted = mapped + _MOST
    resource.setrlimit(resource.RLIMIT_AS, (wanted if soft == resource.RLIM_INFINITY else min(wanted, soft), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
