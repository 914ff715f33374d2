"""The names of pods that hold or use GPUs: where they come from, how long they are waited for, and that they stay."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import pytest

from dutycycle_exporter.attribution.kubernetes.messages import (
    PodResources,
)
from dutycycle_exporter.model import Workload
from tests.exporter.attribution.kubernetes.nodes import WALL, A, B, C, Node, holding, record, running


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
        held = node.learned({B: ["u-a"], C: ["u-b"]})
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
        assert node.learned({A: ["u-a"]}) == {"k8s/ml/a/": [A]}
        workload = node.workload("u-a")
        assert workload is not None
        assert workload.id == "k8s/ml/a/"

    def test_that_cannot_be_part_of_an_id_are_refused(self) -> None:
        node = Node()
        pods = [holding("a/b", A), holding("", A), holding("x" * 300, A), holding("a\n", A), holding("ok", B)]
        assert node.holders.listed(pods, node.now, node.now, WALL) == {"bad_name": 4}
        node.recorded(record("ok", "u"))
        assert node.claims() == {"k8s/ml/ok/u": [B]}


class TestUidsFromTheLinksBesideContainersLogs:
    """Without the API server: also of pods without a process on their devices, or where processes are not seen."""

    def test_are_known_before_any_process_is(self) -> None:
        node = Node(api=False)
        node.cgroups = {"u-a"}
        node.listed(holding("a", A))
        assert node.holders.unnamed()
        node.named(a=["u-a"])
        assert not node.holders.unnamed()
        assert node.claims() == {"k8s/ml/a/u-a": [A]}

    def test_are_waited_for_while_a_pod_begins_that_fetches_its_images(self) -> None:
        """Or it would be called otherwise once the exporter is restarted."""
        node = Node(api=False)
        node.cgroups = {"u-a"}
        node.listed()
        node.listed(holding("a", A))
        node.named()
        node.wait(290)
        node.listed(holding("a", A))
        node.named()
        assert node.claims() == {}
        node.named(a=["u-a"])
        assert node.claims() == {"k8s/ml/a/u-a": [A]}

    def test_are_not_waited_for_without_end(self) -> None:
        node = Node(api=False)
        node.cgroups = {"u-a"}
        node.listed()
        node.listed(holding("a", A))
        node.named()
        node.wait(300)
        assert node.claims() == {"k8s/ml/a/": [A]}
        node.named(a=["u-a"])
        assert node.claims() == {"k8s/ml/a/": [A]}
        assert node.workload("u-a") == Workload("k8s/ml/a/", "k8s", namespace="ml", pod="a", user="ml")

    @pytest.mark.parametrize("links", [{}, {"a": ["u-a"]}])
    def test_are_not_waited_for_where_the_pod_was_there_before_or_its_cgroup_is_not_seen(
        self, links: dict[str, list[str]]
    ) -> None:
        """Waiting would not help."""
        node = Node(api=False)
        if links:
            node.listed()
        node.listed(holding("a", A))
        node.named(**links)
        node.wait(15)
        assert node.claims() == {"k8s/ml/a/": [A]}

    def test_are_those_of_the_pod_whose_cgroup_is_there(self) -> None:
        node = Node(api=False)
        node.cgroups = {"u-new"}
        node.listed(holding("a", A))
        node.named(a=["u-old", "u-new"])
        assert node.claims() == {"k8s/ml/a/u-new": [A]}

    def test_are_not_guessed_where_several_are_there(self) -> None:
        node = Node(api=False)
        node.cgroups = {"u-old", "u-new"}
        node.listed(holding("a", A))
        node.named(a=["u-old", "u-new"])
        assert node.claims() == {}

    def test_tell_of_a_pod_that_was_made_anew_under_its_name(self) -> None:
        node = Node(api=False)
        node.cgroups = {"u-a"}
        node.listed(holding("a", A))
        node.named(a=["u-a"])
        node.claims()
        node.cgroups = {"u-new"}
        node.listed(holding("a", A))
        assert node.holders.unnamed()
        node.named(a=["u-a", "u-new"])
        assert node.claims() == {"k8s/ml/a/u-new": [A]}
        assert node.start() == WALL + node.now

    def test_are_less_than_the_api_servers_word(self) -> None:
        node = running()
        node.cgroups = {"u-x"}
        node.named(a=["u-x"])
        assert node.claims() == {"k8s/ml/a/u-a": [A]}


@pytest.mark.parametrize("api", [False, True])
class TestUnsettled:
    """After a start: what holds devices already is still to be told."""

    def test_is_whoever_was_not_told_of_or_has_no_name(self, api: bool) -> None:
        node = Node(api=api)
        assert node.holders.unsettled()
        node.listed(daemon=False)
        assert node.holders.unsettled()
        node.listed(holding("a", A))
        node.claims()
        assert node.holders.unsettled()
        node.wait(15)
        node.claims()
        assert not node.holders.unsettled()

    def test_is_not_whoever_comes_later(self, api: bool) -> None:
        node = Node(api=api)
        node.listed()
        assert not node.holders.unsettled()
        node.listed(holding("a", A))
        node.claims()
        assert not node.holders.unsettled()


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
