"""An open incident is about the GPUs that its rule is about now: silently, and without coming and going."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dutycycle_alerter.incidents.model import Cause, Incident
from dutycycle_alerter.model import Gpu, JobEvidence
from tests.alerter.cases import LATER, evidence, job
from tests.alerter.incidents.folding import MINUTE, opened, step
from tests.alerter.rules.test_rules import NO_GAPS


def with_idle(*idle: int, nearly: tuple[int, ...] = (), **fields: object) -> JobEvidence:
    """A job of eight GPUs, all of which work but some that do nothing, or hardly anything."""
    values = [0.0 if gpu in idle else 0.01 if gpu in nearly else 0.9 for gpu in range(8)]
    return evidence(values, gpu_fields=NO_GAPS, **fields)  # type: ignore[arg-type]


def after(incident: Incident, item: JobEvidence) -> Incident:
    """What comes of it, without a word."""
    result = step(incident, item, LATER + MINUTE)
    assert result.incident is not None
    assert result.events == ()
    return result.incident


def places(incident: Incident) -> list[str]:
    return [gpu.index for gpu in incident.gpus]


def test_more_gpus_that_do_nothing_are_in_it_with_their_figures_and_sentences() -> None:
    incident = opened(with_idle(3))
    assert places(incident) == ["3"]
    worse = after(incident, with_idle(0, 1, 2, 3, 4, 5))
    assert places(worse) == ["0", "1", "2", "3", "4", "5"]
    assert worse.figures["idle_gpus"] == 6
    assert worse.diagnosis.evidence[0].startswith("6 of 8 GPUs at 0 % utilization")
    assert worse.diagnosis.causes == incident.diagnosis.causes
    assert places(after(worse, with_idle(5))) == ["5"]


def test_a_gpu_leaves_once_it_works_as_much_as_clears_the_rule() -> None:
    incident = opened(with_idle(2, 3))
    assert after(incident, with_idle(2, nearly=(3,))).gpus == incident.gpus
    # One that was none of them joins by the bound alone.
    assert after(incident, with_idle(2, 3, nearly=(4,))).gpus == incident.gpus
    assert places(after(incident, with_idle(2))) == ["2"]
    both = after(incident, with_idle(2, 5, nearly=(3,)))
    assert places(both) == ["2", "3", "5"]
    assert both.diagnosis.evidence[0].startswith("3 of 8 GPUs at 1.0 % utilization or less")


@pytest.mark.parametrize(("slow", "concerned"), [(0.6, 1), (0.63, 1), (0.64, 0)])
def test_a_rank_that_lags_stays_behind_until_it_has_caught_up(slow: float, concerned: int) -> None:
    incident = opened(evidence([0.9, 0.4, 0.4], gpu_fields=NO_GAPS))
    assert places(incident) == ["1", "2"]
    item = evidence([0.9, 0.4, slow], gpu_fields=NO_GAPS)
    assert places(after(incident, item)) == ["1", "2"][: 1 + concerned]


def test_pods_that_moved_are_where_they_are_now() -> None:
    incident = opened(with_idle(3))
    moved = replace(job(8), gpus=tuple(Gpu("node7", str(n), f"GPU-1{n}", "", "H200") for n in range(8)))
    assert [gpu.label for gpu in after(incident, with_idle(3, the_job=moved)).gpus] == ["node7:3"]
    again = replace(job(8), gpus=tuple(replace(gpu, workload=f"k8s/ml/w-{gpu.index}/u2") for gpu in job(8).gpus))
    assert [gpu.pod for gpu in after(incident, with_idle(3, the_job=again)).gpus] == ["w-3"]


def test_a_job_that_grew_is_as_large_as_it_is() -> None:
    incident = opened(evidence([0.0, 0.0], by_window={7200: [0.5, 0.5]}, gpu_fields=NO_GAPS))
    item = evidence([0.0] * 4, by_window={7200: [0.5] * 4}, gpu_fields=NO_GAPS)
    grown = after(incident, item)
    assert (len(grown.gpus), grown.job_gpus) == (4, 4)


def test_what_does_not_fire_changes_nothing_of_it() -> None:
    incident = opened(with_idle(2, 3))
    holding = step(incident, with_idle(nearly=(3,)), LATER + MINUTE).incident
    assert holding is not None
    assert (holding.gpus, holding.figures, holding.diagnosis) == (incident.gpus, incident.figures, incident.diagnosis)


def test_another_cause_is_not_told_because_of_it() -> None:
    incident = opened(with_idle(3))
    told = replace(incident, diagnosis=replace(incident.diagnosis, causes=(Cause.OVER_REQUEST,)))
    worse = after(told, with_idle(3, 4))
    assert places(worse) == ["3", "4"]
    assert worse.diagnosis == told.diagnosis
