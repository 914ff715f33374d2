"""Incidents and Operations over a Dutycycle that is broken in every way: each fault is a row, and nothing is counted
twice though two alerters tell it.
"""

from __future__ import annotations

import json
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from dutycycle_dashboards.building.links import FLEET, INCIDENTS, OPERATIONS
from dutycycle_dashboards.building.promql import FILTERS
from dutycycle_dashboards.render import dashboards
from tests.prometheus.server import PrometheusServer

NOW = 1_790_000_000 // 3600 * 3600
MINUTE = 60
BEGIN = NOW - 120 * MINUTE

Rows = dict[tuple[str, ...], float]


class Told:
    """What targets said, a sample a minute."""

    def __init__(self) -> None:
        self._samples: dict[str, list[str]] = {}

    def say(
        self, name: str, value: float | Callable[[int], float], *, since: int = BEGIN, until: int = NOW, **labels: str
    ) -> None:
        """Seconds since 1970 and a value, or what gives one at a time."""
        series = f"{name}{{{','.join(f'{key}={json.dumps(text)}' for key, text in labels.items())}}}"
        lines = self._samples.setdefault(name, [])
        for t in range(since, until + 1, MINUTE):
            lines.append(f"{series} {value(t) if callable(value) else value} {t}")

    def openmetrics(self) -> str:
        return "\n".join([*(line for name in sorted(self._samples) for line in self._samples[name]), "# EOF", ""])


def exporter(
    told: Told, node: str, *, until: int = NOW, failing: bool = False, never: bool = False, cluster: str = ""
) -> None:
    at = {"instance": f"{node}{cluster}:9836", "job": "exporters", **({"cluster": cluster} if cluster else {})}
    told.say("gpu_expected", 8, until=until, node=node, **at)
    told.say("dutycycle_exporter_build_info", 1, until=until, version="1.2", **at)
    told.say("dutycycle_exporter_start_timestamp_seconds", BEGIN, until=until, **at)
    told.say("dutycycle_exporter_collector_success", 0 if failing else 1, until=until, collector="nvml", **at)
    told.say("dutycycle_exporter_collector_age_seconds", 3000 if failing else 2, until=until, collector="nvml", **at)
    told.say("dutycycle_exporter_collector_success", 0 if never else 1, until=until, collector="attribution", **at)
    if not never:
        told.say("dutycycle_exporter_collector_age_seconds", 3, until=until, collector="attribution", **at)
    told.say("dutycycle_exporter_config_last_reload_successful", 0 if failing else 1, until=until, **at)
    told.say("dutycycle_exporter_config_last_reload_success_timestamp_seconds", NOW - 5000, until=until, **at)


def alerter(told: Told, name: str, *, well: bool = True, leads: bool = False) -> None:
    at = {"instance": f"{name}:9837", "job": "alerters"}
    told.say("dutycycle_alerter_build_info", 1, version="1.2", **at)
    told.say("dutycycle_alerter_leader", 1 if leads else 0, **at)
    told.say("dutycycle_alerter_store_up", 1, **at)
    told.say("dutycycle_alerter_last_pass_timestamp_seconds", (lambda t: t - 20) if well else NOW - 900, **at)
    told.say("dutycycle_alerter_source_up", 1 if well else 0, source="prometheus", **at)
    told.say("dutycycle_alerter_source_up", 1 if well else 0, source="slurm", **at)
    told.say("dutycycle_alerter_source_last_success_timestamp_seconds", NOW - 950, source="prometheus", **at)
    told.say("dutycycle_receiver_failing_seconds", 0 if well or leads else 90, receiver="mail", **at)
    told.say("dutycycle_incidents_not_shown", 0, **at)


