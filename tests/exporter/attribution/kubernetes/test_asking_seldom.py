"""How often the API server is asked: every node of the cluster does, so only when it may have something to tell."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from dutycycle_exporter.attribution.kubernetes import ApiServer, KubernetesPods, Naming, Pace
from dutycycle_exporter.attribution.kubernetes import pods as module
from dutycycle_exporter.attribution.kubernetes.loop import Pause
from dutycycle_exporter.attribution.kubernetes.pods import SLICES
from dutycycle_exporter.cli import read_settings
from dutycycle_exporter.ownership import NodeOwnership
from tests.exporter.attribution.kubernetes.nodes import A, B, Node, holding, record, running
from tests.exporter.attribution.kubernetes.usual import SELECTION
from tests.fakes.kubelet import FakeApiServer, FakeKubelet, claim, pod

PACE = Pace()


class Clock:
    """Stands in for the module `time`."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return 1_800_000_000.0 + self.now


class Box:
    """A node whose kubelet and API server answer, and whose threads are turns of a test."""

    def __init__(self, directory: Path, socket: Path, kubelet: FakeKubelet, api: FakeApiServer, clock: Clock) -> None:
        (directory / "token").write_text("good")
        self.kubelet, self.api, self.clock = kubelet, api, clock
        server = ApiServer(api.url, directory / "token")
        self.pods = KubernetesPods(node="gpu-real-0", socket=socket, selection=SELECTION, api=server)
        self.woken = 0
        self.pods._loops[1] = self  # type: ignore[call-overload]

    def wake(self) -> None:
        """What is told to the loop that asks the API server."""
        self.woken += 1

    def hold(self, name: str, device: str, **options: Any) -> None:
        self.kubelet.pods.append(pod(name, "ml", {"nvidia.com/gpu": [device]}, **options))

    def turn(self) -> Pause:
        """Of the API server's loop."""
        self.clock.now += 0.01
        pause = self.pods._ask_api()
        self.clock.now += 0.01
        return pause

    def asked(self) -> bool:
        """Whether a turn asks for pods."""
        before = len(self.api.targets)
        self.turn()
        return any("/api/v1/pods" in target for target in self.api.targets[before:])

    def listed(self, *, after: float = PACE.interval) -> None:
        self.clock.now += after
        self.pods._ask_kubelet()

    def pass_by(self, seconds: float) -> list[float]:
        """The times at which the API server was asked meanwhile."""
        asked, end = [], self.clock.now + seconds
        while self.clock.now < end:
            for _ in range(round(PACE.refresh / PACE.interval)):
                self.listed()
                self.pods.allocations((), {})
            if self.asked():
                asked.append(self.clock.now)
        return asked


@pytest.fixture
def box(tmp_path: Path, socket_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Box]:
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    with FakeKubelet(socket_path, pod("exporter", "monitoring")) as kubelet, FakeApiServer() as api:
        yield Box(tmp_path, socket_path, kubelet, api, clock)


def known(box: Box) -> Box:
    """Pod `a` holds a GPU, and the API server has told of it."""
    box.api.add("a", "u-a")
    box.hold("a", A)
    box.listed()
    assert box.asked()
    return box


def test_it_is_not_asked_while_no_pod_holds_a_device(box: Box) -> None:
    assert box.pass_by(1200) == []


def test_only_this_nodes_pods_are_asked_for(box: Box) -> None:
    known(box)
    assert set(box.api.targets) == {"/api/v1/pods?fieldSelector=spec.nodeName%3Dgpu-real-0&resourceVersion=0"}


def test_questions_to_one_that_fails_come_ever_less_often(box: Box) -> None:
    box.hold("a", A)
    box.listed()
    with box.api.inject("error", code=500):
        pauses = [box.turn() for _ in range(8)]
        assert [pause.least + pause.more for pause in pauses] == [2, 4, 8, 16, 32, 60, 60, 60]
        assert {pause.least for pause in pauses} == {1}, "a pod that comes meanwhile may wake it"
    # It answers, and does not know the pod yet.
    assert box.turn() == Pause(1, 29)
    box.api.add("a", "u-a")
    assert box.turn() == Pause(1, 30)


def test_while_nothing_changes_it_is_asked_every_five_to_ten_minutes_and_never_in_step(box: Box) -> None:
    asked = known(box).pass_by(7200)
    gaps = [later - earlier for earlier, later in pairwise(asked)]
    assert max(gaps) - min(gaps) > 2 * PACE.refresh
    assert all(300 <= gap <= 600 + PACE.refresh for gap in gaps)
    assert 7200 / 630 - 2 <= len(asked) <= 7200 / 300


def test_a_pod_that_comes_is_asked_for_at_once_and_only_until_it_is_known(box: Box) -> None:
    known(box)
    assert not box.asked()
    box.api.add("b", "u-b")
    box.hold("b", B)
    box.listed()
    assert box.woken
    assert box.asked()
    assert {one.workload.id for one in box.pods.allocations((), {})} == {"k8s/ml/a/u-a", "k8s/ml/b/u-b"}
    assert not box.asked()


