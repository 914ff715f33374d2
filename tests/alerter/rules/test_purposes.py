"""What command lines are for: none that ends a job stands among those that look."""

from __future__ import annotations

import pytest

from dutycycle_alerter.incidents.model import Cause
from dutycycle_alerter.rules.commands import confirm
from dutycycle_alerter.rules.purposes import Purpose, by_purpose
from tests.alerter.cases import job

HANGS = confirm(job(8, id="slurm/7", job_id="7"), (Cause.HANG,))


@pytest.mark.parametrize(
    ("line", "purpose"),
    [
        ("nvidia-smi", Purpose.LOOK),
        ("kubectl describe -n ml service/x", Purpose.LOOK),
        ("sacct --jobs=1 --format=JobID", Purpose.LOOK),
        # A pod may be called so.
        ("kubectl exec -n scancel nsys-py-spy-0 -- nvidia-smi", Purpose.LOOK),
        ("scancel 7", Purpose.END),
        ("kubectl delete -n ml pod/py-spy", Purpose.END),
        ("kubectl scale --replicas=0 -n ml deployment.apps/x", Purpose.END),
        ('kubectl annotate -n ml notebook.kubeflow.org/x kubeflow-resource-stopped="$(date)"', Purpose.END),
        ("srun nsys profile --duration=60 python train.py", Purpose.PROFILE),
    ],
)
def test_a_line_is_for_one_thing(line: str, purpose: Purpose) -> None:
    assert by_purpose([line]) == {purpose: (line,)}


def test_what_hangs_is_ended_after_its_stacks_are_saved() -> None:
    found = by_purpose(HANGS)
    assert [*found] == [Purpose.LOOK, Purpose.STACKS, Purpose.END]
    assert found[Purpose.END] == ("scancel 7",)
    assert [line for lines in found.values() for line in lines] == [*HANGS]


def test_stacks_come_first_only_where_something_comes_after() -> None:
    """What may be slow is not one to end, and its stacks are one more look."""
    found = by_purpose(confirm(job(8), (Cause.DATA_LOADING,)))
    assert [*found] == [Purpose.LOOK, Purpose.DUMP, Purpose.PROFILE, Purpose.TRACE]
    assert len(found[Purpose.TRACE]) == 2


@pytest.mark.parametrize("purpose", Purpose)
def test_what_ends_a_job_says_what_is_lost_and_nothing_else_does(purpose: Purpose) -> None:
    assert ("is gone" in purpose.label) is (purpose is Purpose.END)
    assert not purpose.label.endswith((".", ":"))