def incidents(told: Told, name: str, *, counts: bool) -> None:
    """The same open ones of every alerter; what became of incidents only of the one that counts."""
    at = {"instance": f"{name}:9837", "job": "alerters"}
    for number, rule, severity, kind, user in (
        ("1", "idle", "critical", "job", "alice"),
        ("2", "uneven", "warning", "job", "bob"),
        ("3", "gpu_fault", "critical", "gpu", ""),
    ):
        labels = {"incident": number, "rule": rule, "severity": severity, "kind": kind, "user": user, "state": "open"}
        opened = NOW - 3600 * int(number)
        told.say("dutycycle_incident_opened_timestamp_seconds", opened, cause="no process", **labels, **at)
        if kind == "job":
            told.say("dutycycle_incident_wasted_gpu_seconds", 3600 * int(number), incident=number, **at)

    def every_ten_minutes(t: int) -> float:
        return max(0, (t - NOW + 3600) // 600) if counts else 0

    told.say("dutycycle_incidents_opened_total", every_ten_minutes, rule="idle", severity="warning", **at)
    told.say("dutycycle_incidents_resolved_total", every_ten_minutes, rule="idle", resolution="cleared", **at)
    told.say("dutycycle_incidents_wasted_gpu_seconds_total", lambda t: 3600 * every_ten_minutes(t), rule="idle", **at)
    for le in ("300", "900", "1800", "+Inf"):
        # All took between 5 and 15 minutes.
        told.say(
            "dutycycle_incident_resolution_seconds_bucket",
            0 if le == "300" else every_ten_minutes,
            rule="idle",
            le=le,
            **at,
        )


class Asked:
    """What panels answer at the end of two hours, nothing filtered."""

    def __init__(self, server: PrometheusServer) -> None:
        self._url = server.url

    def __call__(self, uid: str, title: str, *labels: str, place: int = 0, kind: str = "") -> Rows:
        rows = [panel for row in dashboards()[uid]["panels"] for panel in (row, *row.get("panels", ()))]
        [panel] = [one for one in rows if one["title"] == title and kind in ("", one["type"])]
        expr = panel["targets"][place]["expr"]
        for name in FILTERS:
            expr = expr.replace(f'"${name}"', '".*"')
        expr = expr.replace("$__rate_interval", "5m").replace("$__range", "2h")
        query = urllib.parse.urlencode({"query": expr, "time": NOW}).encode()
        with urllib.request.urlopen(f"{self._url}/api/v1/query", query, timeout=60) as response:
            found: list[dict[str, Any]] = json.load(response)["data"]["result"]
        return {tuple(row["metric"].get(label, "") for label in labels): float(row["value"][1]) for row in found}


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    told = Told()
    exporter(told, "well")
    exporter(told, "silent", until=NOW - 30 * MINUTE)
    exporter(told, "failing", failing=True)
    exporter(told, "never", never=True)
    for name in ("one", "two"):
        alerter(told, name, well=False)
        incidents(told, name, counts=name == "one")
    with PrometheusServer(tmp_path_factory.mktemp("broken"), openmetrics=told.openmetrics()) as server:
        yield Asked(server)


@pytest.fixture(scope="module")
def well(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    told = Told()
    exporter(told, "well")
    alerter(told, "one", leads=True)
    alerter(told, "two")
    with PrometheusServer(tmp_path_factory.mktemp("well"), openmetrics=told.openmetrics()) as server:
        yield Asked(server)


@pytest.fixture(scope="module")
def namesakes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    """A node of the same name in each of three clusters, which their targets name."""
    told = Told()
    exporter(told, "n1", cluster="a", failing=True)
    exporter(told, "n1", cluster="b", until=NOW - 30 * MINUTE)
    exporter(told, "n1", cluster="c", failing=True)
    for cluster, visible in (("a", 7), ("c", 8)):
        at = {"instance": f"n1{cluster}:9836", "job": "exporters", "cluster": cluster, "node": "n1"}
        told.say("gpu_visible", visible, **at)
        told.say("gpu_row_remap_failed", 1, gpu="0", gpu_uuid=f"GPU-{cluster}", **at)
    with PrometheusServer(tmp_path_factory.mktemp("namesakes"), openmetrics=told.openmetrics()) as server:
        yield Asked(server)


@pytest.fixture(scope="module")
def nothing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    with PrometheusServer(tmp_path_factory.mktemp("nothing")) as server:
        yield Asked(server)


def test_each_fault_is_a_row_with_where_and_for_how_long(broken: Asked) -> None:
    assert broken(OPERATIONS, "Broken now", "fault", "node", "where") == {
        ("silent", "silent", ""): 1800,
        ("collector", "failing", "nvml"): 3000,
        ("collector", "never", "attribution"): 7200,
        ("reload", "failing", "failing:9836"): 5000,
        ("leader", "", ""): -1,
        ("pass", "", ""): 900,
        ("source", "", "prometheus"): 950,
        ("source", "", "slurm"): -1,
        ("receiver", "", "mail"): 90,
    }


FAULTS = ("Nodes silent", "Collectors", "Sources down", "Stores down", "Receivers failing")


@pytest.mark.parametrize("title", FAULTS)
def test_nothing_is_broken_where_all_is_well(title: str, well: Asked) -> None:
    assert well(OPERATIONS, "Broken now") == {}
    assert well(OPERATIONS, title) == {(): 0}


@pytest.mark.parametrize("title", FAULTS)
def test_silence_is_not_wellness(title: str, nothing: Asked) -> None:
    """Nothing is scraped: no number says 0, and the table says so."""
    assert nothing(OPERATIONS, title) == {}
    assert nothing(OPERATIONS, "Broken now", "fault") == {("alerter",): -1}


def test_numbers_of_faults(broken: Asked) -> None:
    found = {title: broken(OPERATIONS, title)[()] for title in FAULTS}
    assert found == dict(zip(FAULTS, (1, 2, 2, 0, 1), strict=True))
    assert broken(OPERATIONS, "Alerters that lead") == {(): 0}
    assert broken(OPERATIONS, "Nodes answering") == {(): 3}


def test_nodes_of_the_same_name_are_told_apart_by_their_clusters(namesakes: Asked) -> None:
    assert namesakes(OPERATIONS, "Nodes answering") == {(): 2}
    assert namesakes(OPERATIONS, "Nodes silent") == {(): 1}
    assert namesakes(OPERATIONS, "Broken now", "fault", "cluster", "node", "where") == {
        ("silent", "b", "n1", ""): 1800,
        ("collector", "a", "n1", "nvml"): 3000,
        ("collector", "c", "n1", "nvml"): 3000,
        ("reload", "a", "n1", "n1a:9836"): 5000,
        ("reload", "c", "n1", "n1c:9836"): 5000,
        ("alerter", "", "", ""): -1,
    }
    assert namesakes(FLEET, "Lost GPUs") == {(): 1}
    assert namesakes(FLEET, "GPUs with faults") == {(): 2}
    assert namesakes(FLEET, "Faults", "cluster", "node", "gpu", kind="table") == {
        ("a", "n1", "0"): 1,
        ("c", "n1", "0"): 1,
    }


@pytest.mark.parametrize("title", ["Critical", "Faults", "Warnings", "Nobody's yet", "Waste"])
def test_no_incident_is_0_and_no_alerter_is_no_number(title: str, well: Asked, nothing: Asked) -> None:
    assert well(INCIDENTS, title) == {(): 0}
    assert nothing(INCIDENTS, title) == {}


def test_two_alerters_tell_of_the_same_incidents(broken: Asked) -> None:
    numbers = {title: broken(INCIDENTS, title)[()] for title in ("Critical", "Faults", "Warnings", "Oldest", "Waste")}
    assert numbers == {"Critical": 2, "Faults": 1, "Warnings": 1, "Oldest": 3 * 3600, "Waste": 3}
    rules = {("idle",): 1, ("gpu_fault",): 1}
    assert broken(INCIDENTS, "By rule and severity", "rule") == rules | {("uneven",): 1}
    assert broken(INCIDENTS, "By rule and severity", "rule", place=1) == rules
    assert broken(INCIDENTS, "Faults of GPUs and nodes", "incident") == {("3",): 3 * 3600}
    ages = {("1", "alice"): 3600, ("2", "bob"): 2 * 3600}
    assert broken(INCIDENTS, "Jobs", "incident", "user") == ages
    assert broken(INCIDENTS, "Jobs", "incident", "user", place=1) == {("1", "alice"): 1, ("2", "bob"): 2}


def test_what_became_of_incidents_is_counted_by_one_of_them(broken: Asked) -> None:
    title = "Opened and resolved, by rule"
    about = pytest.approx(6, rel=0.02)
    assert broken(INCIDENTS, title, "rule") == {("idle",): about}
    assert broken(INCIDENTS, title, "rule", place=2) == {("idle",): about}
    assert broken(INCIDENTS, title, "rule", place=3) == {("idle",): pytest.approx(600)}
    assert broken(INCIDENTS, title, "rule", place=4) == {("idle",): pytest.approx(840)}
    assert broken(INCIDENTS, "Waste by rule", "rule") == {
        ("idle",): pytest.approx(6 + 1, rel=0.02),
        ("uneven",): 2,
    }
