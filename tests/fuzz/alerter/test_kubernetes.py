"""What Kubernetes API servers answer: lists, watches, refusals, and what people write on their objects."""

from __future__ import annotations

import json
import math

from hypothesis import strategies as st
from msgspec import Raw

from dutycycle_alerter.declarations import from_annotations, from_comment
from dutycycle_alerter.kubernetes.client import Client, refused
from dutycycle_alerter.kubernetes.failures import ApiError
from dutycycle_alerter.kubernetes.fetching import _GROUP, _RESOURCES
from dutycycle_alerter.kubernetes.nodes import NodeDecoder
from dutycycle_alerter.kubernetes.objects import (
    BROKEN,
    MalformedError,
    decode_event,
    decode_metadata,
    decode_page,
    decode_status,
    identify,
    seconds,
)
from dutycycle_alerter.kubernetes.pods import PodDecoder, gpu_resources
from dutycycle_alerter.kubernetes.quantities import parse_quantity
from dutycycle_alerter.kubernetes.resources import served_under
from dutycycle_alerter.kubernetes.tables import NodeTable, PodTable
from tests.fakes.kubernetes import builders
from tests.fuzz.hostile import documents, jsons, texts
from tests.fuzz.running import fuzz

IS_GPU = gpu_resources(("nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-*"))
POD = builders.pod("train-0", gpus=2)
NODE = builders.node("n1", 8)
RAW = (
    '"500m"',
    '"16Gi"',
    '"1e20"',
    '"9E"',
    '"nvidia.com/gpu"',
    '"2026-05-01T12:00:00Z"',
    '"0001-01-01T00:00:00Z"',
    '"Failed"',
)


def listed(kind: str, *items: object) -> object:
    return {"kind": kind, "apiVersion": "v1", "metadata": {"resourceVersion": "7", "continue": "x"}, "items": [*items]}


@fuzz(body=jsons([listed("PodList", POD, POD), listed("NodeList", NODE), listed("PodList")], raw=RAW))
def test_a_page_of_a_list_is_taken_or_refused(body: bytes) -> None:
    pods, nodes = PodTable(PodDecoder(IS_GPU), lambda _: None, 60.0), NodeTable(NodeDecoder(IS_GPU))
    for kind, table in (("PodList", pods), ("NodeList", nodes)):
        try:
            page = decode_page(body, kind)
        except MalformedError as error:
            assert len(str(error)) < 1000
            continue
        assert page.metadata.resourceVersion
        table.begin()
        table.page(page.items or ())
        table.commit()
    for pod in pods.pods().values():
        assert pod.uid
        assert pod.name
        assert pod.gpus >= 0
        for moment in (pod.started, pod.finished, pod.created):
            assert moment is None or (math.isfinite(moment) and moment > 0)
    for node in (nodes.nodes() or {}).values():
        assert node.name
        assert node.gpus >= 0


EVENTS = (
    {"type": "ADDED", "object": POD},
    {"type": "DELETED", "object": NODE},
    {"type": "BOOKMARK", "object": {"kind": "Pod", "metadata": {"resourceVersion": "8"}}},
    {
        "type": "ERROR",
        "object": {"kind": "Status", "code": 410, "message": "expired", "details": {"retryAfterSeconds": 1}},
    },
)


@fuzz(line=jsons(EVENTS, raw=RAW))
def test_a_line_of_a_watch_is_an_event_or_refused(line: bytes) -> None:
    try:
        event = decode_event(line)
    except MalformedError as error:
        assert len(str(error)) < 1000
        return
    identify(event.object)
    decode_status(event.object)
    for table in (PodTable(PodDecoder(IS_GPU), lambda _: None, 60.0), NodeTable(NodeDecoder(IS_GPU))):
        table.begin()
        table.commit()
        assert isinstance(table.change(event.type, event.object), str)


@fuzz(body=jsons([POD, NODE, {"metadata": {"name": "a", "uid": "u"}}], raw=RAW))
def test_any_object_is_metadata_or_refused(body: bytes) -> None:
    identify(body)
    for decode in (decode_metadata, PodDecoder(IS_GPU), NodeDecoder(IS_GPU)):
        try:
            decode(body)
        except MalformedError as error:
            assert len(str(error)) < 1000


STATUS = {"kind": "Status", "status": "Failure", "code": 403, "message": "pods is forbidden", "details": {"name": "x"}}


