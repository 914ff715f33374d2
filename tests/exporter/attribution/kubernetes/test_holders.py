"""Who holds what, from one answer to the next: nothing flickers, and nothing outlives its pod."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from dutycycle_exporter.attribution.kubernetes.messages import (
    ClaimResource,
    ContainerDevices,
    ContainerResources,
    PodResources,
)
from dutycycle_exporter.attribution.kubernetes.records import PodRecord
from dutycycle_exporter.model import Workload
from tests.exporter.attribution.kubernetes.nodes import WALL, A, B, C, Node, holding, record, running


def test_a_pods_devices_are_merged_over_containers_and_replicas() -> None:
    node = Node()
    two = PodResources(
        "a",
        "ml",
        tuple(
            ContainerResources(name, (ContainerDevices("nvidia.com/gpu", (one,)),))
            for name, one in (("main", A), ("side", f"{A}::1"), ("side", f"{B}::0"))
        ),
    )
    node.listed(two)
    node.recorded(record("a", "u-a"))
    assert node.claims() == {"k8s/ml/a/u-a": [A, B]}
    assert node.containers() == {A: ("main", "side"), B: ("side",)}
    node.listed(holding("a", A))
    assert node.containers() == {A: ("main",)}, "the kubelet's newest word counts"


def test_a_pod_that_is_listed_in_two_parts_holds_both() -> None:
    node = Node()
    node.listed(holding("a", A), holding("a", B))
    node.recorded(record("a", "u-a"))
    assert node.claims() == {"k8s/ml/a/u-a": [A, B]}


def test_sharers_each_have_a_claim() -> None:
    node = Node()
    node.listed(holding("a", f"{A}::0"), holding("b", f"{A}::1"))
    node.recorded(record("a", "u-a"), record("b", "u-b"))
    assert node.claims() == {"k8s/ml/a/u-a": [A], "k8s/ml/b/u-b": [A]}


def test_the_workload_carries_the_pods_names() -> None:
    node = running()
    assert node.workload("u-a") == Workload("k8s/ml/a/u-a", "k8s", namespace="ml", pod="a", user="ada")


def test_a_claim_has_the_pods_uid_and_whether_slurm_runs_in_it() -> None:
    node = Node()
    node.listed(holding("a", A), holding("b", B))
    node.recorded(record("a", "u-a", slurm=True), record("b", "u-b"))
    found, _ = node.holders.claims((), {}, {}, node.now)
    assert [(claim.uid, claim.slurm) for claim in found] == [("u-a", True), ("u-b", False)]


def test_a_pod_that_a_file_names_has_that_uid_also_under_a_name_that_is_settled() -> None:
    """A Slurm prolog's word, told as a process's would be, of a pod that nobody could name in time."""
    node = Node(api=False)
    node.listed(holding("a", A))
    node.wait(60)
    assert node.claims() == {"k8s/ml/a/": [A]}
    node.learned({A: {"u-a"}})
    [claim], _ = node.holders.claims((), {A: {"u-a"}}, {}, node.now)
    assert (claim.workload.id, claim.uid) == ("k8s/ml/a/", "u-a")


def test_before_any_answer_nothing_is_claimed() -> None:
    assert Node().claims() == {}


class TestAnAnswerWithoutAnyPod:
    """Every node has pods: it tells nothing."""

    @pytest.mark.parametrize("api", [False, True])
    def test_ends_nothing(self, api: bool) -> None:
        """A kubelet that was started while its API server is away lists nothing until that is back."""
        node = running(api=api)
        for _ in range(10):
            node.listed(daemon=False)
            assert node.claims() == {"k8s/ml/a/u-a": [A]}
        node.listed(holding("a", A))
        node.listed(daemon=False)
        assert node.claims() == {"k8s/ml/a/u-a": [A]}

    def test_is_silence_in_which_the_api_server_tells_of_the_end(self) -> None:
        node = running()
        for _ in range(7):
            node.listed(daemon=False)
        node.recorded(record("a", "u-a"))
        assert node.claims() == {"k8s/ml/a/u-a": [A]}
        node.recorded()
        node.listed(daemon=False)
        assert node.claims() == {"k8s/ml/a/u-a": [A]}
        node.recorded()
        assert node.claims() == {}

    def test_is_silence_after_which_nothing_is_known(self) -> None:
        node = Node(api=False)
        node.listed(holding("a", A))
        node.learned({A: ["u-a"]})
        for _ in range(120):
            node.listed(daemon=False)
        assert node.claims() == {"k8s/ml/a/u-a": [A]}
        node.listed(daemon=False)
        assert node.claims() == {}

    def test_ends_a_pod_together_with_its_cgroup(self) -> None:
        node = Node(api=False)
        node.cgroups = {"u-a"}
        node.listed(holding("a", A))
        assert node.learned({A: ["u-a"]}) == {"k8s/ml/a/u-a": [A]}
        node.cgroups = set()
        node.listed(daemon=False)
        assert node.claims() == {"k8s/ml/a/u-a": [A]}
        node.listed(daemon=False)
        assert node.claims() == {}

    def test_is_not_the_first_that_tells_what_was_there_before(self) -> None:
        node = Node(api=False)
        node.listed(daemon=False)
        node.listed(holding("a", A))
        node.wait(15)
        assert node.start() is None


class TestAPodThatIsNotListed:
    def test_ends_with_the_second_answer(self) -> None:
        node = running()
        node.listed()
        assert node.claims() == {"k8s/ml/a/u-a": [A]}
        node.listed()
        assert node.claims() == {}

    def test_does_not_end_with_many_within_a_moment(self) -> None:
        node = running(api=False)
        for _ in range(4):
            node.listed(after=0.3)
        assert node.claims() == {"k8s/ml/a/u-a": [A]}

    def test_ends_also_where_the_api_server_still_has_it(self) -> None:
        """The kubelet lists others: it knows what it is doing."""
        node = running()
        node.listed(holding("b", B))
        node.recorded(record("a", "u-a"), record("b", "u-b"))
        node.listed(holding("b", B))
        assert node.claims() == {"k8s/ml/b/u-b": [B]}

    @pytest.mark.parametrize("api", [False, True])
    def test_is_held_as_long_as_it_has_processes(self, api: bool) -> None:
        """A kubelet that was started while its API server is away lists static pods only."""
        node = running(api=api)
        node.cgroups = node.living = {"u-a"}
        for _ in range(10):
            node.listed(holding("static", B))
            assert node.claims()["k8s/ml/a/u-a"] == [A]
        node.living = set()
        node.listed(holding("static", B))
        assert "k8s/ml/a/u-a" not in node.claims()

    @pytest.mark.parametrize("said", [(), (record("a", "u-a", over=True),), (record("a", "u-next"),)])
    def test_ends_whatever_its_processes_where_the_api_server_says_so(self, said: tuple[PodRecord, ...]) -> None:
        node = running()
        node.living = {"u-a"}
        node.listed()
        node.wait(1)
        node.recorded(*said)
        node.listed()
        assert "k8s/ml/a/u-a" not in node.claims()

    def test_shares_no_device_with_the_pod_that_has_it_now(self) -> None:
        """It keeps its other devices until then, and this one until the next pod is known."""
        node = Node()
        node.listed(holding("a", A, B))
        node.recorded(record("a", "u-a"))
        node.claims()
        node.listed(holding("b", A))
        assert node.claims() == {"k8s/ml/a/u-a": [A, B]}
        node.recorded(record("b", "u-b"))
        assert node.claims() == {"k8s/ml/a/u-a": [B], "k8s/ml/b/u-b": [A]}
        node.listed(holding("b", A))
        assert node.claims() == {"k8s/ml/b/u-b": [A]}


class TestTheKubeletIsAway:
    def test_what_is_held_stays_held_while_the_api_server_answers(self) -> None:
        node = running()
        for _ in range(100):
            node.wait(30)
            node.recorded(record("a", "u-a"))
            assert node.claims() == {"k8s/ml/a/u-a": [A]}

    def test_until_neither_has_answered_for_long(self) -> None:
        node = running()
        node.wait(599)
        assert node.claims() == {"k8s/ml/a/u-a": [A]}
        node.wait(2)
        assert node.claims() == {}
        node.listed(holding("a", A))
        assert node.claims() == {"k8s/ml/a/u-a": [A]}

    def test_and_then_only_those_with_processes(self) -> None:
        node = Node(api=False)
        node.cgroups = {"u-a", "u-b"}
        node.listed(holding("a", A), holding("b", B), holding("c", C))
        assert len(node.learned({A: ["u-a"], B: ["u-b"]})) == 2
        node.living = {"u-a"}
        for _ in range(5):
            node.wait(6000)
            assert node.claims() == {"k8s/ml/a/u-a": [A]}
        node.cgroups, node.living = set(), set()
        node.claims()
        node.wait(2)
        assert node.claims() == {}

    def test_a_pod_that_is_over_ends_at_once(self) -> None:
        node = running()
        node.wait(60)
        node.recorded(record("a", "u-a", over=True))
        assert node.claims() == {}

    def test_a_pod_that_is_gone_ends_at_the_second_answer_without_it(self) -> None:
        node = running()
        node.wait(60)
        node.recorded()
        assert node.claims() == {"k8s/ml/a/u-a": [A]}
        node.wait(30)
        node.recorded()
        assert node.claims() == {}

    def test_while_it_answers_a_pod_that_the_api_server_lacks_is_held_all_the_same(self) -> None:
        """One that was deleted by force still runs."""
        node = running()
        for _ in range(5):
            node.listed(holding("a", A))
            node.recorded()
        assert node.claims() == {"k8s/ml/a/u-a": [A]}


class TestATerminalPod:
    def test_that_an_older_kubelet_lists_is_dropped(self) -> None:
        node = running()
        node.listed(holding("a", A))
        node.recorded(record("a", "u-a", over=True))
        assert node.claims() == {}
        node.listed(holding("a", A))
        assert node.claims() == {}

    def test_is_never_claimed_where_it_was_over_from_the_beginning(self) -> None:
        node = Node()
        node.listed(holding("a", A))
        node.recorded(record("a", "u-a", over=True))
        node.wait(100)
        assert node.claims() == {}
        assert not node.holders.unrecorded()

    def test_of_an_earlier_pod_of_the_name_says_nothing_of_the_present_one(self) -> None:
        node = running()
        node.recorded(record("a", "u-earlier", over=True))
        assert node.claims() == {"k8s/ml/a/u-a": [A]}


class TestStart:
    def test_is_the_pods_own(self) -> None:
        assert running().start() == 1_799_999_000.0

    def test_is_not_known_of_a_pod_that_was_there_before_the_exporter(self) -> None:
        node = Node(api=False)
        node.listed(holding("a", A))
        node.wait(15)
        assert node.start() is None

    def test_is_when_the_pod_was_first_listed_where_it_was_seen_to_begin(self) -> None:
        node = Node(api=False)
        node.listed()
        node.listed(holding("a", A))
        began = WALL + node.now
        node.wait(15)
        assert node.start() == began

    def test_does_not_change_when_the_pods_own_becomes_known_later(self) -> None:
        node = Node()
        node.listed()
        node.listed(holding("a", A))
        began = WALL + node.now
        node.wait(15)
        assert node.start() == began
        node.recorded(record("a", "u-a"))
        assert node.start() == began


def test_devices_that_mean_nothing_here_are_counted_and_the_others_held() -> None:
    node = Node(api=False)
    node.listed(holding("a", A, "nvidia9", claims=[ClaimResource((), "gpu.nvidia.com", "n", "gpu-7-mig-9-0-1")]))
    node.wait(15)
    claims, unknown = node.holders.claims((), {}, {}, node.now)
    assert [claim.device for claim in claims] == [A]
    assert unknown == 2
    assert node.holders.unpublished()
    claims, unknown = node.holders.claims((), {}, {("n", "gpu-7-mig-9-0-1"): B}, node.now)
    assert [claim.device for claim in claims] == [A, B]
    assert unknown == 1


def test_labels_are_those_of_workloads_that_hold_devices() -> None:
    node = running()
    assert node.holders.labels() == {}
    node.listed(holding("a", A), holding("b", B))
    node.recorded(
        record("a", "u-a"), record("b", "u-b", labels=(("app", "x"),)), record("c", "u-c", labels=(("y", "z"),))
    )
    node.claims()
    assert node.holders.labels() == {"k8s/ml/b/u-b": (("app", "x"),)}


class AnyAnswers(RuleBasedStateMachine):
    """Whatever the kubelet and the API server say, in whatever order: a workload's id stays while its pod is listed."""

    def __init__(self) -> None:
        super().__init__()
        self.node = Node()
        self.listed: set[str] = set()
        self.listed_at = 0.0
        self.ids: dict[str, str] = {}

    @rule(names=st.sets(st.sampled_from("abc")), after=st.floats(0.1, 40))
    def list_pods(self, names: set[str], after: float) -> None:
        self.node.listed(*(holding(name, A) for name in names), after=after, daemon=bool(names))
        self.ids = {name: one for name, one in self.ids.items() if name in names & self.listed}
        self.listed, self.listed_at = set(names), self.node.now

    @rule(names=st.sets(st.sampled_from("abc")), after=st.floats(0, 40))
    def record_pods(self, names: set[str], after: float) -> None:
        self.node.wait(after)
        self.node.recorded(*(record(name, f"u-{name}") for name in names))
        if self.node.now - self.listed_at > 30:
            # The kubelet is away: the API server may end what it lacks.
            self.listed &= names

    @rule(after=st.floats(0, 20))
    def wait(self, after: float) -> None:
        self.node.wait(after)

    @rule(uid=st.sampled_from(["u-a", "u-b", "u-x"]))
    def ask(self, uid: str) -> None:
        first = self.node.workload(uid)
        assert first is None or self.node.workload(uid) == first

    @invariant()
    def ids_stay(self) -> None:
        for workload in self.node.claims():
            name = workload.split("/")[2]
            assert self.ids.setdefault(name, workload) == workload or name not in self.listed

    @invariant()
    def whoever_was_just_listed_is_claimed_after_a_while(self) -> None:
        claimed = {workload.split("/")[2] for workload in self.node.claims()}
        if 15 <= self.node.now - self.listed_at < 600:
            assert self.listed <= claimed


TestAnyAnswers = AnyAnswers.TestCase
TestAnyAnswers.settings = settings(max_examples=40, stateful_step_count=20, deadline=None)
