"""Uids of pods from the links beside their containers' logs: what is a link there, and what is anything else."""

from __future__ import annotations

from pathlib import Path

from dutycycle_exporter.attribution.kubernetes import ContainerLogs
from tests.fakes.kubelet import link_logs

UID = "0f3c9d7e-6f0e-4b43-9f43-1d4cf1a2b3c4"


def test_a_pods_uid_is_that_of_its_containers_logs(tmp_path: Path) -> None:
    """As the kubelet writes it; what it leads to need not be there."""
    link_logs(tmp_path, "train-0", UID, containers=("main", "side"))
    link_logs(tmp_path, "proxy", "0123456789abcdef0123456789abcdef", namespace="kube-system")
    assert ContainerLogs(tmp_path).uids() == {
        ("ml", "train-0"): {UID},
        ("kube-system", "proxy"): {"0123456789abcdef0123456789abcdef"},
    }


def test_a_name_that_two_pods_had_has_both(tmp_path: Path) -> None:
    link_logs(tmp_path, "train-0", "u-old")
    link_logs(tmp_path, "train-0", "u-new")
    assert ContainerLogs(tmp_path).uids() == {("ml", "train-0"): {"u-old", "u-new"}}


def test_what_is_no_such_link_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "file.log").write_text("ml_a_u")
    (tmp_path / "directory").mkdir()
    targets = ("0.log", "main/0.log", "/var/log/pods/ml_a/main/0.log", "/var/log/pods/ml_a_u_v/main/0.log")
    targets += ("/var/log/pods/ml__u/main/0.log", f"/var/log/pods/ml_a_{'u' * 65}/main/0.log", "/p/m l_a_u/main/0.log")
    for number, target in enumerate(targets):
        (tmp_path / f"{number}.log").symlink_to(target)
    assert ContainerLogs(tmp_path).uids() == {}


def test_a_directory_that_cannot_be_read_tells_nothing(tmp_path: Path) -> None:
    assert ContainerLogs(tmp_path / "nowhere").uids() is None
    (tmp_path / "file").write_text("")
    assert ContainerLogs(tmp_path / "file").uids() is None
