"""Exporter and alerter hold the same pods for nodes of another scheduler where nobody has set anything."""

from __future__ import annotations

from dutycycle_alerter.settings.kubernetes import KubernetesCluster
from dutycycle_exporter.cli import read_settings


def test_pods_in_which_slurmd_runs_are_known_by_the_same_labels() -> None:
    """Else a pod would be nobody's on one side and a job on the other."""
    assert set(KubernetesCluster().scheduler_pods) == set(read_settings([]).kubernetes_slurm_labels)
