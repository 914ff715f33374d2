"""What jobs of scraped exporters consumed: all that the counters grew by, and each once."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dutycycle_alerter.history import GPU_COUNTERS
from dutycycle_alerter.sources.exposition import parse
from tests.alerter.exporters import MODEL
from tests.alerter.sources.fleets import INTERVAL, rig


def test_a_late_start_counts_nothing_from_before() -> None:
    made = rig(job1=[0])
    made.exporters[0].run(50_000, 1.0)
    made.scrape()
    assert made.run_pass()["slurm/1"].recent == ()
    made.scrape(2, 1.0)
    made.run_pass()
    assert made.busy() == 2 * INTERVAL


def test_consumption_is_told_by_model() -> None:
    made = rig(job1=(0, 1))
    made.exporters[0].allocate("slurm/1", 2, model="A100")
    made.scrape(2)
    made.scrape(3, 0.5)
    parts = {part.model: part for part in made.run_pass()["slurm/1"].recent}
    assert parts.keys() == {MODEL, "A100"}
    assert (parts["A100"].allocated, parts["A100"].observed, parts["A100"].busy) == (60, 60, 30)
    assert parts[MODEL].busy == 2 * parts["A100"].busy
    assert parts["A100"].energy == pytest.approx(60 * 370)


def test_idle_is_what_was_measured_of_the_gpus_that_did_nothing_in_a_pass() -> None:
    """GPU by GPU: that the others of the job worked does not hide it; and what was not measured is not idle."""
    made = rig(job1=(0, 1, 2))
    made.scrape(1)
    made.run_pass()
    for gpu, level in ((0, 0.9), (1, 0.0), (2, None)):
        made.exporters[0].allocations["slurm/1", gpu].work(60, level, {})
    made.scrape(1, None)
    (part,) = made.run_pass()["slurm/1"].recent
    assert (part.observed, part.busy, part.idle) == (120, pytest.approx(54), 60)
    made.scrape(4, None)
    (part,) = made.run_pass()["slurm/1"].recent
    assert (part.allocated, part.observed, part.idle) == (180, 0, None)


def test_a_pass_that_failed_leaves_its_consumption_to_the_next() -> None:
    made = rig(job1=[0])
    made.scrape()
    for _ in range(3):
        made.scrape(2, 1.0)
        (part,) = made.run_pass(commits=False)["slurm/1"].recent
    assert part.busy == 6 * INTERVAL
    made.run_pass()
    assert made.busy() == 6 * INTERVAL
    assert made.run_pass()["slurm/1"].recent == ()


def test_a_counter_that_is_missing_for_a_while_is_counted_once() -> None:
    """The pass in between must not begin it anew from zero."""
    made = rig(job1=[0])
    made.exporters[0].run(7000, 1.0)
    made.scrape(2, 1.0)
    made.run_pass()
    page = made.exporters[0].page()
    without = "".join(f"{line}\n" for line in page.splitlines() if "busy_seconds" not in line)
    made.now += INTERVAL
    made.fleet.ingest(parse(without), made.now)
    made.run_pass()
    made.scrape(2, 1.0)
    made.run_pass()
    assert made.busy() == INTERVAL + 2 * INTERVAL


def test_a_counter_that_appears_late_counts_from_there() -> None:
    made = rig(job1=[0])
    made.exporters[0].run(7000, 1.0)
    page = "".join(f"{line}\n" for line in made.exporters[0].page().splitlines() if "joules" not in line)
    made.fleet.ingest(parse(page), made.now)
    assert made.run_pass()["slurm/1"].recent == ()
    made.scrape(1, 1.0)
    (part,) = made.run_pass()["slurm/1"].recent
    assert part.energy is None or part.energy == 0
    made.scrape(1, 1.0)
    (part,) = made.run_pass()["slurm/1"].recent
    assert part.energy == pytest.approx(INTERVAL * 670)


ACTION = st.one_of(
    st.tuples(st.just("run"), st.floats(0.5, 500), st.sampled_from([None, 0.0, 0.3, 1.0])),
    st.tuples(st.just("scrape"), st.sampled_from([0, 1]), st.sampled_from(["", "busy", "observed", "allocated"])),
    st.tuples(st.just("pass"), st.booleans(), st.none()),
    st.tuples(st.just("restart"), st.sampled_from([0, 1]), st.none()),
    st.tuples(st.just("blink"), st.sampled_from([0, 1]), st.none()),
)


@settings(max_examples=200)
@given(st.lists(ACTION, max_size=40))
@example([("run", 1.0, 0.3), ("scrape", 0, "busy"), ("pass", True, None)])  # busy comes later than its time
def test_consumption_is_what_the_counters_grew_by_however_scrapes_passes_and_restarts_fall(
    actions: list[tuple[str, object, object]],
) -> None:
    """Two nodes, one job over both and one beside it: every growth that was scraped is counted once, and only once."""
    made = rig("gpu01", "gpu02", job1=[0], job2=[1])
    made.exporters[1].allocate("slurm/1", 0)
    last: dict[tuple[str, str, str], float] = {}
    grown: dict[tuple[str, str], float] = {}

    def scrape(node: int, without: str) -> None:
        made.now += 0.01
        page = "".join(
            f"{line}\n"
            for line in made.exporters[node].page().splitlines()
            if not without or f"workload_gpu_{without}_" not in line
        )
        exposition = parse(page)
        for (where, uuid, _, workload), owned in exposition.owned.items():
            for name, raw in zip(GPU_COUNTERS[:8], owned.counters, strict=True):
                if raw is not None:
                    before = last.get((where + uuid, workload, name), raw)
                    grown[workload, name] = grown.get((workload, name), 0.0) + (raw if raw < before else raw - before)
                    last[where + uuid, workload, name] = raw
        made.fleet.ingest(exposition, made.now)

    scrape(0, "")
    scrape(1, "")
    for kind, first, second in actions:
        if kind == "run":
            made.now += first  # type: ignore[operator]
            for exporter in made.exporters:
                exporter.run(first, second)  # type: ignore[arg-type]
        elif kind == "scrape":
            scrape(first, second)  # type: ignore[arg-type]
        elif kind == "pass":
            made.run_pass(commits=bool(first))
        elif kind == "restart":
            made.exporters[first].restart()  # type: ignore[call-overload]
        else:
            # One answer without any allocation: nothing ends, nothing is counted twice when it is back.
            owned = made.exporters[first].allocations  # type: ignore[call-overload]
            made.exporters[first].allocations = {}  # type: ignore[call-overload]
            scrape(first, "")  # type: ignore[arg-type]
            made.exporters[first].allocations = owned  # type: ignore[call-overload]
            scrape(first, "")  # type: ignore[arg-type]
    scrape(0, "")
    scrape(1, "")
    made.run_pass()
    for workload in ("slurm/1", "slurm/2"):
        for name in ("allocated", "observed", "busy"):
            counted = sum(getattr(part, name) for job, part in made.consumed if job == workload)
            assert counted == pytest.approx(grown[workload, name], rel=1e-9, abs=1e-6), (workload, name)


@settings(max_examples=50)
@given(st.lists(st.tuples(st.sampled_from([0.0, 0.4, 1.0]), st.integers(1, 6), st.booleans()), min_size=1, max_size=8))
def test_a_job_that_ends_was_counted_to_its_last_second(stretches: list[tuple[float, int, bool]]) -> None:
    """Its final counters stand on the page until its end has been judged."""
    made = rig(job1=(0, 1))
    made.scrape(1, 0.0)
    worked = 0.0
    for utilization, scrapes, passes in stretches:
        made.scrape(scrapes, utilization)
        worked += 2 * utilization * scrapes * INTERVAL
        if passes:
            made.run_pass()
    made.exporters[0].run(7, 1.0)  # after the last scrape that shows the allocation
    made.exporters[0].end("slurm/1")
    made.scrape(3)
    assert made.run_pass()["slurm/1"].ended is not None
    assert made.busy() == pytest.approx(worked + 2 * 7)
    made.scrape(3)
    assert made.run_pass() == {}
