"""Objects as servers send them: the recorded ones, what the scheduler makes of requests, and nonsense."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutycycle_alerter.kubernetes import objects
from dutycycle_alerter.kubernetes.model import Node, Pod, Reference, Standing
from dutycycle_alerter.kubernetes.nodes import NodeDecoder
from dutycycle_alerter.kubernetes.objects import MalformedError, decode_event, decode_metadata, decode_page
from dutycycle_alerter.kubernetes.pods import PodDecoder, gpu_resources
from dutycycle_alerter.kubernetes.quantities import parse_quantity
from tests.fakes.kubernetes import builders
from tests.required import lacking

RECORDED = Path(__file__).parents[3] / "../shared/data/kubernetes"
GPUS = gpu_resources(("nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-*"))
GI = 2.0**30
AT = 1795212861.0
"""2026-11-20T22:14:21Z"""

decode = PodDecoder(GPUS)


def recorded(name: str) -> bytes:
    path = RECORDED / name
    if not path.exists():
        lacking("the recorded API server beside the repository (../shared/data)")
    return path.read_bytes()


def kept(content: dict[str, Any]) -> Pod | None:
    return decode(json.dumps(content).encode()).kept


def made(**fields: Any) -> Pod:
    found = kept(builders.pod("train-0", **fields))
    assert found is not None
    return found


def asking(requests: Any = None, limits: Any = None, **fields: Any) -> dict[str, Any]:
    return {"name": "c", "image": "i", "resources": {"requests": requests, "limits": limits}, **fields}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0.0),
        ("4", 4.0),
        (4, 4.0),
        (0.5, 0.5),
        ("+4", 4.0),
        ("500m", 0.5),
        ("2.5", 2.5),
        (".5", 0.5),
        ("5.", 5.0),
        ("100u", 1e-4),
        ("3n", 3e-9),
        ("1k", 1000.0),
        ("1K", None),
        ("1Ki", 1024.0),
        ("16Gi", 16 * GI),
        ("1.5Gi", 1.5 * GI),
        ("2M", 2e6),
        ("1E", 1e18),
        ("1e3", 1000.0),
        ("1E3", 1000.0),
        ("12e-1", 1.2),
        ("1e3Ki", None),
        ("", None),
        (" 1", None),
        ("1\n", None),
        ("٣", None),
        ("-1", None),
        ("nan", None),
        ("inf", None),
        ("0x10", None),
        ("1e999", None),
        ("9" * 1000, None),
        ("9Ei", 9 * 2.0**60),
        ("99999E", None),
        (float("nan"), None),
        (-1, None),
        (10**400, None),
    ],
)
def test_quantities(text: str | float, value: float | None) -> None:
    if value is None:
        with pytest.raises(ValueError, match=r"no (quantity|amount)"):
            parse_quantity(text)
    else:
        assert parse_quantity(text) == pytest.approx(value)


@given(st.one_of(st.text(max_size=50), st.floats(), st.integers()))
def test_a_quantity_is_a_number_or_refused(text: str | float) -> None:
    with suppress(ValueError):
        assert 0 <= parse_quantity(text) <= 1e20


@pytest.mark.parametrize(
    ("time", "seconds"),
    [
        ("2026-11-20T22:14:21Z", AT),
        ("2026-11-20T22:14:21.5Z", AT + 0.5),
        ("2026-11-20T22:14:21.123456789Z", AT + 0.123456),
        ("2026-11-20T23:14:21+01:00", AT),
        ("0001-01-01T00:00:00Z", None),
        ("2026-11-20T22:14:21", None),
        ("2026-11-20", None),
        ("2026-13-20T22:14:21Z", None),
        ("9" * 5000, None),
        ("", None),
        (None, None),
    ],
)
def test_times(time: str | None, seconds: float | None) -> None:
    assert objects.seconds(time) == (None if seconds is None else pytest.approx(seconds))


def test_recorded_pods_are_read() -> None:
    page = decode_page(recorded("02-pods/list-all.res.json"), "PodList")
    pods = {found.name: found.kept for found in map(decode, page.items or ())}
    assert {name: pod.gpus for name, pod in pods.items() if pod} == {
        "notebook-carol": 1,
        "ps-0": 2,
        "serve-7f645fc699-k4krh": 1,
        "serve-7f645fc699-n8ctm": 1,
        "too-big": 16,
        "train-bert-fq59k": 4,
        "two-containers": 2,
    }
    waiting, train = pods["too-big"], pods["train-bert-fq59k"]
    assert waiting is not None
    assert (waiting.phase, waiting.waiting, waiting.node) == ("Pending", "Unschedulable", "")
    assert train is not None
    assert train.owner == Reference("batch/v1", "Job", "train-bert", "f3c95a90-ebc8-4648-91ae-3f279c66a2c2")
    assert (train.node, train.phase, train.cpus, train.memory) == ("gpu-node-b", "Running", 4.0, 16 * GI)
    assert train.annotations == {"dutycycle.io/user": "alice"}
    assert train.labels["team"] == "nlp"
    assert train.finished is None


def test_recorded_pods_at_their_end_are_read() -> None:
    done = decode(recorded("09-podresources/k8s-pod-succeeded.res.json")).kept
    assert done is not None
    assert (done.phase, done.finished, done.over, done.reason) == ("Succeeded", AT, True, "")
    refused = decode(recorded("09-podresources/k8s-pod-admission-failed.res.json")).kept
    assert refused is not None
    assert (refused.phase, refused.reason, refused.gpus) == ("Failed", "UnexpectedAdmissionError", 6)
    assert refused.finished == refused.started


def test_recorded_watches_are_read() -> None:
    told = [
        (event.type, objects.identify(event.object).version)
        for line in recorded("03-watch/watch-long-75s.res.jsonl").splitlines()
        for event in (decode_event(line),)
    ]
    assert [kind for kind, _ in told].count("BOOKMARK") == 3
    assert told[-1] == ("BOOKMARK", "426")
    [line] = recorded("03-watch/expired-watch-error-410.res.jsonl").splitlines()
    event = decode_event(line)
    status = objects.decode_status(event.object)
    assert (event.type, status.code, status.message) == ("ERROR", 410, "too old resource version: 1 (1111)")


def test_recorded_nodes_and_metadata_are_read() -> None:
    page = decode_page(recorded("02-pods/list-nodes.res.json"), "NodeList")
    nodes = [NodeDecoder(GPUS)(item).kept for item in page.items or ()]
    assert nodes == [Node(f"gpu-node-{letter}", gpus=8, type="NVIDIA-H200") for letter in "abc"]
    partial = decode_metadata(recorded("02-pods/get-metadata-only.res.json"))
    assert partial == decode_metadata(recorded("02-pods/pod-get-bare.res.json"))
    assert partial.uid == "9606fd41-901b-49ee-b19d-75627c925ba8"


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


def state(**states: Any) -> dict[str, Any]:
    return {"name": "c", "restartCount": 2, "state": states}


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        pytest.param(
            {"containerStatuses": [state(running={}), state(waiting={"reason": "CrashLoopBackOff"})]},
            {"waiting": "CrashLoopBackOff", "restarts": 4, "finished": None},
            id="crash loop",
        ),
        pytest.param(
            {
                "phase": "Pending",
                "initContainerStatuses": [state(waiting={"reason": "ImagePullBackOff"})],
                "containerStatuses": [state(waiting={"reason": "PodInitializing"})],
            },
            {"waiting": "ImagePullBackOff", "phase": "Pending"},
            id="image",
        ),
        pytest.param(
            {"phase": "Pending", "containerStatuses": [state(waiting={"reason": "ContainerCreating"})]},
            {"waiting": "ContainerCreating"},
            id="about to run",
        ),
        pytest.param(
            {
                "phase": "Pending",
                "containerStatuses": None,
                "conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}],
            },
            {"waiting": "SchedulingGated"},
            id="gated",
        ),
        pytest.param({"phase": "Failed", "reason": "Evicted"}, {"reason": "Evicted", "over": True}, id="evicted"),
        pytest.param(
            {
                "phase": "Failed",
                "containerStatuses": [state(terminated={"reason": "Error", "finishedAt": "2026-11-20T22:14:21Z"})],
                "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}],
            },
            {"reason": "PreemptionByScheduler", "finished": AT},
            id="preempted",
        ),
        pytest.param(
            {
                "phase": "Failed",
                "containerStatuses": [
                    state(terminated={"reason": "Completed", "finishedAt": "2026-11-20T22:14:20Z"}),
                    state(terminated={"reason": "OOMKilled", "finishedAt": "2026-11-20T22:14:21Z"}),
                ],
            },
            {"reason": "OOMKilled", "finished": AT},
            id="the last one's end",
        ),
        pytest.param(
            {
                "containerStatuses": [
                    state(terminated={"reason": "Completed", "finishedAt": "2026-11-20T22:14:21Z"}),
                    state(running={}),
                ]
            },
            {"finished": None, "over": False},
            id="one still runs",
        ),
        pytest.param(
            {
                "phase": "Failed",
                "containerStatuses": [state(running={})],
                "conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": "2026-11-20T22:14:21Z"}],
            },
            {"finished": AT},
            id="its node was lost",
        ),
    ],
)
def test_what_a_pod_says_of_itself(status: dict[str, Any], expected: dict[str, Any]) -> None:
    pod = made(status=status)
    assert {name: getattr(pod, name) for name in expected} == expected


def status(name: str, before: str = "", **states: Any) -> dict[str, Any]:
    last = {"terminated": {"reason": before, "finishedAt": "2026-11-20T22:14:21Z"}} if before else {}
    return {"name": name, "restartCount": 0, "state": states, "lastState": last}


RUNS = {"running": {"startedAt": "2026-11-20T22:14:21Z"}}
TRAINER, PROXY = asking({"nvidia.com/gpu": "1"}, name="trainer"), asking(name="proxy")


def over(reason: str) -> dict[str, Any]:
    return {"terminated": {"reason": reason, "finishedAt": "2026-11-20T22:14:21Z"}}


@pytest.mark.parametrize(
    ("spec", "statuses", "expected"),
    [
        pytest.param(
            {"restartPolicy": "Never"},
            [status("trainer", **over("Completed")), status("proxy", **RUNS)],
            Standing("trainer", "Completed", AT),
            id="completed",
        ),
        pytest.param(
            {"restartPolicy": "Never"},
            [status("proxy", **RUNS), status("trainer", **over("Error"))],
            Standing("trainer", "Error", AT),
            id="failed",
        ),
        pytest.param(
            {"restartPolicy": "OnFailure"},
            [status("trainer", **over("Completed")), status("proxy", **RUNS)],
            Standing("trainer", "Completed", AT),
            id="not made anew, for it completed",
        ),
        pytest.param(
            {"restartPolicy": "OnFailure"},
            [status("trainer", **over("Error")), status("proxy", **RUNS)],
            None,
            id="is made anew, for it failed",
        ),
        pytest.param(
            {"restartPolicy": "Always"},
            [status("trainer", **over("Completed")), status("proxy", **RUNS)],
            None,
            id="is made anew always",
        ),
        pytest.param(
            {"restartPolicy": "Always", "containers": [TRAINER | {"restartPolicy": "Never"}, PROXY]},
            [status("trainer", **over("Completed")), status("proxy", **RUNS)],
            Standing("trainer", "Completed", AT),
            id="a policy of its own",
        ),
        pytest.param(
            {"restartPolicy": "Never"},
            [status("trainer", **RUNS), status("proxy", **over("Completed"))],
            None,
            id="the one without GPUs",
        ),
        pytest.param(
            {"restartPolicy": "Never"},
            [status("trainer", **over("Completed")), status("proxy", **over("Completed"))],
            None,
            id="all have",
        ),
        pytest.param(
            {"restartPolicy": "Never", "containers": [TRAINER, TRAINER | {"name": "other"}]},
            [status("trainer", **over("Completed")), status("other", **RUNS)],
            None,
            id="another one with GPUs works on",
        ),
        pytest.param(
            {"restartPolicy": "Never", "resourceClaims": [{"name": "gpu"}]}
            | {"containers": [{"name": "trainer", "resources": {"claims": [{"name": "gpu"}]}}, PROXY]},
            [status("trainer", **over("Completed")), status("proxy", **RUNS)],
            Standing("trainer", "Completed", AT),
            id="a claim",
        ),
        pytest.param({}, [status("trainer", **over("Completed")), status("proxy", **RUNS)], None, id="no policy"),
        pytest.param({"restartPolicy": "Never"}, None, None, id="nothing yet"),
    ],
)
def test_a_container_with_gpus_that_is_over_while_another_runs_on(
    spec: dict[str, Any], statuses: Any, expected: Standing | None
) -> None:
    content = builders.pod("train-0", status={"containerStatuses": statuses})
    content["spec"] = {"containers": [TRAINER, PROXY], **spec}
    found = kept(content)
    assert found is not None
    assert found.ended == expected


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        ([status("get", **RUNS)], Standing("get", "", AT)),
        ([status("proxy", **RUNS), status("get", **RUNS)], Standing("get", "", AT)),
        ([status("proxy", **RUNS)], None),
        ([status("get", **over("Completed"))], None),
        ([status("get", running={"startedAt": "then"})], Standing("get")),
        ([status("x" * 9000, **RUNS)], Standing("x" * 79 + "…", "", AT)),
        (None, None),
    ],
)
def test_an_init_container_that_runs_is_known_but_none_that_stays_beside(
    statuses: Any, expected: Standing | None
) -> None:
    content = builders.pod("train-0", phase="Pending", status={"initContainerStatuses": statuses})
    content["spec"]["initContainers"] = [asking(name="get"), asking(name="proxy", restartPolicy="Always")]
    found = kept(content)
    assert found is not None
    assert found.starting == expected


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        ([status("proxy", **RUNS), status("trainer", "OOMKilled", **RUNS)], Standing("trainer", "OOMKilled", AT)),
        ([status("trainer", **over("OOMKilled"))], Standing("trainer", "OOMKilled", AT)),
        ([status("trainer", "Error", **RUNS)], None),
        ([status("trainer", **RUNS)], None),
    ],
)
def test_a_container_that_took_too_much_memory_last_time(statuses: Any, expected: Standing | None) -> None:
    assert made(status={"containerStatuses": statuses}).killed == expected


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


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>Sign in</html>",
        b'{"kind": "Status", "metadata": {}, "status": "Failure"}',
        b'{"kind": "NodeList", "metadata": {"resourceVersion": "5"}, "items": []}',
        b'{"kind": "PodList", "metadata": {"resourceVersion": "5"}}',
        b'{"kind": "PodList", "metadata": {}, "items": []}',
        b'{"kind": "PodList", "items": []}',
        b'{"kind": "PodList", "metadata": {"resourceVersion": "5"}, "items": [{"metadata": {"name": "a"',
    ],
)
def test_what_is_no_list_is_not_an_empty_one(body: bytes) -> None:
    """Else every pod would be gone."""
    with pytest.raises(MalformedError):
        decode_page(body, "PodList")


def test_who_a_malformed_object_is() -> None:
    body = b'{"metadata": {"name": "a", "uid": "b", "resourceVersion": "7", "labels": 3}}'
    assert objects.identify(body) == objects.Seen("b", "a", "7")
    assert objects.identify(b"[]") == objects.Seen("", "", "")


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


@given(st.binary(max_size=200))
def test_bytes_are_read_or_refused(body: bytes) -> None:
    for reader in (decode, NodeDecoder(GPUS), decode_event, decode_metadata, lambda some: decode_page(some, "PodList")):
        with pytest.raises(MalformedError):
            reader(body)
    assert objects.decode_status(body).code == 0


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"404 page not found\n", "404 page not found"),
        (b"<html>\n<b>No</b></html>", ""),
        (b"two\nlines", ""),
        (b'{"message": 5}', ""),
        (b"\xff\x00", ""),
        (b"", ""),
        (b'{"message": "pods is forbidden", "details": null}', "pods is forbidden"),
    ],
)
def test_what_a_server_says_of_its_refusal(body: bytes, message: str) -> None:
    assert objects.decode_status(body).message == message
