"""The prolog of a slurmd that runs in a Kubernetes pod: which pod that is, and which GPUs it has."""

import pytest

from .machine import uuid

POD = "4d01379a-a293-46f9-b558-a8de7db7816f"
STATIC = "0123456789abcdef0123456789abcdef"
ROOT = "1320 1357 0:377 / / rw,relatime master:247 - overlay overlay rw,lowerdir=/var/lib/containerd/snapshots/154/fs"
HOSTS = f"1342 1320 259:1 /var/lib/kubelet/pods/{POD}/etc-hosts /etc/hosts rw,relatime - ext4 /dev/root rw"
LOG = f"1343 1322 259:1 /lib/kubelet/pods/{POD}/containers/slurmd/5f5 /dev/termination-log rw,relatime - xfs /dev/v rw"


@pytest.mark.parametrize(
    ("mounts", "pod"),
    [
        pytest.param((ROOT, HOSTS), POD, id="by its hosts file"),
        pytest.param((ROOT, LOG), POD, id="by its termination log, on a file system of the kubelet's own"),
        pytest.param((ROOT, HOSTS.replace(POD, STATIC)), STATIC, id="a static pod"),
        pytest.param((ROOT,), None, id="no pod"),
        pytest.param((), None, id="nothing can be read"),
        pytest.param(
            (f"90 24 0:40 / /var/lib/kubelet/pods/{POD}/volumes/kubernetes.io~empty-dir/shm rw - tmpfs tmpfs rw",),
            None,
            id="the node itself, which has the pods' volumes",
        ),
        pytest.param(
            (f"90 24 8:1 /var/lib/kubelet/pods/{POD}/volumes/x/y /mnt/hosts rw - ext4 /dev/root rw",),
            None,
            id="somebody else's files, somewhere",
        ),
        pytest.param(
            ("1 2 8:1 /var/lib/docker/containers/c0ffee/hosts /etc/hosts rw - ext4 /dev/root rw",), None, id="docker"
        ),
        pytest.param((HOSTS.replace(POD, 'a","job_id":1'),), None, id="what no uid is made of"),
        pytest.param((HOSTS.replace(POD, "a" * 65),), None, id="longer than any uid"),
        pytest.param(("", "x", "\x01\xff " * 50, HOSTS), POD, id="after nonsense"),
    ],
)
def test_the_pod_is_known_by_the_files_that_the_kubelet_mounts(machine, mounts, pod):
    machine.enter_pod(*mounts)
    machine.prolog()
    assert machine.read().get("pod_uid") == pod
    assert machine.jobs() == {uuid(0): ["7"]}


def test_in_a_pod_an_index_counts_the_gpus_whose_device_files_it_has(machine):
    """The driver's files tell of all four."""
    machine.enter_pod(HOSTS, minors=(1, 3))
    machine.prolog(gpus="0,1")
    assert list(machine.jobs()) == [uuid(1), uuid(3)]


def test_in_a_pod_without_device_files_it_counts_those_that_the_driver_tells_of(machine):
    machine.enter_pod(HOSTS)
    machine.prolog(gpus="1")
    assert list(machine.jobs()) == [uuid(1)]


def test_outside_a_pod_device_files_tell_nothing(machine):
    """They may not be there yet."""
    machine.enter_pod(ROOT, minors=(3,))
    machine.prolog(gpus="1")
    assert list(machine.jobs()) == [uuid(1)]
