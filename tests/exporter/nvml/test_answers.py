"""One call for what NVML fills into an array, however much that is and whatever it says of it."""

from __future__ import annotations

import ctypes

import pynvml
import pytest

from dutycycle_exporter.nvml.answers import Answers
from tests.fakes.nvml import GpuProcess, Level, Load


class Library:
    """A function of NVML that has some numbers to tell, and says so where there is no room for them."""

    def __init__(self, numbers, *, says_so=True, needs=None):
        self.numbers = list(numbers)
        self.says_so = says_so
        self.needs = needs
        self.rooms = []

    def __call__(self, count, array):
        room = count._obj.value
        self.rooms.append(room)
        fitting = self.numbers[:room]
        if self.says_so and len(fitting) < len(self.numbers):
            count._obj.value = len(self.numbers) if self.needs is None else self.needs
            return pynvml.NVML_ERROR_INSUFFICIENT_SIZE
        array[: len(fitting)] = fitting
        count._obj.value = len(fitting)
        return pynvml.NVML_SUCCESS


@pytest.fixture
def read(monkeypatch):
    """What an array of four numbers, to begin with, is filled with by a library."""
    answers = Answers("nvmlSomething", ctypes.c_uint32, 4)

    def fill(library):
        monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer", lambda name: library)
        found = answers.fill(lambda function, count, array: function(count, array))
        return list(memoryview(found).cast("I"))

    return fill


@pytest.mark.parametrize("count", [0, 1, 3])
def test_what_fits_takes_one_call(read, count):
    library = Library(range(count))
    assert read(library) == list(range(count))
    assert library.rooms == [4]


def test_what_does_not_fit_is_asked_for_again_with_room_and_there_is_room_from_then_on(read):
    library = Library(range(100))
    assert read(library) == read(library) == list(range(100))
    assert library.rooms == [4, 100, 200]


def test_after_an_answer_that_fills_the_array_there_is_more_room(read):
    """Of utilization samples a library gives as many as fit, and no error."""
    library = Library(range(7), says_so=False)
    assert read(library) == [0, 1, 2, 3]
    assert read(library) == list(range(7))
    assert library.rooms == [4, 8]


@pytest.mark.parametrize("needs", [0, 4, 2**32 - 1])
def test_a_library_that_says_nonsense_of_its_need_is_asked_once(read, needs):
    library = Library(range(5), needs=needs)
    with pytest.raises(pynvml.NVMLError_InsufficientSize):
        read(library)
    assert len(library.rooms) == 1


def test_a_count_beyond_the_array_is_not_believed(read):
    def boasts(count, array):
        count._obj.value = 10**6
        return pynvml.NVML_SUCCESS

    assert len(read(boasts)) == 4


def test_more_processes_than_there_is_room_for_are_all_told_and_cost_another_call_once(make_rack):
    rack = make_rack(collect=frozenset({"processes"}))
    rack.driver.run("many", {0: Load(Level(0.5), [GpuProcess(pid) for pid in range(10, 40)])})
    rack.turn()
    [gpu] = rack.reader._gpus.values()
    answers = gpu._processes._answers
    gpu._processes._answers = Answers(answers.function, answers._structure, 8)
    calls = [rack.driver.state.calls(answers.function)]
    for _ in range(2):
        assert [process.utilization is None for process in rack.turn().gpu.processes] == [False] * 30
        calls.append(rack.driver.state.calls(answers.function))
    assert calls == [1, 3, 4]
