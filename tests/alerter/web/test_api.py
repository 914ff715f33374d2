"""The JSON API: typed, on the shown scale, null where nothing is known."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from dutycycle_alerter import answers
from dutycycle_alerter.fleet_now import FleetAmounts
from dutycycle_alerter.incidents.model import Severity, State
from dutycycle_alerter.usage import UserUsage
from dutycycle_alerter.views import NotEvaluable, TargetStatus
from tests.alerter.web.conftest import Client, Live
from tests.alerter.web.doubles import NOW, FixedReader, full_reader, gpu_now, incident, status

Serve = Callable[..., Client]


def get(client: Client, path: str) -> Any:
    response = client.get(f"/api/v1/{path}")
    assert response.status == 200, response.data
    assert response.headers["content-type"] == "application/json"
    return json.loads(response.data)


def test_incidents(live: Live) -> None:
    answer = get(live.client, "incidents?state=open&rule=idle")
    assert (answer["total"], answer["offset"], answer["replay"]) == (1, 0, False)
    (found,) = answer["incidents"]
    assert found["title"] == "All 4 GPUs are idle"
    assert found["subject"] == "slurm/41207"
    assert found["severity"] == "critical"
    assert [gpu["index"] for gpu in found["gpus"]] == ["0", "1", "2", "3"]
    assert found["diagnosis"]["causes"] == ["no process"]
    assert found["wasted_gpu_hours"] == pytest.approx(11.87, abs=0.01)
    assert found["resolved_at"] is None
    kept = live.store.incident(found["id"])
    assert kept is not None
    assert datetime.fromisoformat(found["started_at"]).timestamp() == pytest.approx(kept.started_at, abs=0.001)


@pytest.mark.parametrize(
    ("query", "users"),
    [
        ("", ["erin", "bob", "alice", "dmitri", "carol", "heidi"]),
        ("state=open&state=resolved", ["erin", "bob", "alice", "dmitri", "carol", "heidi"]),
        ("state=resolved", ["heidi"]),
        ("since=366d&state=resolved", ["heidi"]),
        ("since=1s&state=resolved", []),
        ("since=1s", ["erin", "bob", "alice", "dmitri", "carol"]),
        ("scheduler=k8s", ["dmitri"]),
        ("account=vision", ["bob", "carol", "heidi"]),
        ("severity=critical&limit=1", ["alice"]),
        ("node=gpu-b01", ["heidi"]),
        ("text=straggler&user=bob", ["bob"]),
    ],
)
def test_filters(live: Live, query: str, users: list[str]) -> None:
    found = [one["user"] for one in get(live.client, f"incidents?{query}")["incidents"]]
    assert sorted(found) == sorted(users)


def test_one_incident_with_its_history(live: Live) -> None:
    number = live.incident_of("heidi")
    answer = get(live.client, f"incidents/{number}")
    assert answer["incident"]["id"] == number
    assert answer["incident"]["resolution"] == "ended"
    assert [event["kind"] for event in answer["events"]] == ["opened", "resolved"]
    assert answer["events"][0]["at"].endswith("Z")


def test_users(live: Live) -> None:
    answer = get(live.client, "users?since=7d")
    assert len(answer["users_histogram"]) == 20
    assert sum(answer["users_histogram"]) == len(answer["users"]) == 34
    assert answer["users_under_15"] == 9
    alice = next(user for user in answer["users"] if user["user"] == "alice")
    assert alice["mean_utilization_percent"] == 0.0
    assert alice["wasted_gpu_hours"] == alice["observed_gpu_hours"]
    assert alice["incidents"] == 1


def test_gpus_of_a_silent_exporter_are_null(live: Live) -> None:
    found = get(live.client, "gpus")["gpus"]
    assert len(found) == 20
    for gpu in found:
        assert gpu["stale"] is (gpu["node"] == "gpu-b01")
        assert (gpu["utilization_ratio"] is None) is gpu["stale"]
        assert (gpu["memory_used_bytes"] is None) is gpu["stale"]
    assert found[0]["utilization_ratio"] == 0.0
    assert found[0]["workloads"] == [{"workload": "slurm/41207", "user": "alice", "share": 1.0}]


@pytest.mark.parametrize("what", ["users", "gpus"])
def test_long_lists_come_in_parts(live: Live, what: str) -> None:
    """And what is counted over all of them is counted over all of them in each part."""
    whole = get(live.client, what)
    assert (whole["total"], whole["offset"]) == (len(whole[what]), 0)
    part = get(live.client, f"{what}?limit=3&offset=2")
    assert part[what] == whole[what][2:5]
    assert (part["total"], part["offset"]) == (whole["total"], 2)
    assert part.get("users_histogram") == whole.get("users_histogram")
    assert get(live.client, f"{what}?offset=10000")[what] == []
    for wrong in ("limit=0", "limit=10001", "offset=-1", "limit=x"):
        assert live.client.get(f"/api/v1/{what}?{wrong}").status == 422


@pytest.mark.parametrize("path", ["incidents", "users", "gpus"])
def test_a_list_that_may_lack_entries_says_why(serve: Serve, path: str) -> None:
    silent = status(targets=(TargetStatus("http://prometheus:9090", "", None, "connection refused"),))
    why = get(serve(FixedReader(shown=silent)), path)["incomplete"]
    assert why == "A source does not answer, so jobs may hold GPUs that cannot be seen."
    assert get(serve(FixedReader()), path)["incomplete"] is None


def test_with_prometheus_the_list_of_gpus_says_that_it_is_not_kept(serve: Serve) -> None:
    answer = get(serve(FixedReader(shown=status(lists_gpus=False))), "gpus")
    assert answer["incomplete"].startswith("This list is kept only where the alerter scrapes exporters itself.")


def test_the_fleets_hours(serve: Serve) -> None:
    amounts = (
        FleetAmounts("", "", pending=7200.0, held=3600.0, waited=1800.0),
        FleetAmounts("", "H200", 3600.0, 1800.0, 900.0, 360.0, 36.0),
    )
    queue, gpus = get(serve(FixedReader(amounts=amounts)), "fleet?since=1d")["fleet"]
    assert (queue["pending_gpu_hours"], queue["held_gpu_hours"], queue["allocated_gpu_hours"]) == (2, 1, 0)
    assert queue["waited_gpu_hours"] == 0.5
    assert gpus == {
        "cluster": "",
        "model": "H200",
        "allocated_gpu_hours": 1,
        "unallocated_gpu_hours": 0.5,
        "drained_gpu_hours": 0.25,
        "down_gpu_hours": 0.1,
        "unknown_gpu_hours": 0.01,
        "pending_gpu_hours": 0,
        "held_gpu_hours": 0,
        "waited_gpu_hours": None,
    }


def test_the_fleet_comes_in_parts(serve: Serve) -> None:
    client = serve(FixedReader(amounts=[FleetAmounts("", f"model{number}", 3600.0) for number in range(5)]))
    part = get(client, "fleet?limit=2&offset=1")
    assert ([row["model"] for row in part["fleet"]], part["total"], part["offset"]) == (["model1", "model2"], 5, 1)
    whole = get(client, "fleet")
    assert (len(whole["fleet"]), whole["total"], whole["offset"]) == (5, 5, 0)


def test_status(live: Live) -> None:
    answer = get(live.client, "status")
    assert answer["jobs_judged"] == 6
    assert [bool(target["error"]) for target in answer["targets"]] == [False, False, True]
    assert answer["first_verdict_at"] is None


def test_a_replay_is_said_in_every_answer_and_seconds_are_on_the_shown_scale(serve: Serve) -> None:
    reader = full_reader("")
    reader.shown = status(replay=True, time_scale=60.0, not_evaluable=(NotEvaluable("stalled", "no gaps", 2),))
    client = serve(reader)
    answers = {path: get(client, path) for path in ("incidents", "incidents/7", "users", "gpus", "status")}
    assert all(answer["replay"] is True for answer in answers.values())
    assert answers["incidents"]["incidents"][0]["wasted_gpu_hours"] == 120.0
    assert answers["incidents"]["incidents"][0]["energy_kwh"] == 60.0
    since, until = (datetime.fromisoformat(answers["users"][name]).timestamp() for name in ("since", "until"))
    assert until - since == pytest.approx(7 * 86400 / 60)
    assert answers["status"]["not_evaluable"] == [{"rule": "stalled", "reason": "no gaps", "jobs": 2}]


def test_unknown_is_null(serve: Serve) -> None:
    device = gpu_now(
        utilization=None, memory_used=None, power=None, temperature=None, processes=None, last_busy_at=None
    )
    reader = FixedReader(devices=[device], people=[UserUsage("zoe", 3600, 0, 0)], shown=status(last_pass=None))
    client = serve(reader)
    (gpu,) = get(client, "gpus")["gpus"]
    assert {
        gpu[name]
        for name in (
            "utilization_ratio",
            "memory_used_bytes",
            "power_watts",
            "temperature_celsius",
            "processes",
            "last_busy_at",
        )
    } == {None}
    (user,) = get(client, "users")["users"]
    assert (user["mean_utilization_percent"], user["energy_kwh"]) == (None, None)
    assert get(client, "status")["last_pass"] is None


def test_the_description_names_every_shape_and_path(serve: Serve) -> None:
    described = get(serve(FixedReader()), "openapi.json")
    assert sorted(described["paths"]) == [
        "/api/v1/expectations",
        "/api/v1/expectations/{expectation_id}",
        "/api/v1/fleet",
        "/api/v1/gpus",
        "/api/v1/incidents",
        "/api/v1/incidents/{incident_id}",
        *(f"/api/v1/incidents/{{incident_id}}/{what}" for what in ("acknowledge", "intend", "resolve", "snooze")),
        *(f"/api/v1/reports/{what}" for what in ("rules", "waste", "{kind}")),
        "/api/v1/status",
        "/api/v1/users",
    ]
    for path in described["paths"].values():
        for operation in path.values():
            schema = operation["responses"]["200"]["content"]["application/json"]["schema"]
            assert schema["$ref"].endswith("Answer")
    assert "When the condition began." in json.dumps(described["components"]["schemas"]["IncidentShape"])


@pytest.mark.parametrize("kind", ["users", "accounts", "models", "waste", "rules"])
def test_reports_are_those_of_the_command(serve: Serve, kind: str) -> None:
    found = get(serve(full_reader("zoe")), f"reports/{kind}?since=7d&cluster=north")
    assert (found["kind"], found["cluster"], found["replay"]) == (kind, "north", False)
    rows = found["causes"] if kind == "waste" else found["rows"]
    assert len(rows) == 1


def test_times_are_utc_to_the_millisecond() -> None:
    shape = answers.incident_shape(incident(severity=Severity.INFO, state=State.OPEN), time_scale=1)
    assert json.loads(shape.model_dump_json())["opened_at"] == datetime.fromtimestamp(NOW - 5400, UTC).strftime(
        "%Y-%m-%dT%H:%M:%S.000Z"
    )
