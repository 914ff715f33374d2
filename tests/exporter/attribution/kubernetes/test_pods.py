"""The kubelet and the API server, asked on threads: what is known is told at once, whatever they do."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dutycycle_exporter.attribution.hosts import CgroupFiles
from dutycycle_exporter.attribution.kubernetes import ApiServer, ContainerLogs, KubernetesPods, Pace, holders
from dutycycle_exporter.attribution.kubernetes import pods as pods_module
from dutycycle_exporter.attribution.kubernetes.loop import Pause
from dutycycle_exporter.attribution.kubernetes.pods import API, KUBELET, SLICES
from dutycycle_exporter.cli import read_settings
from dutycycle_exporter.elapsed import elapsed
from dutycycle_exporter.model import GpuReading, Workload
from dutycycle_exporter.ownership import NodeOwnership
from tests.exporter.attribution.kubernetes.usual import NAMING, SELECTION
from tests.fakes.kubelet import FakeApiServer, FakeKubelet, Fault, Reply, claim, link_logs, pod
from tests.fakes.kubelet.recorded import Recordings

A, B, C = (f"GPU-0000000{n}-aaaa-4000-8000-00000000000{n}" for n in range(3))
NODE = "gpu-real-0"
PACE = Pace(interval=0.05, timeout=20, api_timeout=20, refresh=0.2, calm=0.1, patience=30, stale=600)
HASTY = replace(PACE, timeout=0.3, api_timeout=0.3)
"""For who is known to hang: who is well may take as long on a busy machine."""
DAEMON = pod("exporter", "monitoring")


def eventually(condition: Callable[[], Any]) -> Any:
    """What the condition gives once it holds."""
    deadline = time.monotonic() + 120
    while not (found := condition()):
        assert time.monotonic() < deadline, "it did not come to hold"
        time.sleep(0.01)
    return found


def holding(name: str, *devices: str) -> Any:
    return pod(name, "ml", {"nvidia.com/gpu": list(devices)})


@contextmanager
def asking(
    path: Path, api: FakeApiServer | None = None, *, pace: Pace = PACE, **options: Any
) -> Iterator[KubernetesPods]:
    token = path.parent.parent / "token"
    token.write_text("good")
    server = None if api is None else ApiServer(api.url, token)
    pods = KubernetesPods(node=NODE, socket=path, selection=SELECTION, api=server, pace=pace, **options)
    pods.start()
    try:
        yield pods
    finally:
        pods.stop()


def held(pods: KubernetesPods, **processes: list[str]) -> dict[str, str]:
    """Device by workload; processes are given by the names of the devices here."""
    devices = {"a": A, "b": B, "c": C}
    claims = pods.allocations((), {devices[name]: uids for name, uids in processes.items()})
    return {one.workload.id: one.device for one in claims}


def test_pods_are_named_by_both_together(socket_path: Path) -> None:
    with FakeKubelet(socket_path, holding("a", A), DAEMON) as kubelet, FakeApiServer() as api:
        api.add("a", "u-a", annotations={"dutycycle.io/user": "ada"}, labels={"app": "x", "secret": "y"})
        with asking(socket_path, api, naming=replace(NAMING, labels=("app",))) as pods:
            assert eventually(lambda: held(pods)) == {"k8s/ml/a/u-a": A}
            [only] = pods.allocations((), {})
            assert only.workload == Workload("k8s/ml/a/u-a", "k8s", namespace="ml", pod="a", user="ada")
            assert only.start == 1795212854.0
            assert pods.workload_of("u-a") == only.workload
            assert pods.labels() == {"k8s/ml/a/u-a": (("app", "x"),)}
            assert pods.take_failures() == {}
            health = pods.health()
            assert health[KUBELET].success
            assert health[API].success
            assert (health[KUBELET].duration or 0) > 0
            # A pod that begins later is found without a question for each look at it.
            api.add("b", "u-b")
            kubelet.pods.append(holding("b", B))
            assert eventually(lambda: len(held(pods)) == 2)
            assert held(pods) == {"k8s/ml/a/u-a": A, "k8s/ml/b/u-b": B}


def test_a_pod_that_ends_is_gone_after_the_second_answer(socket_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That comes some time after the first."""
    monkeypatch.setattr(holders, "APART", 1e9)
    with FakeKubelet(socket_path, holding("a", A), DAEMON) as kubelet, asking(socket_path) as pods:
        eventually(lambda: held(pods, a=["u-a"]))
        kubelet.pods = [DAEMON]
        asked = len(kubelet.calls)
        eventually(lambda: len(kubelet.calls) > asked + 2)
        assert held(pods) == {"k8s/ml/a/u-a": A}
        monkeypatch.setattr(holders, "APART", 0.0)
        eventually(lambda: not held(pods))


