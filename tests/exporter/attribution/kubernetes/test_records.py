"""What is read of the API server's lists, and what is refused."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutycycle_exporter.attribution.errors import UnusableError
from dutycycle_exporter.attribution.kubernetes.records import Naming, PodRecord, parse_pods, parse_slices
from tests.exporter.attribution.kubernetes.usual import NAMING
from tests.fakes.kubelet.recorded import Recordings


def pods(*items: Any, kind: str = "PodList") -> bytes:
    return json.dumps({"kind": kind, "apiVersion": "v1", "metadata": {}, "items": items}).encode()


def item(**metadata: Any) -> dict[str, Any]:
    phase = metadata.pop("phase", "Running")
    return {"metadata": {"name": "a", "namespace": "ml", "uid": "u-1", **metadata}, "status": {"phase": phase}}


def one(naming: Naming | None = None, **metadata: Any) -> PodRecord:
    [record], bad = parse_pods(pods(item(**metadata)), naming or NAMING)
    assert bad == 0
    return record


def test_a_recorded_list_of_a_nodes_pods(recordings: Recordings) -> None:
    body = recordings.http("02-pods/list-fieldselector-node")
    records, bad = parse_pods(body, Naming(labels=("app",)))
    listed = json.loads(body)["items"]
    assert bad == 0
    assert [(record.uid, record.namespace, record.name) for record in records] == [
        (one["metadata"]["uid"], one["metadata"]["namespace"], one["metadata"]["name"]) for one in listed
    ]
    assert [dict(record.labels) for record in records] == [
        {"app": one["metadata"]["labels"]["app"]} if "app" in one["metadata"].get("labels", {}) else {}
        for one in listed
    ]


@pytest.mark.parametrize(
    ("name", "over"),
    [("k8s-pod-running", False), ("k8s-pod-succeeded", True), ("k8s-pod-admission-failed", True)],
)
def test_recorded_pods_of_each_phase(name: str, over: bool, recordings: Recordings) -> None:
    pod = json.loads(recordings.http(f"09-podresources/{name}"))
    [record], _ = parse_pods(pods(pod), NAMING)
    assert record.over is over
    assert record.uid == pod["metadata"]["uid"]
    if name == "k8s-pod-running":
        assert record.user == "alice"
        assert record.start == pytest.approx(1795212853, abs=60)


@pytest.mark.parametrize(
    ("naming", "metadata", "user"),
    [
        (NAMING, {}, "ml"),
        (NAMING, {"annotations": {"dutycycle.io/user": "ada"}}, "ada"),
        (NAMING, {"annotations": {"dutycycle.io/user": ""}}, "ml"),
        (NAMING, {"annotations": {"dutycycle.io/user": "a\u202eb"}}, "ml"),
        (NAMING, {"annotations": {"dutycycle.io/user": "x" * 300}}, "ml"),
        (NAMING, {"annotations": {"dutycycle.io/user": 7}}, "ml"),
        (NAMING, {"annotations": None, "labels": []}, "ml"),
        (Naming("who", "owner"), {"annotations": {"who": "ada"}, "labels": {"owner": "bob"}}, "ada"),
        (Naming("who", "owner"), {"annotations": {"else": "ada"}, "labels": {"owner": "bob"}}, "bob"),
        (Naming("", ""), {"annotations": {"": "ada"}}, "ml"),
    ],
)
def test_a_pods_user_is_its_annotation_else_its_label_else_its_namespace(
    naming: Naming, metadata: dict[str, Any], user: str
) -> None:
    assert one(naming, **metadata).user == user


def test_only_labels_that_are_let_through() -> None:
    labels = {"app": "x", "team.io/name": "y", "secret": "z", "spec": "s", "app2": "é", "bad": "\n", "number": 1}
    assert one(Naming(labels=("app", "team.io/*", "spec", "bad", "number")), labels=labels).labels == (
        ("app", "x"),
        ("spec", "s"),
        ("team.io/name", "y"),
    )
    assert one(labels=labels).labels == ()


@pytest.mark.parametrize(
    ("labels", "slurm"),
    [
        pytest.param({"app.kubernetes.io/name": "slurmd", "app.kubernetes.io/component": "worker"}, True, id="slinky"),
        pytest.param({"app.kubernetes.io/name": "x", "slurm.nebius.ai/worker": "true"}, True, id="soperator"),
        pytest.param({"app.kubernetes.io/name": "SlurmCluster"}, True, id="soperator, before that had a label"),
        pytest.param({"app.kubernetes.io/name": "slurmctld"}, False, id="another value"),
        pytest.param({"app.kubernetes.io/name": "slurmd-x"}, False, id="a longer value"),
        pytest.param({"name": "slurmd"}, False, id="another label"),
        pytest.param({"app.kubernetes.io/name": ["slurmd"]}, False, id="no text"),
        pytest.param({}, False, id="none"),
        pytest.param(None, False, id="no labels"),
    ],
)
def test_a_pod_in_which_slurmd_runs_is_known_by_its_labels(labels: object, *, slurm: bool) -> None:
    assert one(NAMING, labels=labels).slurm is slurm


HASH, MIRROR = "kubernetes.io/config.hash", "kubernetes.io/config.mirror"
NODE = {"apiVersion": "v1", "kind": "Node", "name": "node0", "uid": "n-1", "controller": True}
MADE_BY_THE_KUBELET = {"annotations": {HASH: "3f9c", MIRROR: "3f9c"}, "ownerReferences": [NODE]}


def test_a_static_pods_uid_is_the_one_in_its_cgroup() -> None:
    assert one(**MADE_BY_THE_KUBELET).uid == "3f9c"


def test_a_static_pod_keeps_its_start_when_the_kubelet_restarts() -> None:
    """Its status then has the kubelet's new start. The start of any other pod may be long after its creation."""
    mine = item(creationTimestamp="2026-11-20T10:00:00Z", **MADE_BY_THE_KUBELET)
    other = item(creationTimestamp="2026-11-20T10:00:00Z")
    for one_of_them, start in ((mine, "2026-11-20T10:00:00+00:00"), (other, "2026-11-27T08:00:00+00:00")):
        one_of_them["status"]["startTime"] = "2026-11-27T08:00:00Z"
        [found], _ = parse_pods(pods(one_of_them), NAMING)
        assert found.start == datetime.fromisoformat(start).timestamp()


