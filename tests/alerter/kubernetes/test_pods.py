"""What a pod requests and who owns it; whatever it says, it is read or refused, and takes little room."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutycycle_alerter.kubernetes import objects
from dutycycle_alerter.kubernetes.model import Reference
from dutycycle_alerter.kubernetes.objects import MalformedError
from tests.alerter.kubernetes.decoded import GI, asking, decode, kept, made
from tests.fakes.kubernetes import builders


@pytest.mark.parametrize(
    ("spec", "gpus", "cpus", "memory"),
    [
        pytest.param({"containers": [asking({"nvidia.com/gpu": 2})]}, 2, None, None, id="a number"),
        pytest.param(
            {"containers": [asking(None, {"nvidia.com/gpu": "2", "cpu": "1"})]}, 2, 1.0, None, id="limits only"
        ),
        pytest.param(
            {"containers": [asking({"cpu": "500m", "nvidia.com/gpu": "1"}, {"cpu": "4"}), asking({"cpu": "250m"})]},
            1,
            0.75,
            None,
            id="requests count, not limits",
        ),
        pytest.param(
            {"containers": [asking({"nvidia.com/mig-1g.18gb": "2"}), asking({"nvidia.com/gpu.shared": "1"})]},
            3,
            None,
            None,
            id="slices and shares",
        ),
        pytest.param(
            {
                "initContainers": [asking({"nvidia.com/gpu": "4", "memory": "1Gi"})],
                "containers": [asking({"nvidia.com/gpu": "1", "memory": "2Gi"})],
            },
            4,
            None,
            2 * GI,
            id="what runs before needs more",
        ),
        pytest.param(
            {
                "initContainers": [
                    asking({"nvidia.com/gpu": "1", "cpu": "1"}, restartPolicy="Always"),
                    asking({"nvidia.com/gpu": "3", "cpu": "1"}),
                ],
                "containers": [asking({"nvidia.com/gpu": "2", "cpu": "4"})],
            },
            4,
            5.0,
            None,
            id="a sidecar stays",
        ),
        pytest.param(
            {"containers": [asking({"nvidia.com/gpu": "1", "cpu": "2"})], "overhead": {"cpu": "250m", "memory": "1Gi"}},
            1,
            2.25,
            GI,
            id="overhead",
        ),
        pytest.param(
            {"containers": [asking({"nvidia.com/gpu": "1", "cpu": "2"})], "resources": {"requests": {"cpu": "8"}}},
            1,
            8.0,
            None,
            id="the whole pod's",
        ),
    ],
)
def test_what_a_pod_requests(spec: dict[str, Any], gpus: int, cpus: float | None, memory: float | None) -> None:
    pod = made(spec=spec)
    assert (pod.gpus, pod.cpus, pod.memory) == (gpus, cpus, memory)


def test_pods_without_gpus_are_not_kept_but_those_with_claims_are() -> None:
    assert kept(builders.pod("web", gpus=0)) is None
    assert kept(builders.pod("other", resource="amd.com/gpu")) is None
    claiming = kept(builders.pod("dra", gpus=0, claims=("gpu", "nic")))
    assert claiming is not None
    assert (claiming.gpus, claiming.claims) == (0, ("gpu", "nic"))


@pytest.mark.parametrize(("fields", "attended"), [({"tty": True}, True), ({"stdin": True}, True), ({}, False)])
def test_a_terminal_is_noticed(fields: dict[str, Any], attended: bool) -> None:
    assert made(containers=(asking({"nvidia.com/gpu": "1"}, **fields),)).attended is attended


def test_only_the_controller_is_the_owner() -> None:
    job = builders.workload("Job", "train", uid="job-1")
    other = builders.workload("Workflow", "flow", uid="flow-1", api_version="argoproj.io/v1alpha1")
    pod = made(owners=(builders.owner(other, controller=False), builders.owner(job)))
    assert pod.owner == Reference("batch/v1", "Job", "train", "job-1")
    assert made(owners=(builders.owner(other, controller=False),)).owner is None


def test_texts_are_bounded() -> None:
    """A manifest of 200 kB in an annotation is not kept for every pod; nor are thousands of labels."""
    pod = made(
        annotations={"kubectl.kubernetes.io/last-applied-configuration": "x" * 200_000, "dutycycle.io/user": "ada"},
        labels={f"l{number}": "v" for number in range(5000)},
    )
    assert pod.annotations == {"dutycycle.io/user": "ada"}
    assert len(pod.labels) == 128
    reason = made(phase="Failed", reason="a\u202eb\n" * 1000).reason
    assert len(reason) == 128
    assert reason.isprintable()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"null",
        b"[]",
        b"\xff\xfe",
        b'{"metadata": {"name": "a", "uid": "b"}}',
        b'{"metadata": {"name": "a", "uid": ""}, "spec": {}}',
        b'{"metadata": {"name": "%s", "uid": "b"}, "spec": {}}' % (b"a" * 254),
        b'{"metadata": {"name": "a", "uid": "b", "labels": {"a": 1}}, "spec": {}}',
        b'{"metadata": {"name": "a", "uid": "\\ud800"}, "spec": {}}',
        b'{"metadata": {"name": "a", "uid": "b"}, "spec": {"containers": [{"resources": {"limits": {"g": "x"}}}]}}',
        b'{"metadata": {"name": "a", "uid": "b"}, "spec": ' + b"[" * 100_000,
    ],
)
def test_what_is_no_pod_is_refused(body: bytes) -> None:
    with pytest.raises(MalformedError):
        decode(body)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
_PLACES = (
    ("metadata",),
    ("metadata", "labels"),
    ("metadata", "creationTimestamp"),
    ("metadata", "ownerReferences"),
    ("spec",),
    ("spec", "containers"),
    ("spec", "resourceClaims"),
    ("spec", "overhead"),
    ("status",),
    ("status", "phase"),
    ("status", "conditions"),
    ("status", "containerStatuses"),
    ("status", "initContainerStatuses"),
    ("spec", "restartPolicy"),
    ("spec", "containers", 0, "name"),
    ("spec", "containers", 0, "resources"),
)


@given(st.sampled_from(_PLACES), _JSON)
def test_a_pod_with_anything_anywhere_is_read_or_refused(place: tuple[Any, ...], value: Any) -> None:
    content = builders.pod("train-0")
    inner = content
    for name in place[:-1]:
        inner = inner[name]
    inner[place[-1]] = value
    try:
        decode(json.dumps(content).encode())
    except MalformedError:
        objects.identify(json.dumps(content).encode())