def test_a_process_of_whom_nobody_knows_has_the_kubelet_asked_at_once(
    socket_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pods_module, "_SHORTEST_GAP", 0.05)
    pace = replace(PACE, interval=1000.0)
    with FakeKubelet(socket_path, holding("a", A), DAEMON) as kubelet, asking(socket_path, pace=pace) as pods:
        eventually(lambda: pods.health().get(KUBELET))
        assert eventually(lambda: held(pods, a=["u-a"])) == {"k8s/ml/a/u-a": A}
        # Once more where it was looked at while the answer was on its way, and then no more than usual.
        for _ in range(20):
            time.sleep(0.05)
            held(pods, a=["u-a"])
        assert len(kubelet.calls) <= 3


def test_a_process_is_not_told_by_an_answer_that_was_under_way_when_it_came(
    socket_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pods = KubernetesPods(node=NODE, socket=socket_path, selection=SELECTION, pace=PACE)
    with FakeKubelet(socket_path, holding("a", A), DAEMON):
        ask = pods._list
        monkeypatch.setattr(pods, "_list", lambda: (ask(), held(pods, a=["u-a"]))[0])
        pods._ask_kubelet()
        assert held(pods, a=["u-a"]) == {}
        pods._ask_kubelet()
        assert held(pods, a=["u-a"]) == {"k8s/ml/a/u-a": A}


def test_a_kubelet_that_restarts_ends_nothing(socket_path: Path, recordings: Recordings) -> None:
    """Through the answers that a real one gave: refused, none for a second, then all again."""
    timeline = json.loads((recordings.directory / "09-podresources/15-kubelet-restart-timeline.json").read_text())
    steps = [(step["code"], step.get("pods")) for step in timeline["timeline"]]
    assert [(code, bool(pods)) for code, pods in steps] == [("UNAVAILABLE", False), ("OK", False), ("OK", True)]
    before = recordings["15-before-kubelet-restart-list"].reply
    kubelet = FakeKubelet(socket_path).start()
    kubelet.raw = before
    api = FakeApiServer()
    for name in {name for name, _ in steps[-1][1]}:
        api.add(name, f"u-{name}")
    seen: list[dict[str, str]] = []
    with api, asking(socket_path, api) as pods:
        uuid = "GPU-22222222-dddd-4000-8000-000000000002"
        reading = GpuReading(uuid, 0, "H200", minor=0, mig="MIG-x", gpu_instance=3, compute_instance=0)
        eventually(lambda: len({one.workload.id for one in pods.allocations((reading,), {})}) == 6)
        start = held(pods)
        kubelet.stop()
        eventually(lambda: pods.take_failures().get((KUBELET, "refused")))
        seen.append(held(pods))
        kubelet.raw = b""
        kubelet.start()
        asked, began = len(kubelet.calls), time.monotonic()
        gap = timeline["timeline"][2]["t_s"] - timeline["timeline"][1]["t_s"]
        while (passed := time.monotonic() - began) < gap or len(kubelet.calls) <= asked + 5:
            assert passed < 120, "the kubelet is asked"
            seen.append(held(pods))
            time.sleep(0.05)
        kubelet.raw = recordings["15-after-restart-no-plugin-list"].reply
        asked = len(kubelet.calls)
        eventually(lambda: len(kubelet.calls) > asked + 2)
        seen.append(held(pods))
    kubelet.stop()
    assert all(one == start for one in seen)


@pytest.mark.parametrize(
    "fault", [Fault.HANG, Fault.HANG_AFTER_HEADERS, Fault.GARBAGE, Fault.TRUNCATE, Fault.BAD_MESSAGE]
)
def test_whatever_a_kubelet_does_what_was_known_is_told_at_once(fault: Fault, socket_path: Path) -> None:
    with FakeKubelet(socket_path, holding("a", A), DAEMON) as kubelet, asking(socket_path) as pods:
        eventually(lambda: held(pods, a=["u-a"]))
        kubelet.fault = fault
        if fault in (Fault.HANG, Fault.HANG_AFTER_HEADERS):
            pods._pace = HASTY
        failures = eventually(pods.take_failures)
        assert {source for source, _ in failures} == {KUBELET}
        assert {reason for _, reason in failures} <= {"timeout", "protocol", "closed"}
        assert held(pods) == {"k8s/ml/a/u-a": A}
        last = pods.health()[KUBELET]
        assert not last.success
        assert last.last_success is not None
        kubelet.fault, pods._pace = None, PACE
        eventually(lambda: pods.health()[KUBELET].success)


def test_how_long_ago_a_source_answered_is_told_whatever_the_clock_was_set_to(
    socket_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ownership = NodeOwnership(read_settings([f"--kubernetes.socket={socket_path}"]))
    pods = ownership._pods
    assert pods is not None
    pods._pace = PACE
    with FakeKubelet(socket_path):
        pods._ask_kubelet()
    true = time.time()
    for step in (0.0, 86400.0, -86400.0):
        monkeypatch.setattr(time, "time", lambda step=step: true + step)
        last = ownership.health()[KUBELET].last_success
        assert last is not None
        assert 0 <= elapsed() - last < 60


def test_asking_never_waits_for_a_kubelet_that_hangs(socket_path: Path) -> None:
    """The question is under way for as long as the test lasts, and is not waited for."""
    patient = Pace(interval=0.05, timeout=600)
    with FakeKubelet(socket_path) as kubelet:
        kubelet.fault = Fault.HANG
        with asking(socket_path, pace=patient) as pods:
            assert held(pods) == {}
            assert pods.workload_of("u-a") is None
            assert pods.health() == {}


def test_a_node_without_a_kubelet_is_no_failure_until_there_was_one(socket_path: Path) -> None:
    """A Slurm node has none, and takes no memory for one. One that comes late is found."""
    pods = KubernetesPods(node=NODE, socket=socket_path, selection=SELECTION, pace=PACE)
    assert pods._ask_kubelet() == Pause(PACE.interval)
    assert (pods.take_failures(), pods.health(), held(pods)) == ({}, {}, {})
    with FakeKubelet(socket_path, holding("a", A), DAEMON):
        pods._ask_kubelet()
        held(pods, a=["u-a"])
        pods._ask_kubelet()
        assert held(pods, a=["u-a"]) == {"k8s/ml/a/u-a": A}
    socket_path.unlink()
    pods._ask_kubelet()
    assert pods.take_failures() == {(KUBELET, "missing"): 1}
    assert held(pods) == {"k8s/ml/a/u-a": A}


def test_in_a_pod_a_kubelet_that_is_missing_is_a_failure_from_the_beginning(
    socket_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also without the API server: its socket was not mounted."""
    arguments = [f"--kubernetes.socket={socket_path}"]
    for host, failures in (("", 0), ("10.96.0.1", 1)):
        if host:
            monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
        else:
            monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
        pods = NodeOwnership(read_settings(arguments))._pods
        assert pods is not None
        pods._ask_kubelet()
        assert pods.take_failures().get((KUBELET, "missing"), 0) == failures
        # It may be restarting, just as the exporter does.
        assert pods.settling() is bool(failures)


def test_with_an_api_server_a_kubelet_that_is_missing_is_a_failure_from_the_beginning(socket_path: Path) -> None:
    with FakeApiServer() as api, asking(socket_path, api) as pods:
        assert eventually(pods.take_failures).keys() == {(KUBELET, "missing")}
        assert held(pods) == {}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The pods' own, which a test moves."""
    clock = SimpleNamespace(now=1000.0, monotonic=lambda: clock.now, time=time.time)
    monkeypatch.setattr("dutycycle_exporter.attribution.kubernetes.pods.time", clock)
    return clock


class TestSettling:
    """Until it is known who held the devices before: nothing says that they are free."""

    def test_lasts_until_the_pods_that_were_there_have_names(self, socket_path: Path, clock: SimpleNamespace) -> None:
        pods = KubernetesPods(node=NODE, socket=socket_path, selection=SELECTION, pace=PACE)
        assert pods.settling()
        with FakeKubelet(socket_path, holding("a", A)):
            pods._ask_kubelet()
            assert not held(pods)
            assert pods.settling()
            clock.now += PACE.patience
            assert held(pods)
            assert not pods.settling()

    def test_ends_at_once_where_there_is_no_kubelet(self, socket_path: Path) -> None:
        pods = KubernetesPods(node=NODE, socket=socket_path, selection=SELECTION, pace=PACE)
        pods._ask_kubelet()
        assert not pods.settling()

    def test_begins_with_a_kubelet_that_comes_late(self, socket_path: Path) -> None:
        pods = KubernetesPods(node=NODE, socket=socket_path, selection=SELECTION, pace=PACE)
        pods._ask_kubelet()
        with FakeKubelet(socket_path, holding("a", A)):
            pods._ask_kubelet()
            assert not held(pods)
            assert pods.settling()

    def test_does_not_wait_for_ever_for_a_kubelet_that_should_be_there(
        self, socket_path: Path, clock: SimpleNamespace
    ) -> None:
        pods = KubernetesPods(node=NODE, socket=socket_path, selection=SELECTION, pace=PACE, expected=True)
        pods._ask_kubelet()
        assert pods.settling()
        clock.now += PACE.stale
        assert not pods.settling()

    def test_lasts_while_a_kubelet_does_not_answer_but_not_for_ever(
        self, socket_path: Path, clock: SimpleNamespace
    ) -> None:
        pods = KubernetesPods(node=NODE, socket=socket_path, selection=SELECTION, pace=PACE)
        with FakeKubelet(socket_path) as kubelet:
            kubelet.fault = Fault.GARBAGE
            pods._ask_kubelet()
            assert pods.settling()
            clock.now += PACE.stale
            assert not pods.settling()

    def test_lasts_a_while_with_a_kubelet_that_lists_nothing(self, socket_path: Path, clock: SimpleNamespace) -> None:
        pods = KubernetesPods(node=NODE, socket=socket_path, selection=SELECTION, pace=PACE)
        with FakeKubelet(socket_path) as kubelet:
            kubelet.starting = True
            pods._ask_kubelet()
            assert pods.settling()
            clock.now += 2 * PACE.patience
            assert not pods.settling()


def test_an_id_is_the_same_after_a_restart_of_the_exporter(socket_path: Path, tmp_path: Path) -> None:
    """Of a pod whose first process on a GPU comes late, by the links beside its containers' logs."""
    group = tmp_path / "cgroup/kubepods.slice/kubepods-podu_a.slice"
    group.mkdir(parents=True)
    link_logs(tmp_path / "logs", "a", "u-a")
    found = []
    with FakeKubelet(socket_path, holding("a", A)):
        for processes in ({}, {"a": ["u-a"]}):
            pods = KubernetesPods(
                node=NODE,
                socket=socket_path,
                selection=SELECTION,
                pace=PACE,
                groups=CgroupFiles(tmp_path / "cgroup"),
                logs=ContainerLogs(tmp_path / "logs"),
            )
            pods._ask_kubelet()
            found.append(held(pods, **processes))
    assert found == [{"k8s/ml/a/u-a": A}] * 2


def test_h2_is_loaded_only_where_there_is_a_kubelet() -> None:
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from dutycycle_exporter.attribution.kubernetes import KubernetesPods, Selection\n"
        "KubernetesPods(node='n', socket=Path('/nonexistent'), selection=Selection(()))._ask_kubelet()\n"
        "assert not {'h2', 'hpack', 'hyperframe'} & sys.modules.keys()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_kubelet_that_rejects_is_asked_less(socket_path: Path) -> None:
    with FakeKubelet(socket_path) as kubelet:
        kubelet.answer = lambda *_: Reply(code=8, text="rejected by rate limit")  # type: ignore[method-assign]
        pods = KubernetesPods(node=NODE, socket=socket_path, selection=SELECTION, pace=PACE)
        gaps = [pods._ask_kubelet().least for _ in range(14)]
        assert gaps[:3] == [0.1, 0.2, 0.4]
        assert gaps[-1] == 60
        assert pods.take_failures() == {(KUBELET, "grpc_resource_exhausted"): 14}
        del kubelet.answer
        assert pods._ask_kubelet().least == PACE.interval


@pytest.mark.parametrize(
    ("status", "reason"), [(403, "forbidden"), (401, "unauthorized"), (410, "gone"), (500, "server_error")]
)
def test_an_api_server_that_refuses_is_counted_and_uids_come_from_cgroups(
    status: int, reason: str, socket_path: Path
) -> None:
    pace = Pace(interval=0.05, timeout=20, api_timeout=20, refresh=0.2, patience=0.5)
    with FakeKubelet(socket_path, holding("a", A), DAEMON), FakeApiServer() as api:
        api.inject("error", code=status)
        with asking(socket_path, api, pace=pace) as pods:
            eventually(lambda: held(pods, a=["u-a"]))
            assert held(pods) == {"k8s/ml/a/u-a": A}
            assert eventually(pods.take_failures).keys() == {(API, reason)}
            assert not pods.health()[API].success


def test_an_api_server_that_is_away_for_a_while(socket_path: Path) -> None:
    """The allocation waits for its names, and has them for good from then on."""
    with FakeKubelet(socket_path, holding("a", A), DAEMON), FakeApiServer() as api:
        api.add("a", "u-a")
        fault = api.inject("raw", body=b"nonsense")
        with asking(socket_path, api) as pods:
            assert eventually(pods.take_failures).keys() == {(API, "protocol")}
            assert held(pods) == {}
            fault.remove()
            assert eventually(lambda: held(pods)) == {"k8s/ml/a/u-a": A}
            api.inject("hang")
            pods._pace = HASTY
            eventually(lambda: (API, "timeout") in pods.take_failures())
            assert held(pods) == {"k8s/ml/a/u-a": A}


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1beta1"])
def test_a_claims_devices_are_those_that_its_driver_publishes(version: str, socket_path: Path) -> None:
    """On a node where the numbers of GPUs differ: what `gpu-1` is, only the driver knows."""
    uuid = {"attributes": {"uuid": {"string": B}}}
    device = {"name": "gpu-1", "basic": uuid} if version == "v1beta1" else {"name": "gpu-1", **uuid}
    slices = {"spec": {"nodeName": NODE, "driver": "gpu.nvidia.com", "pool": {"name": NODE}, "devices": [device]}}
    kind = {"apiVersion": f"resource.k8s.io/{version}", "kind": "ResourceSlice"}
    gpus = (GpuReading(A, 0, "H200", minor=0), GpuReading(B, 1, "H200", minor=2), GpuReading(C, 2, "H200", minor=1))
    with FakeKubelet(socket_path, pod("a", claims=[claim("gpu-1")])), FakeApiServer(versions=(version,)) as api:
        api.add("a", "u-a")
        with asking(socket_path, api) as pods:
            eventually(lambda: pods.health().get(SLICES))
            assert pods.allocations(gpus, {}) == ()
            failures = pods.take_failures()
            assert failures.keys() == {(KUBELET, "unknown_device")}
            api.put({**kind, "metadata": {"name": "s"}, **slices})
            [only] = eventually(lambda: pods.allocations(gpus, {}))
            assert (only.device, only.workload.id) == (B, "k8s/ml/a/u-a")


def test_a_cluster_without_claims_is_counted_and_goes_on(socket_path: Path) -> None:
    gpus = (GpuReading(A, 0, "H200", minor=0),)
    with FakeKubelet(socket_path, pod("a", claims=[claim("gpu-0")])), FakeApiServer(versions=()) as api:
        api.add("a", "u-a")
        with asking(socket_path, api) as pods:
            [only] = eventually(lambda: pods.allocations(gpus, {}))
            assert only.device == A
            assert eventually(lambda: pods.take_failures().get((SLICES, "not_found")))


def test_items_that_are_no_pods_are_counted(socket_path: Path) -> None:
    with FakeKubelet(socket_path, holding("a", A), holding("bad/name", B)), FakeApiServer() as api:
        api.add("a", "u-a")
        api.add("b", "x" * 100)
        with asking(socket_path, api) as pods:
            eventually(lambda: held(pods))
            # They are counted a moment after the pods are known.
            counted: set[tuple[str, str]] = set()
            eventually(lambda: counted.update(pods.take_failures()) or len(counted) >= 2)
            assert counted == {(KUBELET, "bad_name"), (API, "bad_pod")}


def test_a_source_that_fails_is_logged_once(socket_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    pods = KubernetesPods(node=NODE, socket=socket_path, selection=SELECTION, pace=PACE)
    with caplog.at_level(logging.INFO):
        for _ in range(2):
            with FakeKubelet(socket_path):
                pods._ask_kubelet()
                pods._ask_kubelet()
            for _ in range(3):
                pods._ask_kubelet()
    told = ["kubelet answers", f"kubelet ({socket_path}) does not answer: refused"]
    assert [record.getMessage() for record in caplog.records] == told * 2


def test_threads_end_when_told(socket_path: Path) -> None:
    with FakeKubelet(socket_path, holding("a", A)), FakeApiServer() as api:
        with asking(socket_path, api) as pods:
            eventually(lambda: pods.health().get(KUBELET))
        names = {"kubelet", "kubernetes-api"}
        eventually(lambda: not names & {thread.name for thread in threading.enumerate()})
