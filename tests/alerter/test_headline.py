"""What is wrong, in one line."""

import pytest

from dutycycle_alerter.headline import headline, shown_subject
from dutycycle_alerter.model import Gpu
from dutycycle_alerter.settings import Rules
from tests.alerter.web.doubles import incident


@pytest.mark.parametrize(
    ("rule", "concerned", "whole", "text"),
    [
        ("hung", 1, 1, "The GPU spins without working"),
        ("hung", 8, 8, "All 8 GPUs spin or wait without working"),
        ("idle", 1, 1, "The GPU is idle"),
        ("idle", 2, 2, "Both GPUs are idle"),
        ("idle", 8, 8, "All 8 GPUs are idle"),
        ("partially_idle", 1, 8, "1 of 8 GPUs is idle"),
        ("partially_idle", 4, 8, "4 of 8 GPUs are idle"),
        ("stalled", 1, 1, "The GPU keeps waiting for work"),
        ("uneven", 4, 8, "4 of 8 GPUs lag behind"),
        ("uneven", 3, 4, "The 4 GPUs work unevenly"),
        ("low_sm_activity", 2, 2, "Both GPUs look busy and hardly compute"),
        ("underused", 8, 8, "All 8 GPUs are hardly used"),
        ("memory_underused", 4, 4, "All 4 GPUs had most of their memory unused"),
        ("memory_pressure", 1, 4, "1 of 4 GPUs ran with its memory full"),
        ("overallocated", 4, 4, "The job asked for far more than it used"),
        ("idle", 2, 0, "Both GPUs are idle"),
        ("gpu_fault", 1, 8, "1 of 8 GPUs shows “gpu fault”"),
    ],
)
def test_headline(rule: str, concerned: int, whole: int, text: str) -> None:
    gpus = tuple(Gpu("n", str(n)) for n in range(concerned))
    assert headline(incident(rule=rule, gpus=gpus, job_gpus=whole)) == text


@pytest.mark.parametrize("rule", [*Rules.ORDER, *Rules.REPORTS])
def test_every_rule_has_words_of_its_own(rule: str) -> None:
    assert "show" not in headline(incident(rule=rule))


@pytest.mark.parametrize(
    ("subject", "scheduler", "cluster", "shown"),
    [
        ("k8s/ml/pytorchjob/bert/0f3c", "k8s", "", "k8s/ml/pytorchjob/bert"),
        ("north/k8s/ml/pytorchjob/bert/0f3c", "k8s", "north", "north/k8s/ml/pytorchjob/bert"),
        ("k8s/ml/notebook-0/0f3c", "k8s", "", "k8s/ml/notebook-0"),
        ("k8s/ml/notebook-0", "k8s", "", "k8s/ml/notebook-0"),
        ("slurm/120_3", "slurm", "", "slurm/120_3"),
        ("gpu/GPU-1", "", "", "gpu/GPU-1"),
    ],
)
def test_people_are_not_shown_uids(subject: str, scheduler: str, cluster: str, shown: str) -> None:
    assert shown_subject(incident(subject=subject, scheduler=scheduler, cluster=cluster)) == shown
