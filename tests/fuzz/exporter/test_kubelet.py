"""What the kubelet and the API server answer the exporter: protobuf, gRPC's frames, HTTP and JSON."""

from __future__ import annotations

import http.client
import json
import math
import socket
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from h2.config import H2Configuration
from h2.connection import H2Connection
from hypothesis import assume, example
from hypothesis import strategies as st

from dutycycle_exporter.attribution.errors import UnusableError
from dutycycle_exporter.attribution.kubernetes.api_server import ApiServer
from dutycycle_exporter.attribution.kubernetes.call import _Exchange
from dutycycle_exporter.attribution.kubernetes.container_logs import ContainerLogs
from dutycycle_exporter.attribution.kubernetes.devices import DeviceTable, Selection
from dutycycle_exporter.attribution.kubernetes.messages import ClaimResource, decode_pods
from dutycycle_exporter.attribution.kubernetes.records import Naming, is_pod_name, parse_pods, parse_slices
from dutycycle_exporter.attribution.text import is_name
from dutycycle_exporter.errors import ExporterError
from dutycycle_exporter.model import GpuReading
from tests.fakes.kubelet import claim, list_reply, pod
from tests.fuzz.hostile import documents, jsons, texts
from tests.fuzz.running import fuzz

GPU = "GPU-7d1bfc74-4f2f-5b3a-9a2b-0c1ac5be1e3d"
MIG = "MIG-1d1bfc74-4f2f-5b3a-9a2b-0c1ac5be1e3d"
TABLE = DeviceTable.of(
    [
        GpuReading(GPU, 0, "NVIDIA H200", minor=0),
        GpuReading(GPU, 0, "NVIDIA H200", mig=MIG, gpu_instance=7, compute_instance=0),
    ]
)
SELECTION = Selection(("nvidia.com/*",))
REPLIES = (
    list_reply(
        pod("train-0", "physics", {"nvidia.com/gpu": [GPU, "nvidia0/gi7"]}),
        pod("train-1", "physics", claims=[claim("gpu-0", cdi=["nvidia.com/gpu=0"])]),
        pod("web-0"),
    ),
    b"",
)
PIECES = (
    *(
        b"\n\0" * 500,
        b"\x0a\xff\xff\xff\xff\x0f",
        b"\x0b" * 200,
        b"\x0b\x0c",
        b"\x80" * 11,
        b"\x08\x01",
        b"\x0d",
        b"\0",
    ),
    *(b"\x1a\x04\n\x02\x1a\0", b"\x12\0", b"\x2a\0"),
)


@fuzz(reply=documents(REPLIES, tokens=PIECES))
def test_a_list_of_pods_is_read_or_refused(reply: bytes) -> None:
    try:
        pods = decode_pods(reply)
    except UnusableError as error:
        assert error.reason == "protocol"
        return
    for one in pods:
        held = SELECTION.of(one)
        devices, unknown = TABLE.of_pod(held, {})
        assert unknown <= len(held.ids) + len(held.claims), "each name is a device, or counted"
        assert bool(held) == bool(devices or unknown)
        assert all(is_name(name) for names in devices.values() for name in names)


NAMES = (GPU, MIG, "nvidia0", "nvidia0/gi7", "nvidia0/vgpu3", f"MIG-{GPU}/7/0", f"{GPU}::3", "gpu-0")


@fuzz(device=texts(NAMES), cdi=texts(["nvidia.com/gpu=0", f"nvidia.com/gpu={GPU}"]), published=texts([GPU, MIG]))
def test_a_devices_name_means_devices_or_nothing(device: str, cdi: str, published: str) -> None:
    told = ClaimResource((cdi,), "gpu.nvidia.com", "pool", device)
    for key in (*TABLE.plugin(device), *TABLE.claim(told, {}), *TABLE.claim(told, {("pool", device): published})):
        assert is_name(key)
        assert key.startswith(("GPU-", "MIG-"))