@pytest.mark.parametrize("fails", [False, True])
def test_a_pod_that_comes_does_not_wait_for_one_that_the_api_server_does_not_know(box: Box, fails: bool) -> None:
    """Of the two alone the later one is new to it; it has fifteen seconds to be named in."""
    box.hold("a", A)
    box.listed()
    fault = box.api.inject("error", code=500) if fails else None
    for _ in range(8):
        pause = box.turn()
    assert pause.least + pause.more == (60 if fails else 30)
    assert pause.least == 1
    box.woken = 0
    box.pods.allocations((), {})
    assert not box.woken, "it has been asked for, and has its time"
    if fault is not None:
        fault.remove()
    box.api.add("b", "u-b")
    box.hold("b", B)
    box.listed()
    assert box.woken
    pause = box.turn()
    assert pause.least + pause.more == 2, "and should that have been too early, it is asked again soon"
    assert [one.workload.id for one in box.pods.allocations((), {})] == ["k8s/ml/b/u-b"]


def test_a_kubelet_that_is_away_leaves_the_word_to_it(box: Box) -> None:
    known(box)
    box.kubelet.stop()
    asked = 0
    for _ in range(10):
        box.clock.now += PACE.refresh
        asked += box.asked()
    assert asked >= 9


def test_other_names_hold_from_the_next_turn_on(box: Box) -> None:
    known(box)
    box.pods.apply(SELECTION, Naming(user_label="owner"))
    assert box.woken
    assert box.asked()


@pytest.mark.parametrize(("code", "times", "soon"), [(500, 2, True), (403, 1, True), (403, 2, False)])
def test_what_drivers_publish_is_asked_for_again_soon_but_where_it_is_not_allowed(
    box: Box, code: int, times: int, soon: bool
) -> None:
    """One refusal does not prove that: a server that has just started refuses everybody."""
    box.kubelet.pods.append(pod("a", "ml", claims=[claim("gpu-0")]))
    box.api.add("a", "u-a")
    box.listed()
    fault = box.api.inject("error", code=code, path="resourceslices")
    for _ in range(times):
        box.clock.now += PACE.refresh
        box.listed(after=0)
        assert box.asked()
    assert {source for source, _ in box.pods.take_failures()} == {SLICES}
    fault.remove()
    box.clock.now += PACE.refresh
    box.listed(after=0)
    assert box.asked() == soon


class TestDoubt:
    """In which the API server is asked often, for the kubelet or cgroups do not tell all."""

    def test_is_not_of_a_pod_that_is_known(self) -> None:
        node = running()
        assert (node.holders.doubtful(node.now), node.holders.unrecorded()) == (False, None)

    def test_is_of_a_pod_that_is_missing_and_of_the_one_that_comes_back(self) -> None:
        """It may be another of that name, in whose labels another user is named."""
        node = running()
        node.listed()
        assert node.holders.doubtful(node.now)
        assert node.holders.unrecorded() == node.now
        node.wait(1)
        node.recorded(record("a", "u-a"))
        assert node.holders.unrecorded() is None
        node.listed(holding("a", A))
        assert not node.holders.doubtful(node.now)
        assert node.holders.unrecorded() == node.now
        node.wait(1)
        node.recorded(record("a", "u-new"))
        assert node.claims() == {"k8s/ml/a/u-new": [A]}
        assert node.holders.unrecorded() is None

    def test_is_of_a_pod_whose_cgroup_has_gone_until_the_api_server_says_what_became_of_it(self) -> None:
        """An older kubelet goes on listing one that has completed, and any may list the next of its name."""
        node = running()
        node.cgroups = {"u-a"}
        node.claims()
        node.cgroups = set()
        node.claims()
        node.wait(2)
        assert node.claims() == {"k8s/ml/a/u-a": [A]}
        assert node.holders.doubtful(node.now)
        assert node.holders.unrecorded() == node.now
        node.wait(1)
        node.recorded(record("a", "u-a"))
        node.claims()
        assert node.holders.unrecorded() is None, "told of once it is not asked for at once again"
        assert node.holders.doubtful(node.now)
        node.cgroups = {"u-new"}
        node.listed(holding("a", A), after=30)
        node.recorded(record("a", "u-new"))
        assert node.claims() == {"k8s/ml/a/u-new": [A]}
        assert not node.holders.doubtful(node.now)

    def test_is_not_of_the_cgroup_of_one_that_is_missing_already(self) -> None:
        """The end of each pod would else be asked for twice."""
        node = running()
        node.cgroups = {"u-a"}
        node.claims()
        node.listed()
        node.cgroups = set()
        node.wait(1)
        node.recorded(record("a", "u-a"))
        node.claims()
        node.wait(2)
        node.claims()
        assert node.holders.unrecorded() is None

    def test_is_of_a_pod_that_is_over_and_still_listed(self) -> None:
        """Another may take its name, and nobody else would tell."""
        node = running()
        node.recorded(record("a", "u-a", over=True))
        node.listed(holding("a", A))
        assert node.holders.doubtful(node.now)

    def test_is_of_all_while_the_kubelet_is_silent(self) -> None:
        node = running()
        node.wait(31)
        assert node.holders.doubtful(node.now)
        assert not Node().holders.doubtful(0.0), "where nobody holds anything, nothing ends"


def test_on_a_faster_clock_it_is_asked_as_often_in_that_clocks_time(socket_path: Path) -> None:
    ownership = NodeOwnership(read_settings([f"--kubernetes.socket={socket_path}", "--time-scale=10"]))
    assert ownership._pods is not None
    assert ownership._pods._pace.calm == PACE.calm / 10
