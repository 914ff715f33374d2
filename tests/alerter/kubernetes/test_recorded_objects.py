"""What a real API server sent: pods, nodes, metadata and watches, as recorded."""

from __future__ import annotations

from pathlib import Path

from dutycycle_alerter.kubernetes import objects
from dutycycle_alerter.kubernetes.model import Node, Reference
from dutycycle_alerter.kubernetes.nodes import NodeDecoder
from dutycycle_alerter.kubernetes.objects import decode_event, decode_metadata, decode_page
from tests.alerter.kubernetes.decoded import AT, GI, GPUS, decode
from tests.required import lacking

RECORDED = Path(__file__).parents[3] / "../shared/data/kubernetes"


def recorded(name: str) -> bytes:
    path = RECORDED / name
    if not path.exists():
        lacking("the recorded API server beside the repository (../shared/data)")
    return path.read_bytes()


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