def _answered(message: bytes, trailers: Mapping[str, str]) -> bytes:
    """What a server sends for a call, once it has read it."""
    asked = _Exchange("/v1.PodResourcesLister/List", b"", 1.0, 1 << 16).outgoing()
    server = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
    server.initiate_connection()
    server.receive_data(asked)
    server.send_headers(1, [(":status", "200"), ("content-type", "application/grpc")])
    server.send_data(1, b"\0" + len(message).to_bytes(4, "big") + message)
    server.send_headers(1, list(trailers.items()), end_stream=True)
    return server.data_to_send()


GRPC = (
    _answered(REPLIES[0], {"grpc-status": "0"}),
    _answered(b"", {"grpc-status": "8", "grpc-message": "rate limited"}),
)
FRAMES = (
    *(b"\0\0\0\x04\0\0\0\0\0", b"\0\0\x08\x06\0\0\0\0\0" + b"a" * 8, b"\0\0\x04\x03\0\0\0\0\x01\0\0\0\x08"),
    *(
        b"\0\0\x08\x07\0\0\0\0\0" + b"\0" * 8,
        b"\xff\xff\xff\0\0\0\0\0\x01",
        b"\0\0\0\x09\0\0\0\0\x01",
        b"\0\0\x01\0\x08\0\0\0\x01\xff",
    ),
    *(b"\0\0\x04\x08\0\0\0\0\0\x7f\xff\xff\xff", b"\0\0\0\x01\x05\0\0\0\x01", b"\0\0\x05\x02\0\0\0\0\x01\0\0\0\x01\0"),
)


@fuzz(answer=documents(GRPC, tokens=FRAMES), piece=st.integers(1, 4096))
def test_any_bytes_on_the_kubelets_socket_are_a_reply_or_refused(answer: bytes, piece: int) -> None:
    exchange = _Exchange("/v1.PodResourcesLister/List", b"", 1.0, 1 << 16)
    exchange.outgoing()
    try:
        for begin in range(0, len(answer), piece):
            exchange.receive(answer[begin : begin + piece])
            if exchange.ended:
                assert len(exchange.message()) <= 1 << 16
                return
            exchange.outgoing()
    except UnusableError as error:
        known = ("protocol", "closed", "too_large")
        assert error.reason in known or error.reason.startswith("grpc_")


class _Answering(http.client.HTTPConnection):
    """A connection on which the answer lies ready, and nothing comes after it."""

    def __init__(self, answer: bytes) -> None:
        super().__init__("localhost", timeout=5)
        self._bytes = answer

    def connect(self) -> None:
        self.sock, other = socket.socketpair()
        self.sock.settimeout(5)
        with other:
            other.sendall(self._bytes)
            other.shutdown(socket.SHUT_WR)
            # What is asked is read: a close with bytes unread would be a reset.
            self._other = other.dup()

    def close(self) -> None:
        super().close()
        if hasattr(self, "_other"):
            self._other.close()


class _Server(ApiServer):
    def __init__(self, answer: bytes) -> None:
        super().__init__("http://localhost")
        object.__setattr__(self, "answer", answer)

    def _connection(self, timeout: float) -> http.client.HTTPConnection:
        return _Answering(self.__dict__["answer"])


HTTP = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    b"HTTP/1.1 403 Forbidden\r\nContent-Length: 9\r\n\r\nforbidden",
)
HEADERS = (
    b"Content-Length: -1\r\n",
    b"Content-Length: 99999999999999999999\r\n",
    b"ffffffffffffffff\r\n",
    b"HTTP/9.9",
    b"100",
)
REASONS = {
    *("protocol", "closed", "too_large", "timeout", "unauthorized", "forbidden", "not_found", "gone", "throttled"),
    "server_error",
}


@fuzz(answer=documents(HTTP, tokens=HEADERS))
def test_any_bytes_of_the_api_server_are_a_body_or_refused(answer: bytes) -> None:
    try:
        assert len(_Server(answer).get("/api/v1/pods", timeout=5, limit=1 << 16)) <= 1 << 16
    except UnusableError as error:
        assert error.reason in REASONS


HOSTS = texts(["10.0.0.1", "fd00::1", "kubernetes.default.svc"], tokens=["[", "]", "@", "/", "#", "%"])


