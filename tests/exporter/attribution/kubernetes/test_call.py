"""One call to a kubelet: what is understood, what is refused, by which word, and that it ends in time."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from concurrent import futures
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest

from dutycycle_exporter.attribution.errors import UnusableError
from dutycycle_exporter.attribution.kubernetes.call import call
from dutycycle_exporter.attribution.kubernetes.messages import decode_pods
from dutycycle_exporter.attribution.kubernetes.pods import LARGEST_REPLY
from tests.fakes.kubelet import FakeKubelet, Fault, Reply, exchanges, list_reply, pod
from tests.fakes.kubelet.recorded import Exchange, Recordings

LIST = "/v1.PodResourcesLister/List"
MIB = 2**20
OWN_CONNECTION = [("grpc.use_local_subchannel_pool", 1)]
"""grpcio otherwise goes on with a connection to an earlier kubelet of that name."""


def ask(
    path: Path, method: str = LIST, request: bytes = b"", *, timeout: float = 20, limit: int = LARGEST_REPLY
) -> bytes:
    return bytes(call(path, method, request, timeout=timeout, limit=limit))


def refusal(path: Path, method: str = LIST, request: bytes = b"", *, timeout: float = 20) -> str:
    with pytest.raises(UnusableError) as caught:
        ask(path, method, request, timeout=timeout)
    return caught.value.reason


def descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def word(number: int) -> str:
    return f"grpc_{next(code.name.lower() for code in grpc.StatusCode if code.value[0] == number)}"


@contextmanager
def recorded_kubelet(path: Path, recordings: Recordings, exchange: Exchange) -> Iterator[FakeKubelet]:
    """A kubelet that holds what the recorded one held at the time of an exchange."""
    stage = f"{exchange.name.split('-get-')[0]}-list"
    with FakeKubelet(path) as kubelet:
        kubelet.raw = recordings[stage].reply if stage in exchanges() else b""
        if exchange.method.endswith("/GetAllocatableResources"):
            kubelet.allocatable = exchange.reply or b""
        elif exchange.reply is not None:
            # The order of devices differs from call to call. A reply to Get is a list of one pod, byte for byte.
            kubelet.raw = exchange.reply
        yield kubelet


def test_all_49_recorded_exchanges_are_replayed(recordings: Recordings, socket_path: Path) -> None:
    """The double answers byte for byte as the kubelet did, and both the exporter's client and grpcio's see the same."""
    replayed = list(recordings)
    assert len(replayed) == 49
    for exchange in replayed:
        if exchange.elsewhere or exchange.name == "12-rate-limit":
            continue
        with recorded_kubelet(socket_path, recordings, exchange) as kubelet:
            answer = kubelet.answer(exchange.method, exchange.request)
            assert (answer.code, answer.text) == (exchange.number, exchange.message), exchange.name
            with grpc.insecure_channel(f"unix:{socket_path}", options=OWN_CONNECTION) as channel:
                witness = channel.unary_unary(exchange.method)
                if exchange.number:
                    with pytest.raises(grpc.RpcError) as caught:
                        witness(exchange.request, timeout=20)
                    assert caught.value.code().value[0] == exchange.number, exchange.name
                    assert caught.value.details() == exchange.message, exchange.name
                    assert refusal(socket_path, exchange.method, exchange.request) == word(exchange.number)
                else:
                    assert witness(exchange.request, timeout=20) == exchange.reply, exchange.name
                    assert ask(socket_path, exchange.method, exchange.request) == exchange.reply, exchange.name


def test_a_kubelet_that_is_down_refuses_and_its_socket_stays(recordings: Recordings, socket_path: Path) -> None:
    assert recordings["15-kubelet-down"].elsewhere
    FakeKubelet(socket_path).start().stop()
    assert socket_path.exists()
    assert refusal(socket_path) == "refused"


def test_a_tight_loop_is_rejected_as_it_was(recordings: Recordings, socket_path: Path) -> None:
    recorded = recordings["12-rate-limit"]
    with FakeKubelet(socket_path, rate_limit=True) as kubelet:
        answers = [kubelet.answer(LIST, b"") for _ in range(400)]
        rejected = [answer for answer in answers if answer.code]
        assert {(one.code, one.text) for one in rejected} == {(recorded.number, recorded.message)}
        assert answers.index(rejected[0]) >= 9
        kubelet.answer = lambda *_: rejected[0]  # type: ignore[method-assign]
        assert refusal(socket_path) == "grpc_resource_exhausted"


def test_a_real_grpc_server_is_understood(socket_path: Path) -> None:
    """Against a server that shares nothing with the client, over several sizes of reply."""
    replies = {"/t/Small": list_reply(pod("a")), "/t/Empty": b"", "/t/Large": list_reply(pod("a")) * 500_000}

    class Handler(grpc.GenericRpcHandler):
        def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
            if details.method == "/t/Sick":
                return grpc.unary_unary_rpc_method_handler(
                    lambda _, context: context.abort(grpc.StatusCode.INTERNAL, "snow ☃ 100%")
                )
            if details.method not in replies:
                return None
            return grpc.unary_unary_rpc_method_handler(lambda _, __: replies[details.method])

    socket_path.parent.mkdir()
    server = grpc.server(futures.ThreadPoolExecutor(2), options=[("grpc.max_send_message_length", -1)])
    server.add_generic_rpc_handlers((Handler(),))
    server.add_insecure_port(f"unix:{socket_path}")
    server.start()
    try:
        for method, reply in replies.items():
            assert ask(socket_path, method) == reply
        assert refusal(socket_path, "/t/None") == "grpc_unimplemented"
        assert refusal(socket_path, "/t/Sick") == "grpc_internal"
    finally:
        server.stop(None).wait()


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (Fault.TRUNCATE, "closed"),
        (Fault.CLOSE, "closed"),
        (Fault.GOAWAY, "closed"),
        (Fault.RESET, "closed"),
        (Fault.GARBAGE, "protocol"),
        (Fault.NO_STATUS, "protocol"),
        (Fault.BAD_STATUS, "protocol"),
        (Fault.SHORT, "protocol"),
        (Fault.LONG, "protocol"),
        (Fault.COMPRESSED, "protocol"),
        (Fault.HTTP_503, "protocol"),
        (Fault.NOT_GRPC, "protocol"),
    ],
)
def test_a_kubelet_that_answers_nonsense_is_refused(fault: Fault, reason: str, socket_path: Path) -> None:
    with FakeKubelet(socket_path, pod("a")) as kubelet:
        kubelet.fault = fault
        assert refusal(socket_path) == reason
        kubelet.fault = None
        assert decode_pods(ask(socket_path))[0].name == "a"


@pytest.mark.parametrize(
    "fault", [Fault.HANG, Fault.HANG_AFTER_REQUEST, Fault.HANG_AFTER_HEADERS, Fault.DRIP, Fault.HTTP1]
)
def test_a_kubelet_that_does_not_finish_is_left_when_the_time_is_up(fault: Fault, socket_path: Path) -> None:
    """Also one that goes on sending: the time is for the whole call. HTTP/1.1 looks like a frame that does not end."""
    with FakeKubelet(socket_path, pod("a")) as kubelet:
        kubelet.fault = fault
        assert refusal(socket_path, timeout=0.3) == "timeout"


def test_a_message_that_is_no_protobuf_is_refused(socket_path: Path) -> None:
    with FakeKubelet(socket_path, pod("a")) as kubelet:
        kubelet.fault = Fault.BAD_MESSAGE
        with pytest.raises(UnusableError, match="protocol"):
            decode_pods(ask(socket_path))


def test_a_reply_over_grpcs_own_limit_is_read(socket_path: Path) -> None:
    with FakeKubelet(socket_path) as kubelet:
        kubelet.raw = list_reply(pod("a", "ml", {"nvidia.com/gpu": ["GPU-0"]})) * (5 * MIB // 48)
        assert len(kubelet.raw) > 4 * MIB
        assert ask(socket_path) == kubelet.raw


def test_a_reply_over_the_exporters_limit_is_refused_at_once(socket_path: Path) -> None:
    """By what its prefix announces: nothing of it is kept."""
    with FakeKubelet(socket_path) as kubelet:
        kubelet.raw = bytes(LARGEST_REPLY + 1)
        assert refusal(socket_path) == "too_large"
        kubelet.fault = Fault.HANG_AFTER_HEADERS
        assert refusal(socket_path) == "too_large"


def test_a_status_that_grpc_does_not_know_is_unknown(socket_path: Path) -> None:
    with FakeKubelet(socket_path) as kubelet:
        for code in (17, 99, 10**30):
            kubelet.answer = lambda *_, code=code: Reply(code=code, text="?")  # type: ignore[method-assign]
            assert refusal(socket_path) == "grpc_unknown"


def test_what_is_not_a_kubelets_socket(socket_path: Path) -> None:
    assert refusal(socket_path) == "missing"
    socket_path.parent.mkdir()
    assert refusal(socket_path) == "missing"
    socket_path.write_text("a file")
    assert refusal(socket_path) == "refused"
    assert refusal(socket_path / "below") == "missing"
    assert refusal(Path("/" + "x" * 200)) == "unreadable"


def test_a_directory_that_may_not_be_entered(socket_path: Path) -> None:
    """0750 root, as the kubelet's is: a user of its own is told so, root without capabilities gets in as its owner."""
    user = os.geteuid()
    with FakeKubelet(socket_path):
        socket_path.parent.chmod(0o750 if user == 0 else 0)
        try:
            if user == 0:
                os.seteuid(65534)
            assert refusal(socket_path) == "permission"
        finally:
            os.seteuid(user)
            socket_path.parent.chmod(0o700)


