"""Who holds what, from one answer to the next: nothing flickers, nothing outlives its pod, and names do not change."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from dutycycle_exporter.attribution.kubernetes.holders import Holders
from dutycycle_exporter.attribution.kubernetes.messages import (
    ClaimResource,
    ContainerDevices,
    ContainerResources,
    PodResources,
)
from dutycycle_exporter.attribution.kubernetes.records import PodRecord
from dutycycle_exporter.model import GpuReading, Workload
from tests.exporter.attribution.kubernetes.usual import SELECTION

A, B, C = (f"GPU-0000000{n}-aaaa-4000-8000-00000000000{n}" for n in range(3))
WALL = 1_800_000_000.0
INTERVAL = 5.0


def holding(name: str, *devices: str, namespace: str = "ml", claims: Sequence[ClaimResource] = ()) -> PodResources:
    entries = tuple(ContainerDevices("nvidia.com/gpu", (device,)) for device in devices)
    return PodResources(name, namespace, (ContainerResources("main", entries, tuple(claims)),))


DAEMON = holding("exporter", namespace="monitoring")
"""A pod without a GPU: a node always has some."""


def record(name: str, uid: str, **fields: object) -> PodRecord:
    return PodRecord(uid, "ml", name, **{"user": "ada", "start": 1_799_999_000.0, **fields})  # type: ignore[arg-type]


class Node:
    """The holders of a node, and a clock that only moves when told."""

    def __init__(self, *, api: bool = True) -> None:
        self.cgroups: set[str] | None = None
        self.holders = Holders(
            SELECTION,
            api=api,
            patience=15,
            stale=600,
            has_cgroup=lambda uid: None if self.cgroups is None else uid in self.cgroups,
        )
        self.now = 1000.0

    def wait(self, seconds: float) -> None:
        self.now += seconds

    def listed(self, *pods: PodResources, after: float = INTERVAL, daemon: bool = True) -> None:
        self.wait(after)
        self.holders.listed((*pods, DAEMON) if daemon else pods, self.now, WALL + self.now)

    def recorded(self, *records: PodRecord) -> None:
        self.holders.recorded(records, self.now)

    def claims(
        self, processes: Mapping[str, Collection[str]] | None = None, gpus: Sequence[GpuReading] = ()
    ) -> dict[str, list[str]]:
        found, _ = self.holders.claims(gpus, processes or {}, {}, self.now)
        held: dict[str, list[str]] = {}
        for claim in found:
            held.setdefault(claim.workload.id, []).append(claim.device)
        return held

    def containers(self) -> dict[str, tuple[str, ...]]:
        found, _ = self.holders.claims((), {}, {}, self.now)
        return {claim.device: claim.containers for claim in found}

    def start(self) -> float | None:
        found, _ = self.holders.claims((), {}, {}, self.now)
        return found[0].start

    def workload(self, uid: str) -> Workload | None:
        return self.holders.workload_of(uid, self.now)


def running(*, api: bool = True) -> Node:
    """A node on which pod `a` holds one GPU and is known."""
    node = Node(api=api)
    node.listed(holding("a", A))
    node.recorded(record("a", "u-a"))
    assert node.claims() == {"k8s/ml/a/u-a": [A]}
    return node


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
    [claim], _ = node.holders.claims((), {A: {"u-a"}}, {}, node.now)
    assert (claim.workload.id, claim.uid) == ("k8s/ml/a/", "u-a")


def test_before_any_answer_nothing_is_claimed() -> None:
    assert Node().claims() == {}


class TestOneEmptyAnswer:
    def test_of_a_kubelet_that_has_just_restarted_ends_nothing(self) -> None:
        node = running()
        node.listed(daemon=False)
        assert node.claims() == {"k8s/ml/a/u-a": [A]}
        node.listed(holding("a", A))
        node.listed(daemon=False)
        assert node.claims() == {"k8s/ml/a/u-a": [A]}

    def test_nor_two_within_the_second_that_it_takes(self) -> None:
        node = running(api=False)
        for _ in range(4):
            node.listed(daemon=False, after=0.3)
        assert node.claims() == {"k8s/ml/a/u-a": [A]}

    def test_nor_many_while_the_api_server_says_that_the_pod_runs(self) -> None:
        """A kubelet that cannot reach the API server when it starts lists nothing until it can."""
        node = running()
        node.listed(daemon=False)
        node.wait(1)
        node.recorded(record("a", "u-a"))
        for _ in range(10):
            node.listed(daemon=False)
        assert node.claims() == {"k8s/ml/a/u-a": [A]}
        node.recorded()
        node.listed(daemon=False)
        assert node.claims() == {}

    def test_the_second_ends_a_pod_of_which_the_api_server_has_said_nothing_since(self) -> None:
        node = running()
        node.listed(daemon=False)
        node.listed(daemon=False)
        assert node.claims() == {}

    def test_the_second_ends_a_pod(self) -> None:
        node = running()
        node.listed()
        assert node.claims() == {"k8s/ml/a/u-a": [A]}
        node.listed()
        assert node.claims() == {}

    def test_also_where_the_api_server_still_has_the_pod(self) -> None:
        """The kubelet lists others: it knows what it is doing."""
        node = running()
        node.listed(holding("b", B))
        node.recorded(record("a", "u-a"), record("b", "u-b"))
        node.listed(holding("b", B))
        assert node.claims() == {"k8s/ml/b/u-b": [B]}

    def test_a_device_that_is_handed_on_has_both_until_then(self) -> None:
        node = running()
        node.listed(holding("b", A))
        node.recorded(record("b", "u-b"))
        assert node.claims() == {"k8s/ml/a/u-a": [A], "k8s/ml/b/u-b": [A]}
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


def by_cgroup(*, seen: bool = True) -> Node:
    """A node without the API server, on which the process of pod `a` has told its uid."""
    node = Node(api=False)
    node.cgroups = {"u-a"} if seen else None
    node.listed()
    node.listed(holding("a", A))
    assert node.claims({A: ["u-a"]}) == {"k8s/ml/a/u-a": [A]}
    return node


class TestAPodThatIsMadeAnewUnderItsName:
    """As a StatefulSet's, or a training operator's worker; without the API server."""

    @pytest.mark.parametrize("missed", [False, True])
    @pytest.mark.parametrize("cgroups", [None, {"u-new"}])
    def test_is_another_workload_from_its_first_process_on(self, missed: bool, cgroups: set[str] | None) -> None:
        node = by_cgroup()
        node.cgroups = cgroups
        if missed:
            node.listed()
        node.listed(holding("a", A))
        assert node.claims({A: ["u-new"]}) == {"k8s/ml/a/u-new": [A]}
        assert node.workload("u-new") == Workload("k8s/ml/a/u-new", "k8s", namespace="ml", pod="a", user="ml")
        assert node.start() == WALL + node.now
        for _ in range(5):
            node.listed(holding("a", A))
            assert node.claims({A: ["u-new"]}) == {"k8s/ml/a/u-new": [A]}

    @pytest.mark.parametrize(
        ("processes", "cgroups"),
        [
            # The pod lives: whoever else works there was not given the GPU.
            (["u-x"], {"u-a", "u-x"}),
            (["u-a", "u-x"], None),
            # Two that nobody knows.
            (["u-x", "u-y"], None),
            ([], None),
        ],
    )
    def test_is_not_every_process_on_its_gpu(self, processes: list[str], cgroups: set[str] | None) -> None:
        node = by_cgroup()
        node.cgroups = cgroups
        node.listed(holding("a", A))
        assert node.claims({A: processes}) == {"k8s/ml/a/u-a": [A]}

    def test_is_told_from_those_that_share_the_gpu(self) -> None:
        node = Node(api=False)
        both = holding("a", f"{A}::0", f"{B}::0"), holding("b", f"{A}::1", f"{C}::0")
        node.listed(both[0])
        node.claims({B: ["u-a"]})
        node.listed(*both)
        node.claims({C: ["u-b"]})
        # Of both the processes have ended, and whose the new one is nobody tells.
        assert node.claims({A: ["u-x"]}) == {"k8s/ml/a/u-a": [A, B], "k8s/ml/b/u-b": [A, C]}
        assert node.claims({A: ["u-x", "u-b"]}) == {"k8s/ml/a/u-x": [A, B], "k8s/ml/b/u-b": [A, C]}

    def test_is_what_the_api_server_says_where_it_has_told(self) -> None:
        node = running()
        node.listed(holding("a", A))
        assert node.claims({A: ["u-x"]}) == {"k8s/ml/a/u-a": [A]}

    @pytest.mark.parametrize("ended", [False, True])
    def test_is_held_without_a_process_where_the_kubelet_lacked_it_once(self, ended: bool) -> None:
        node = by_cgroup()
        node.cgroups = set()
        node.claims()
        if ended:
            node.wait(2)
            assert node.claims() == {}
        node.listed()
        node.listed(holding("a", A))
        node.claims()
        node.wait(15)
        assert node.claims() == {"k8s/ml/a/": [A]}
        node.wait(60)
        assert node.claims({A: ["u-new"]}) == {"k8s/ml/a/": [A]}
        assert node.holders.workload_of("u-new", node.now) == node.holders.claims((), {}, {}, node.now)[0][0].workload


class TestAPodWhoseCgroupHasGone:
    """A completed one, which an older kubelet goes on listing; without the API server."""

    def test_is_over_at_the_second_look_and_stays_so(self) -> None:
        node = by_cgroup()
        node.cgroups = set()
        node.listed(holding("a", A))
        assert node.claims() == {"k8s/ml/a/u-a": [A]}
        for _ in range(5):
            node.listed(holding("a", A))
            assert node.claims() == {}

    def test_is_not_over_in_two_looks_at_once(self) -> None:
        node = by_cgroup()
        node.cgroups = set()
        for _ in range(4):
            node.wait(0.3)
            assert node.claims() == {"k8s/ml/a/u-a": [A]}

    def test_is_not_over_where_a_look_between_finds_it_or_cannot(self) -> None:
        node = by_cgroup()
        for cgroups in (set(), {"u-a"}, set(), None, set(), None):
            node.cgroups = cgroups  # type: ignore[assignment]
            node.listed(holding("a", A))
            assert node.claims() == {"k8s/ml/a/u-a": [A]}

    def test_is_not_over_where_its_cgroup_was_never_found(self) -> None:
        """A kubelet may put them elsewhere."""
        node = by_cgroup(seen=False)
        node.cgroups = set()
        for _ in range(5):
            node.listed(holding("a", A))
            assert node.claims() == {"k8s/ml/a/u-a": [A]}

    def test_is_held_on_where_the_api_server_says_that_it_runs(self) -> None:
        node = running()
        for cgroups in ({"u-a"}, set(), set(), set()):
            node.cgroups = cgroups
            node.listed(holding("a", A))
            assert node.claims() == {"k8s/ml/a/u-a": [A]}

    def test_gives_its_name_to_the_pod_whose_process_comes(self) -> None:
        node = by_cgroup()
        node.cgroups = set()
        node.claims()
        node.wait(2)
        assert node.claims() == {}
        node.cgroups = {"u-new"}
        assert node.claims({A: ["u-new"]}) == {"k8s/ml/a/u-new": [A]}


class TestNames:
    def test_are_waited_for_and_then_settled_without(self) -> None:
        node = Node()
        node.listed(holding("a", A))
        node.wait(14)
        assert node.claims() == {}
        node.wait(1)
        assert node.claims() == {"k8s/ml/a/": [A]}
        node.recorded(record("a", "u-a"))
        assert node.claims() == {"k8s/ml/a/": [A]}
        assert node.workload("u-a") == Workload("k8s/ml/a/", "k8s", namespace="ml", pod="a", user="ml")

    def test_come_from_the_api_server_only_where_it_was_asked_after_the_pod_was_seen(self) -> None:
        """Its earlier answer may tell of an earlier pod of that name."""
        node = Node()
        node.listed()
        node.recorded(record("a", "u-earlier"))
        node.listed(holding("a", A))
        assert node.claims() == {}
        node.holders.recorded([record("a", "u-earlier")], node.now - 1)
        assert node.claims() == {}
        node.recorded(record("a", "u-a"))
        assert node.claims() == {"k8s/ml/a/u-a": [A]}

    def test_of_a_pod_that_took_the_name_of_another_between_two_answers(self) -> None:
        node = running()
        node.listed(holding("a", A))
        node.recorded(record("a", "u-next", user="bob"))
        assert node.claims() == {"k8s/ml/a/u-next": [A]}

    def test_do_not_change_with_the_pods_annotations(self) -> None:
        node = running()
        node.recorded(record("a", "u-a", user="mallory"))
        workload = node.workload("u-a")
        assert workload is not None
        assert workload.user == "ada"

    def test_without_an_api_server_are_those_of_the_devices_only_pod(self) -> None:
        node = Node(api=False)
        node.listed(holding("a", A, B), holding("b", C))
        assert node.claims() == {}
        held = node.claims({B: ["u-a"], C: ["u-b"]})
        assert held == {"k8s/ml/a/u-a": [A, B], "k8s/ml/b/u-b": [C]}
        assert node.workload("u-b") == Workload("k8s/ml/b/u-b", "k8s", namespace="ml", pod="b", user="ml")

    @pytest.mark.parametrize(
        ("pods", "processes"),
        [
            # Two pods that are not known share the device: either may be the process'.
            ((holding("a", f"{A}::0"), holding("b", f"{A}::1")), {A: ["u-1"]}),
            # Two pods' processes are on the device: one of them has no business there.
            ((holding("a", A),), {A: ["u-1", "u-2"]}),
            ((holding("a", A),), {B: ["u-1"]}),
            ((holding("a", A),), {}),
        ],
    )
    def test_without_an_api_server_are_not_guessed(
        self, pods: Sequence[PodResources], processes: Mapping[str, Collection[str]]
    ) -> None:
        node = Node(api=False)
        node.listed(*pods)
        assert node.claims(processes) == {}
        node.wait(15)
        assert set(node.claims(processes)) == {f"k8s/ml/{pod.name}/" for pod in pods}

    def test_a_process_seen_later_belongs_to_the_pod_whose_names_were_settled_without_it(self) -> None:
        node = Node(api=False)
        node.listed(holding("a", A))
        node.wait(15)
        assert node.claims() == {"k8s/ml/a/": [A]}
        assert node.claims({A: ["u-a"]}) == {"k8s/ml/a/": [A]}
        workload = node.workload("u-a")
        assert workload is not None
        assert workload.id == "k8s/ml/a/"

    def test_that_cannot_be_part_of_an_id_are_refused(self) -> None:
        node = Node()
        pods = [holding("a/b", A), holding("", A), holding("x" * 300, A), holding("a\n", A), holding("ok", B)]
        assert node.holders.listed(pods, node.now, WALL) == {"bad_name": 4}
        node.recorded(record("ok", "u"))
        assert node.claims() == {"k8s/ml/ok/u": [B]}


class TestAPodThatOnlyUsesADevice:
    def test_has_its_names_from_the_api_server(self) -> None:
        node = running()
        node.recorded(record("a", "u-a"), record("profiler", "u-p", user="eve"))
        assert node.workload("u-p") == Workload(
            "k8s/ml/profiler/u-p", "k8s", namespace="ml", pod="profiler", user="eve"
        )

    def test_has_none_until_it_is_known_that_nobody_tells(self) -> None:
        node = running()
        assert node.workload("u-x") is None
        assert node.holders.unrecorded()
        node.wait(1)
        node.recorded(record("a", "u-a"))
        assert not node.holders.unrecorded()
        assert node.workload("u-x") is None
        node.wait(14)
        assert node.workload("u-x") == Workload("k8s///u-x", "k8s")
        node.recorded(record("x", "u-x"))
        assert node.workload("u-x") == Workload("k8s///u-x", "k8s")

    def test_needs_no_patience_where_nobody_could_tell_and_the_kubelet_has_not(self) -> None:
        node = Node(api=False)
        node.listed()
        assert node.workload("u-x") is None
        node.listed()
        assert node.workload("u-x") == Workload("k8s///u-x", "k8s")

    def test_may_be_a_holder_that_the_kubelet_has_not_told_of_yet(self) -> None:
        node = Node(api=False)
        node.claims({A: ["u-a"]})
        assert node.workload("u-a") is None
        node.listed(holding("a", A))
        node.claims({A: ["u-a"]})
        assert node.workload("u-a") == Workload("k8s/ml/a/u-a", "k8s", namespace="ml", pod="a", user="ml")

    def test_is_forgotten_when_nobody_asks_any_more(self) -> None:
        node = running()
        node.workload("u-x")
        node.wait(400)
        node.listed(holding("a", A))
        node.claims()
        assert not node.holders.unrecorded()


class TestStart:
    def test_is_the_pods_own(self) -> None:
        assert running().start() == 1_799_999_000.0

    def test_is_not_known_of_a_pod_that_was_there_before_the_exporter(self) -> None:
        node = Node(api=False)
        node.listed(daemon=False)
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