@fuzz(host=HOSTS, port=texts(["443", "6443", "https"], tokens=["/", "@", "#", "65536"]))
@example(host="fd00::1f", port="")
@example(host="a b", port="443")
def test_a_pods_environment_names_a_server_or_is_refused(host: str, port: str, directory: Path) -> None:
    (directory / "token").touch()
    environ = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
    # What a variable cannot have in it.
    assume("\0" not in host + port)
    try:
        found = ApiServer.of_pod(environ, directory)
    except ExporterError as error:
        assert "the API server's address" in str(error)
        assert str(error).isprintable()
        return
    assert (found is None) == (not host)
    if found is not None:
        url = found.url.replace("https", "http", 1)
        ApiServer(url)._connection(1.0).close()


POD = {
    "metadata": {
        "name": "train-0",
        "namespace": "physics",
        "uid": "4d01379a-a293-46f9-b558-a8de7db7816f",
        "creationTimestamp": "2026-05-01T12:00:00Z",
        "labels": {"app": "train", "team": "a"},
        "annotations": {
            "example.org/user": "ada",
            "kubernetes.io/config.hash": "0",
            "kubernetes.io/config.mirror": "0",
        },
        "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "u", "controller": True}],
    },
    "status": {"phase": "Running", "startTime": "2026-05-01T12:00:01Z"},
}
PODS = ({"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "7"}, "items": [POD, POD]},)
NAMING = Naming("example.org/user", "user", ("app", "te*"), ("app=slurm*",))


@fuzz(body=jsons(PODS, raw=['"0001-01-01T00:00:00Z"', '"9999-12-31T23:59:59-23:59"', '"2026-05-01"', '"Failed"']))
@example(body=json.dumps(PODS[0]).replace('"Running"', "[]").encode())
@example(body=json.dumps(PODS[0]).replace("2026-05-01T12:00:01Z", "0001-01-01T00:00:00Z").encode())
def test_a_list_of_pod_objects_is_records_or_refused(body: bytes) -> None:
    try:
        records, bad = parse_pods(body, NAMING)
    except UnusableError as error:
        assert error.reason == "protocol"
        return
    assert bad >= 0
    for record in records:
        assert all(map(is_pod_name, (record.uid, record.namespace, record.name)))
        assert record.user
        assert is_name(record.user)
        assert record.start is None or (math.isfinite(record.start) and record.start > 0)
        assert all(is_name(name) and is_name(value) for name, value in record.labels)


TARGETS = (
    "/var/log/pods/physics_train-0_7d1bfc74-4f2f-5b3a-9a2b-0c1ac5be1e3d/main/0.log",
    "../pods/physics_train-0_0c1ac5be1e3d/main/12.log",
)


@fuzz(
    targets=st.lists(texts(TARGETS, tokens=["/", "_", "__", "..", "0.log", "/var/log/pods/", "\n", "\x7f"]), max_size=3)
)
@example(targets=["_" * 200 + "/main/0.log"])
def test_any_links_beside_logs_are_uids_of_pods_or_nothing(targets: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for number, target in enumerate(targets):
            # What no link can lead to, the system refuses to make.
            with suppress(OSError, ValueError):
                (Path(folder) / str(number)).symlink_to(target)
        found = ContainerLogs(Path(folder)).uids()
    assert found is not None
    assert sum(map(len, found.values())) <= len(targets)
    for (namespace, name), uids in found.items():
        assert all(map(is_pod_name, (namespace, name, *uids)))


DEVICE = {"name": "gpu-0", "attributes": {"uuid": {"string": GPU}, "index": {"int": 0}}}
SLICES = (
    {
        "kind": "ResourceSliceList",
        "items": [
            {"spec": {"driver": "gpu.nvidia.com", "pool": {"name": "n1"}, "devices": [DEVICE]}},
            {"spec": {"pool": {"name": "n1"}, "devices": [{"name": "gpu-1", "basic": DEVICE}]}},
        ],
    },
)


@fuzz(body=jsons(SLICES))
def test_a_list_of_slices_is_devices_or_refused(body: bytes) -> None:
    try:
        found = parse_slices(body)
    except UnusableError as error:
        assert error.reason == "protocol"
        return
    assert all(isinstance(text, str) for (pool, name), uuid in found.items() for text in (pool, name, uuid))