@pytest.mark.parametrize(
    "metadata",
    [
        pytest.param({"annotations": {HASH: "3f9c"}}, id="a hash alone"),
        pytest.param({"annotations": {MIRROR: "3f9c"}, "ownerReferences": [NODE]}, id="no hash"),
        pytest.param({"annotations": {HASH: "3f9c"}, "ownerReferences": [NODE]}, id="no mirror"),
        pytest.param({"annotations": {HASH: "3f9c", MIRROR: "0000"}, "ownerReferences": [NODE]}, id="another's mirror"),
        pytest.param({**MADE_BY_THE_KUBELET, "ownerReferences": None}, id="no owner"),
        pytest.param({**MADE_BY_THE_KUBELET, "ownerReferences": ["Node", 5, None]}, id="owners that are none"),
        pytest.param({**MADE_BY_THE_KUBELET, "ownerReferences": {"kind": "Node"}}, id="no list of owners"),
        pytest.param({**MADE_BY_THE_KUBELET, "ownerReferences": [NODE | {"kind": "Job"}]}, id="a job's"),
        pytest.param({**MADE_BY_THE_KUBELET, "ownerReferences": [NODE | {"apiVersion": "x.io/v1"}]}, id="another Node"),
        pytest.param({**MADE_BY_THE_KUBELET, "ownerReferences": [NODE | {"controller": False}]}, id="not controlled"),
    ],
)
def test_what_no_kubelet_has_written_gives_a_pod_no_other_uid(metadata: dict[str, Any]) -> None:
    assert one(**metadata).uid == "u-1"