@fuzz(body=jsons([STATUS]), code=st.integers(100, 999), after=st.none() | st.floats(allow_nan=False))
def test_a_refusal_is_an_error_with_a_reason(body: bytes, code: int, after: float | None) -> None:
    error = refused("cluster: /api/v1/pods", code, decode_status(body), after)
    assert isinstance(error, ApiError)
    assert str(error).startswith("cluster")
    assert len(str(error)) < 5000


GROUPS = (
    {"kind": "APIResourceList", "resources": [{"name": "pytorchjobs", "kind": "PyTorchJob", "namespaced": True}]},
    {"kind": "APIGroup", "preferredVersion": {"groupVersion": "kubeflow.org/v1", "version": "v1"}},
)


@fuzz(body=jsons(GROUPS), group=texts(["kubeflow.org", "batch", ""]), version=texts(["v1", "v1beta1", "../.."]))
def test_what_a_server_serves_leads_nowhere_else(body: bytes, group: str, version: str) -> None:
    for decoder in (_RESOURCES, _GROUP):
        try:
            decoder.decode(body)
        except BROKEN:
            continue
    path = served_under(group, version)
    assert ".." not in path.split("/")
    assert path.isascii()
    assert not set(path) & set("?#% \n\\")


@fuzz(text=texts(["500m", "16Gi", "1e3", ".5", "1E", "12e-3", "100"]))
def test_a_quantity_is_an_amount_or_refused(text: str) -> None:
    try:
        value = parse_quantity(text)
    except ValueError:
        return
    assert 0 <= value <= 1e20


@fuzz(value=st.integers(0, 10**15), suffix=st.sampled_from(["", "k", "M", "G", "Ki", "Mi", "Gi"]))
def test_a_quantity_is_its_number_and_its_suffix(value: int, suffix: str) -> None:
    scale = {"": 1, "k": 1e3, "M": 1e6, "G": 1e9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}[suffix]
    try:
        assert math.isclose(parse_quantity(f"{value}{suffix}"), value * scale)
    except ValueError:
        assert value * scale > 1e20


@fuzz(text=texts(["2026-05-01T12:00:00Z", "2026-05-01T12:00:00.123456789+02:00", "9999-12-31T23:59:59-23:59"]))
def test_a_time_is_unix_seconds_or_none(text: str) -> None:
    found = seconds(text)
    assert found is None or (math.isfinite(found) and found > 0)


@fuzz(
    comment=texts(
        ["dutycycle:expect-uneven", "dutycycle:ignore=idle,stalled;dutycycle:kind=serving", "a dutycycle:x=y"]
    ),
    key=texts(["dutycycle.io/kind", "dutycycle.io/ignore", "dutycycle.io/expect-uneven", "app"]),
)
def test_what_a_job_says_of_itself_is_never_an_error(comment: str, key: str) -> None:
    for said in (from_comment(comment), from_annotations({key: comment})):
        assert len(said.ignore) <= 32
        assert all(word.isprintable() for word in said.unknown)


class _Response:
    """What urllib3 hands over of a watch, piece by piece."""

    status = 200

    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = pieces

    def read1(self, _: int) -> bytes:
        return self._pieces.pop(0) if self._pieces else b""

    def shutdown(self) -> None:
        return

    def close(self) -> None:
        return


class _Transport:
    shown = "cluster"

    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = pieces

    def request(self, *_: object, **__: object) -> _Response:
        return _Response([piece for piece in self._pieces if piece])


WATCH = b"".join(json.dumps(event).encode() + b"\n" for event in EVENTS)


@fuzz(content=documents([WATCH]), size=st.integers(1, 5000))
def test_the_lines_of_a_watch_are_whole(content: bytes, size: int) -> None:
    pieces = [content[begin : begin + size] for begin in range(0, len(content), size)]
    client = Client(_Transport(pieces), timeout=5.0)  # type: ignore[arg-type]
    lines = []
    try:
        lines.extend(client.watch("/api/v1/pods", {}, 5.0, 60.0).lines())
    except ApiError as error:
        assert "within a line" in str(error)
        assert content.rpartition(b"\n")[2].strip()
    assert lines == content[: content.rfind(b"\n") + 1].splitlines()
    for line in lines:
        try:
            assert isinstance(decode_event(line).object, Raw)
        except MalformedError:
            continue
