"""For how long kernels were on a GPU, by CUDA's own clock: the truth that duty cycles are compared with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class Residency:
    """Adds up bursts of kernels that follow each other without a gap, by CUDA events around each burst."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self.seconds = 0.0

    @contextmanager
    def burst(self) -> Iterator[None]:
        """What is launched within is one burst; returns when the GPU is done with it."""
        began, ended = (self._torch.cuda.Event(enable_timing=True) for _ in range(2))
        began.record()
        yield
        ended.record()
        ended.synchronize()
        self.seconds += began.elapsed_time(ended) / 1e3


def seconds_in_a_graph(torch: Any, step: Callable[[], None], *, times: int = 300) -> float:
    """What the kernels of a step take when none has to be launched: the step as a CUDA graph, replayed.

    Of steps whose kernels are shorter than their launches: the gaps between them are the host's, not the GPU's.
    """
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(5):
            step()
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    graph.replay()
    began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    began.record()
    for _ in range(times):
        graph.replay()
    ended.record()
    ended.synchronize()
    return float(began.elapsed_time(ended)) / 1e3 / times


def kernels_by_profiler(torch: Any, step: Callable[[], None], *, times: int = 200) -> tuple[float, float]:
    """(seconds, number) of the kernels of a step, as CUPTI timed each of them: without what lies between two."""
    activities = [torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profile:
        for _ in range(times):
            step()
        torch.cuda.synchronize()
    kernels = [event for event in profile.key_averages() if event.self_device_time_total > 0]
    seconds = sum(float(event.self_device_time_total) for event in kernels) / 1e6
    return seconds / times, sum(event.count for event in kernels) / times