@pytest.mark.parametrize("order", [1, -1])
def test_a_pod_that_says_to_be_another_takes_neither_its_uid_nor_its_name(order: int) -> None:
    forged = item(
        **(MADE_BY_THE_KUBELET | {"name": "x", "namespace": "evil", "annotations": {HASH: "u-9", MIRROR: "u-9"}})
    )
    records, _ = parse_pods(pods(*[forged, item(name="victim", uid="u-9")][::order]), NAMING)
    assert {(record.namespace, record.name, record.uid) for record in records} == {
        ("evil", "x", "u-1"),
        ("ml", "victim", "u-9"),
    }


@pytest.mark.parametrize("phase", [[], {}, ["Failed"], None, 7, "Unknown"])
def test_a_pod_in_no_known_phase_is_not_over(phase: object) -> None:
    assert not one(phase=phase).over


def test_a_start_that_is_none_is_not_known() -> None:
    assert one().start is None
    assert one(creationTimestamp="2026-11-20T22:14:13Z").start == 1795212853.0
    for nonsense in ("yesterday", "", 5, None, "9999-99-99T00:00:00Z", "0001-01-01T00:00:00Z", "2026-11-20T22:14:13"):
        assert one(creationTimestamp=nonsense).start is None


@pytest.mark.parametrize(
    "broken",
    [
        None,
        7,
        [],
        {},
        {"metadata": []},
        item(uid=None),
        item(uid=""),
        item(uid=5),
        item(uid="a/b"),
        item(uid="x" * 65),
        item(name=""),
        item(name="a/b"),
        item(name="a\nb"),
        item(namespace="m l"),
        item(name="x" * 300),
    ],
)
def test_an_item_that_is_no_pod_is_counted_and_the_others_are_read(broken: object) -> None:
    records, bad = parse_pods(pods(item(name="good"), broken, item(name="fine")), NAMING)
    assert [record.name for record in records] == ["good", "fine"]
    assert bad == 1


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"404 page not found\n",
        b"null",
        b"[]",
        b'{"kind":"Status","status":"Failure","code":410}',
        b'{"kind":"PodList","items":{}}',
        b'{"kind":"PodList","items":[NaN]}',
        b'{"kind":"PodList","items":[' + b"[" * 100_000,
        b'{"kind":"PodList","items":[{"metadata":{"name":"a","uid":' + b"9" * 10_000 + b"}}]}",
        b'{"kind":"PodList","items":[\xff\xfe]}',
        b'{"kind":"PodList","items":[',
    ],
)
def test_what_is_no_list_is_refused(body: bytes) -> None:
    for parse in (lambda text: parse_pods(text, NAMING), parse_slices):
        with pytest.raises(UnusableError, match="protocol"):
            parse(body)


def test_an_empty_list() -> None:
    assert parse_pods(b'{"kind":"PodList","items":null}', NAMING) == ((), 0)
    assert parse_pods(pods(), NAMING) == ((), 0)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["metadata", "name", "namespace", "uid", "labels", "annotations", "status", "phase", "spec"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(st.lists(_JSON, max_size=4))
def test_any_items_are_read_or_counted(items: list[object]) -> None:
    records, bad = parse_pods(pods(*items), Naming(labels=("*",)))
    assert len(records) + bad == len(items)
    parse_slices(pods(*items, kind="ResourceSliceList"))


def test_uuids_that_drivers_publish_in_each_version() -> None:
    uuid = {"uuid": {"string": "GPU-1"}}
    spec = {"driver": "gpu.nvidia.com", "nodeName": "n", "pool": {"name": "n"}}
    new = {"spec": {**spec, "devices": [{"name": "gpu-0", "attributes": uuid}, {"name": "gpu-9"}, 7]}}
    old = {"spec": {**spec, "devices": [{"name": "gpu-1", "basic": {"attributes": uuid}}]}}
    other = {"spec": {"pool": {"name": 5}, "devices": [{"name": "gpu-2", "attributes": uuid}]}}
    body = pods(new, old, other, {"spec": {"devices": {}}}, None, kind="ResourceSliceList")
    assert parse_slices(body) == {("n", "gpu-0"): "GPU-1", ("n", "gpu-1"): "GPU-1"}
