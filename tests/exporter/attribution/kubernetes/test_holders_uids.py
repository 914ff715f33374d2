"""Whose a process is, where only the kubelet and the processes tell: its own pod's, or nobody's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from dutycycle_exporter.attribution.kubernetes.messages import PodResources
from dutycycle_exporter.model import Workload
from tests.exporter.attribution.kubernetes.nodes import DAEMON, WALL, A, B, Node, holding

Processes = Mapping[str, Sequence[str]]


def after(*steps: tuple[Sequence[PodResources], Processes]) -> dict[str, list[str]]:
    """What is claimed at the end: in each step the kubelet answers, and then processes are looked at."""
    node = Node(api=False)
    node.living = {uid for _, processes in steps for uids in processes.values() for uid in uids}
    for pods, processes in steps:
        node.listed(*pods)
        held = node.claims(processes)
    return held


@pytest.mark.parametrize("more", [0, 5])
@pytest.mark.parametrize(
    ("steps", "held"),
    [
        pytest.param(
            [
                ([holding("a", A), holding("b", B)], {A: ["b-2"]}),
                ([holding("b", A)], {A: ["b-2"]}),
            ],
            {"k8s/ml/b/b-2": [A]},
            id="a pod that is made anew on its neighbour's GPU",
        ),
        pytest.param(
            [
                ([holding("b", A)], {A: ["b-1"]}),
                ([holding("b", A)], {A: ["b-1"]}),
                ([holding("a", A)], {A: ["b-2"]}),
                ([holding("b", A)], {A: ["b-2"]}),
            ],
            {"k8s/ml/b/b-2": [A]},
            id="two names that take turns on a GPU",
        ),
        pytest.param(
            [
                ([holding("a", A), holding("b", B)], {A: ["b-2"], B: ["a-2"]}),
                ([holding("a", B), holding("b", A)], {A: ["b-2"], B: ["a-2"]}),
            ],
            {"k8s/ml/a/a-2": [B], "k8s/ml/b/b-2": [A]},
            id="two that are made anew on each other's GPUs",
        ),
        pytest.param(
            [
                ([holding("a", A)], {A: ["b-1"]}),
                ([holding("a", A), holding("b", A)], {A: ["b-1"]}),
            ],
            {},
            id="a kubelet that goes on listing what is over",
        ),
        pytest.param(
            [
                ([holding("idle", f"{A}::0")], {}),
                ([holding("idle", f"{A}::0")], {A: ["new-1"]}),
                ([holding("idle", f"{A}::0"), holding("new", f"{A}::1")], {A: ["new-1"]}),
            ],
            {},
            id="one without a process that shares the GPU",
        ),
        pytest.param(
            [
                ([holding("a", A), holding("c", B)], {A: ["x"], B: ["x"]}),
                ([holding("a", A), holding("c", B)], {A: ["x"], B: ["x"]}),
            ],
            {},
            id="a process on the GPUs of two",
        ),
    ],
)
def test_a_process_is_its_own_pods_or_nobodys(
    steps: list[tuple[Sequence[PodResources], Processes]], held: dict[str, list[str]], more: int
) -> None:
    """Where it cannot be told whose it is, its pod has no uid after a while, and keeps its name."""
    found = after(*steps, *[steps[-1]] * more)
    assert {name: devices for name, devices in found.items() if not name.endswith("/")} == held


def test_a_process_that_comes_and_goes_is_known_from_the_answer_after_it_came_first() -> None:
    pods = [holding("a", A)]
    assert after((pods, {A: ["a-1"]}), (pods, {}), (pods, {A: ["a-1"]})) == {"k8s/ml/a/a-1": [A]}


def test_a_kubelet_is_waited_for_that_may_tell_and_not_for_ever() -> None:
    """Or a pod would have no uid that was there when an exporter began which reads seldom."""
    node = Node(api=False)
    node.listed(holding("a", A))
    node.wait(14)
    node.claims({A: ["a-1"]})
    node.wait(29)
    assert node.claims({A: ["a-1"]}) == {}
    node.wait(1)
    assert node.claims({A: ["a-1"]}) == {"k8s/ml/a/": [A]}
    node = Node(api=False)
    node.listed(holding("a", A))
    node.wait(14)
    node.claims({A: ["a-1"]})
    node.wait(14)
    node.listed(holding("a", A))
    assert node.claims({A: ["a-1"]}) == {"k8s/ml/a/a-1": [A]}


@pytest.mark.parametrize("known", [False, True])
def test_an_answer_may_be_older_than_the_process(known: bool) -> None:
    """What counts is when the kubelet was asked, also for who is not listed."""
    node = Node(api=False)
    node.listed(*([holding("a", A)] if known else []))
    node.wait(1)
    assert node.claims({A: ["b-1"]}) == {}
    assert node.workload("b-1") is None
    asked = node.now - 0.5
    node.wait(1)
    node.holders.listed((holding("a", A), DAEMON), asked, node.now, WALL + node.now)
    assert node.claims({A: ["b-1"]}) == {}
    assert node.workload("b-1") is None
    node.listed(holding("b", A))
    assert node.claims({A: ["b-1"]}) == {"k8s/ml/b/b-1": [A]}


def test_a_process_on_one_of_two_gpus_is_of_the_pod_that_has_that_one() -> None:
    pods = [holding("a", f"{A}::0", f"{B}::0"), holding("c", f"{B}::1")]
    assert after((pods, {A: ["a-1"]}), (pods, {A: ["a-1"]})) == {"k8s/ml/a/a-1": [A, B]}


def test_of_whom_the_kubelet_does_not_tell_is_known_by_what_it_was_asked_since() -> None:
    node = Node(api=False)
    node.listed(holding("a", A))
    node.learned({A: ["a-1"]})
    asked = node.now
    node.wait(0.1)
    node.claims({A: ["a-1", "x"]})
    assert node.workload("x") is None
    node.wait(0.1)
    node.holders.listed((holding("a", A), DAEMON), asked, node.now, WALL + node.now)
    assert node.workload("x") is None
    node.listed(holding("a", A))
    assert node.workload("x") == Workload("k8s///x", "k8s")


class Pods(RuleBasedStateMachine):
    """Pods come, go, are made anew under their names, share GPUs or not; the kubelet is right whenever it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.node = Node(api=False)
        self.node.listed()
        self.made = 0
        self.pods: dict[str, tuple[str, tuple[str, ...]]] = {}
        """The uid and devices of each that there is, by its name."""
        self.working: set[str] = set()
        """Uids of those that have a process on each of their devices."""

    @rule(name=st.sampled_from("abc"), gpus=st.sampled_from([(A,), (B,), (A, B)]), shared=st.booleans())
    def begin(self, name: str, gpus: tuple[str, ...], shared: bool) -> None:
        taken = {device for _, devices in self.pods.values() for device in devices}
        self.made += 1
        devices = tuple(f"{gpu}::{self.made}" if shared else gpu for gpu in gpus)
        exclusive = {device for device in taken if "::" not in device}
        gpus_taken = {device.partition("::")[0] for device in taken}
        if name in self.pods or exclusive & set(gpus) or (not shared and gpus_taken & set(gpus)):
            return
        uid = f"{name}-{self.made}"
        self.pods[name] = uid, devices
        self.node.living.add(uid)

    @rule(name=st.sampled_from("abc"))
    def end(self, name: str) -> None:
        uid, _ = self.pods.pop(name, ("", ()))
        self.node.living.discard(uid)
        self.working.discard(uid)

    @rule(name=st.sampled_from("abc"))
    def work(self, name: str) -> None:
        if name in self.pods:
            self.working ^= {self.pods[name][0]}

    @precondition(lambda self: self.pods)
    @rule()
    def be_asked(self) -> None:
        self.node.listed(*(holding(name, *devices) for name, (_, devices) in self.pods.items()))

    @rule(seconds=st.sampled_from([0.5, 5.0, 20.0]))
    def look(self, seconds: float) -> None:
        self.node.wait(seconds)
        processes: dict[str, list[str]] = {}
        for uid, devices in self.pods.values():
            for device in devices if uid in self.working else ():
                processes.setdefault(device.partition("::")[0], []).append(uid)
        self.node.claims(processes)

    @invariant()
    def nobody_has_anothers_uid(self) -> None:
        found, _ = self.node.holders.claims((), {}, {}, self.node.now)
        for claim in found:
            assert claim.uid.partition("-")[0] in ("", claim.workload.pod)


TestPods = Pods.TestCase
TestPods.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)
