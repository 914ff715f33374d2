"""Pods of which only processes and cgroups tell: made anew under their name, or completed and still listed."""

from __future__ import annotations

import pytest

from dutycycle_exporter.model import Workload
from tests.exporter.attribution.kubernetes.nodes import WALL, A, B, C, Node, holding, running


def by_cgroup(*, seen: bool = True) -> Node:
    """A node without the API server, on which the process of pod `a` has told its uid."""
    node = Node(api=False)
    node.cgroups = {"u-a"} if seen else None
    node.listed()
    node.listed(holding("a", A))
    assert node.learned({A: ["u-a"]}) == {"k8s/ml/a/u-a": [A]}
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
        assert node.learned({A: ["u-new"]}) == {"k8s/ml/a/u-new": [A]}
        assert node.workload("u-new") == Workload("k8s/ml/a/u-new", "k8s", namespace="ml", pod="a", user="ml")
        assert node.start() == WALL + node.now
        for _ in range(5):
            node.listed(holding("a", A))
            assert node.claims({A: ["u-new"]}) == {"k8s/ml/a/u-new": [A]}

    @pytest.mark.parametrize("known", [False, True])
    @pytest.mark.parametrize("cgroups", [None, {"u-b"}])
    def test_is_not_the_next_pod_on_its_gpu_of_which_the_kubelet_has_not_told_yet(
        self, known: bool, cgroups: set[str] | None
    ) -> None:
        """Also where the one before had no process in its time: the next one's is not its own."""
        node = Node(api=False)
        node.listed(holding("a", A))
        before = node.learned({A: ["u-a"]}) if known else {}
        node.cgroups, node.living = cgroups, {"u-b"}
        assert node.claims({A: ["u-b"]}) == before
        assert node.holders.asks()
        node.listed(holding("b", A))
        assert node.claims({A: ["u-b"]}) == {"k8s/ml/b/u-b": [A]}
        assert not node.holders.asks()
        assert node.workload("u-b") == Workload("k8s/ml/b/u-b", "k8s", namespace="ml", pod="b", user="ml")
        for _ in range(5):
            node.listed(holding("b", A))
            assert node.claims({A: ["u-b"]}) == {"k8s/ml/b/u-b": [A]}

    def test_is_so_by_what_the_kubelet_was_asked_after_the_process_came(self) -> None:
        """An answer may be older than it seems."""
        node = by_cgroup(seen=False)
        node.claims({A: ["u-new"]})
        for asked, expected in ((node.now, "u-a"), (node.now + 1, "u-new")):
            node.wait(5)
            node.holders.listed((holding("a", A),), asked, node.now, WALL + node.now)
            assert node.claims({A: ["u-new"]}) == {f"k8s/ml/a/{expected}": [A]}

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
        node.learned({B: ["u-a"]})
        node.listed(*both)
        node.learned({B: ["u-a"], C: ["u-b"]})
        # Of both the processes have ended, and whose the new one is nobody tells.
        for _ in range(2):
            assert node.claims({A: ["u-x"]}) == {"k8s/ml/a/u-a": [A, B], "k8s/ml/b/u-b": [A, C]}
            node.listed(*both)
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
        assert node.learned({A: ["u-new"]}) == {"k8s/ml/a/": [A]}
        assert node.holders.workload_of("u-new", node.now) == node.holders.claims((), {}, {}, node.now)[0][0].workload


class TestAPodInAPod:
    """Of a cluster that somebody runs there: the node's kubelet does not know it."""

    def test_is_not_the_one_that_the_kubelet_lists(self) -> None:
        node = Node(api=False)
        node.listed(holding("a", A))
        for _ in range(2):
            found, _ = node.holders.claims((), {A: ["u-inner", "u-other", "u-a"]}, {}, node.now, ["u-inner", "u-other"])
            node.listed(holding("a", A))
        assert [claim.workload.id for claim in found] == ["k8s/ml/a/u-a"]

    def test_gives_its_uid_to_no_sharer_of_the_gpu(self) -> None:
        node = Node(api=False)
        node.listed(holding("a", A))
        node.learned({A: ["u-a"]})
        node.listed(holding("a", A), holding("b", A))
        node.wait(60)
        found, _ = node.holders.claims((), {A: ["u-a", "u-inner"]}, {}, node.now, ["u-inner"])
        assert [claim.workload.id for claim in found] == ["k8s/ml/a/u-a", "k8s/ml/b/"]


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
        assert node.claims({A: ["u-new"]}) == {}
        node.listed(holding("a", A))
        assert node.claims({A: ["u-new"]}) == {"k8s/ml/a/u-new": [A]}
