"""An incident's annotation: its tags are such as Grafana keeps, and those that identify it always have room."""

from __future__ import annotations

import pytest

from dutycycle_dashboards.publishing.marks import Mark, key_of, mark


def shown(**changes: object) -> Mark:
    """The mark of an incident as the API shows it."""
    return mark({"id": 7, "started_at": "2026-11-20T08:00:00.000Z", "title": "Idle", **changes})


@pytest.mark.parametrize(
    ("changes", "tags"),
    [
        ({"subject": "slurm/1"}, ["workload:slurm/1"]),
        ({"subject": "job/ns/train", "gpus": [{"workload": "k8s/ns/p/u"}]}, ["workload:k8s/ns/p/u"]),
        (
            {"gpus": [{"workload": f"k8s/ns/p{n}/u", "node": "a"} for n in range(3)]},
            ["workload:k8s/ns/p0/u", "workload:k8s/ns/p1/u", "node:a", "workload:k8s/ns/p2/u"],
        ),
        ({"gpus": [{"workload": "k8s/" + "n" * 100}]}, []),
        ({"gpus": [{"node": "b"}, {"node": "a"}, {"node": "a"}]}, ["node:a", "node:b"]),
        ({"user": "a:b"}, ["user:a_b"]),
        ({"user": "u" * 101}, ["user:" + "u" * 99 + "…"]),
        ({"user": None, "cluster": "", "gpus": None}, []),
    ],
)
def test_tags_are_such_as_grafana_keeps(changes: dict[str, object], tags: list[str]) -> None:
    assert list(shown(**changes).tags) == ["dutycycle", "incident:7", *tags]


def test_tags_have_room_for_what_identifies_first() -> None:
    found = shown(cluster="c" * 90, user="u" * 90, rule="idle", gpus=[{"node": f"node-{n:040}"} for n in range(50)])
    assert sum(len(tag) + 3 for tag in found.tags) + 2 <= 500
    assert found.tags[:2] == ("dutycycle", "incident:7")
    assert key_of(list(found.tags)) == found.key