def test_a_kubelet_that_does_not_accept_does_not_block(socket_path: Path) -> None:
    """A full backlog: the first callers wait for an answer, the next is told at once."""
    socket_path.parent.mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(socket_path))
        listener.listen(0)
        reasons = {refusal(socket_path, timeout=0.2) for _ in range(4)}
    assert reasons <= {"timeout", "refused"}


def test_a_kubelet_that_was_restarted_is_found_under_its_name(socket_path: Path) -> None:
    kubelet = FakeKubelet(socket_path, pod("a")).start()
    inode = socket_path.stat().st_ino
    assert decode_pods(ask(socket_path))[0].name == "a"
    kubelet.stop()
    os.link(socket_path, socket_path.with_name("kept"))
    kubelet.pods = [pod("b")]
    kubelet.start()
    try:
        assert socket_path.stat().st_ino != inode
        assert decode_pods(ask(socket_path))[0].name == "b"
    finally:
        kubelet.stop()


def test_no_descriptor_and_no_thread_is_left(socket_path: Path) -> None:
    with FakeKubelet(socket_path, pod("a")) as kubelet:
        for fault in (None, Fault.CLOSE, Fault.GARBAGE):
            kubelet.fault = fault
            before, threads = descriptors(), threading.active_count()
            for _ in range(20):
                try:
                    ask(socket_path)
                except UnusableError:
                    continue
            kubelet.stop()
            kubelet.start()
            assert descriptors() <= before
            assert threading.active_count() <= threads
