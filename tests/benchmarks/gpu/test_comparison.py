"""Programs that say what they did, beside scrapes and nvidia-smi: all are compared over the same time."""

from __future__ import annotations

import pytest

from benchmarks.gpu.comparison import HEAD, LAG, TAIL, TooShortError, compare, until
from benchmarks.gpu.nvidia_smi import Watched
from benchmarks.gpu.scrape import Scrape, scrape_of

GPU = "GPU-1"


def lines(share: float, *, seconds: int = 60, **facts: float) -> list[dict[str, float]]:
    """Of a program that keeps the GPU busy for that share of every second."""
    return [{"t": 1000.0 + second, "busy": share * second, "steps": second, **facts} for second in range(seconds + 1)]


def scrapes(busy: float, *, sm: float | None = None, watts: float = 300.0, owned: dict[str, float] | None = None):
    """Twice a second, as an exporter shows a GPU that is always that busy; 100 s were before."""
    owned = owned or {"slurm/1": busy}

    def series(seconds: float):
        yield "gpu_busy_seconds_total", "", (100 + seconds) * busy
        yield "gpu_observed_seconds_total", "", 100 + seconds
        yield "gpu_energy_joules_total", "", 1e6 + seconds * watts
        for workload, share in owned.items():
            yield "workload_gpu_busy_seconds_total", workload, seconds * share
        if sm is not None:
            yield "workload_gpu_active_seconds_total", "slurm/1", seconds * sm

    def at(seconds: float) -> Scrape:
        unit = {"workload_gpu_active_seconds_total": (("unit", "sm"),)}
        found = {
            (name, (("gpu_uuid", GPU), ("workload", workload), *unit.get(name, ()))): value
            for name, workload, value in series(seconds)
        }
        return Scrape(1000 + seconds, found)

    return [at(half / 2) for half in range(140)]


def test_shares_are_of_the_time_for_which_the_program_ran_without_its_ends():
    found = compare("fed", {"slurm/1": lines(0.9)}, scrapes(0.88), [])
    assert found.truth == pytest.approx(0.9)
    assert found.busy == pytest.approx(0.88)
    assert found.off == pytest.approx(-0.02)
    assert found.seconds == pytest.approx(60 - HEAD - TAIL, abs=1)
    assert found.watts == pytest.approx(300)
    assert found.observed == pytest.approx(1)


def test_of_several_programs_only_the_time_counts_in_which_all_ran():
    late = [{**line, "t": line["t"] + 20} for line in lines(0.2, seconds=40)]
    both = {"slurm/1": lines(0.3), "slurm/2": late}
    found = compare("sharing", both, scrapes(0.5, owned={"slurm/1": 0.3, "slurm/2": 0.21}), [])
    assert found.seconds == pytest.approx(40 - HEAD - TAIL, abs=1)
    assert found.truth == pytest.approx(0.5)
    assert [(one["subject"], pytest.approx(one["truth"]), pytest.approx(one["busy"])) for one in found.owned] == [
        ("slurm/1", 0.3, 0.3),
        ("slurm/2", 0.2, 0.21),
    ]


def test_nvidia_smi_is_asked_about_that_time_alone():
    watched = [Watched(1000 + second / 5, GPU, 0.4 if 5 <= second / 5 <= 55 else 1.0, None) for second in range(400)]
    found = compare("fed", {"slurm/1": lines(0.4)}, scrapes(0.4), [one for one in watched if 5 <= one.t - 1000 <= 55])
    assert found.theirs == pytest.approx(0.4)
    assert found.watts_theirs is None, "it never had a number"
    outside = compare("fed", {"slurm/1": lines(0.4)}, scrapes(0.4), [Watched(500, GPU, 1.0, 1.0)])
    assert outside.theirs is None


def test_multiprocessors_are_those_that_the_kernels_say_to_hold_for_as_long_as_they_are_there():
    narrow = lines(0.6, multiprocessors=33, multiprocessors_in_all=132)
    assert compare("narrow", {"slurm/1": narrow}, scrapes(0.6, sm=0.15), []).sm_truth == pytest.approx(0.15)
    assert compare("fed", {"slurm/1": lines(0.6)}, scrapes(0.6), []).sm_truth is None


def test_what_the_exporter_does_not_show_is_missing_and_not_zero():
    bare = [Scrape(one.t, {}) for one in scrapes(0.5)]
    found = compare("fed", {"slurm/1": lines(0.5)}, bare, [])
    assert (found.busy, found.off, found.observed, found.sm, found.watts) == (None,) * 5
    assert found.owned[0]["busy"] is None


def test_a_program_that_ran_too_short_is_not_compared():
    with pytest.raises(TooShortError):
        compare("fed", {"slurm/1": lines(0.5, seconds=3)}, scrapes(0.5), [])


def test_scrapes_are_awaited_until_the_last_of_the_time_is_shown():
    assert until([lines(0.5), lines(0.5, seconds=30)]) == 1030 - TAIL + LAG


def test_a_scrape_is_one_gpu_s_and_a_workload_may_be_named_by_how_it_begins():
    page = (
        f'gpu_x{{gpu_uuid="{GPU}",workload="local/7-99"}} 3\n'
        f'gpu_x{{gpu_uuid="{GPU}",workload="local/71-9"}} 4\n'
        'gpu_x{gpu_uuid="GPU-2",workload="local/7-99"} 5\n'
    )
    scrape = scrape_of(page, 1.0, GPU)
    assert scrape.total("gpu_x") == 7
    assert scrape.total("gpu_x", workload="local/7-") == 3
    assert scrape.total("gpu_y") is None
