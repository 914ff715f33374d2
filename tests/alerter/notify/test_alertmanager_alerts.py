"""What Alertmanager is sent: labels, ends, batches, and how often it is composed."""

import json
import re
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dutycycle_alerter.errors import DeliveryError
from dutycycle_alerter.incidents.model import Incident, Severity
from dutycycle_alerter.model import Gpu
from dutycycle_alerter.notify.model import ParcelKind
from dutycycle_alerter.notify.receivers.alertmanager import (
    LONGEST_VALUE,
    MOST_ALERTS,
    MOST_BYTES,
    AlertmanagerReceiver,
    labels_of,
)
from dutycycle_alerter.settings.notify import Alertmanager
from tests.alerter.notify.alerting import LINKS, Receivers, incident, making, parcel
from tests.alerter.notify.listening import PlainComposer, listening
from tests.alerter.web import doubles
from tests.prometheus.server import program


@pytest.fixture
def receivers() -> Iterator[Receivers]:
    yield from making()


def test_what_is_said_is_composed_anew_where_something_changed_and_else_now_and_then() -> None:
    """Of ten thousand incidents it takes longer than the time between two refreshes."""
    composed: list[tuple[int, float]] = []

    class Counting(PlainComposer):
        def annotations(self, incident: Incident) -> Mapping[str, str]:
            composed.append((incident.id, incident.wasted))
            return {"summary": f"{incident.wasted:g}"}

    with listening() as heard:
        now = [1000.0]
        settings = Alertmanager(url=heard.url, refresh=60)
        receiver = AlertmanagerReceiver("site", settings, Counting(), LINKS, clock=lambda: now[0])
        one = incident()
        for turn in range(9):
            receiver.refresh([replace(one, wasted=turn, updated_at=turn)], now[0])
            now[0] += 60
        assert composed == [(one.id, 0)]
        receiver.refresh([replace(one, severity=Severity.CRITICAL, wasted=9)], now[0])
        assert composed[1:] == [(one.id, 9)]
        now[0] += 60 * 20
        receiver.refresh([replace(one, severity=Severity.CRITICAL, wasted=10)], now[0])
        assert composed[2:] == [(one.id, 10)]
        receiver.close()


def test_a_report_is_nothing_for_it(receivers: Receivers) -> None:
    with pytest.raises(DeliveryError, match="accepts alerts, not reports") as error:
        receivers("http://127.0.0.1:1").deliver(parcel(kind=ParcelKind.REPORT))
    assert error.value.permanent


def test_requests_are_bounded(receivers: Receivers) -> None:
    with listening() as heard:
        receiver = receivers(heard.url)
        receiver.deliver(parcel(*(incident() for _ in range(MOST_ALERTS + 1))))
        assert [len(json.loads(request.body)) for request in heard.requests] == [MOST_ALERTS, 1]
        heard.requests.clear()
        large = [incident(**dict.fromkeys(("user", "account", "partition"), "名" * LONGEST_VALUE)) for _ in range(200)]
        receiver.deliver(parcel(*large))
        assert len(heard.requests) > 1
        assert all(len(request.body) <= MOST_BYTES + 2 for request in heard.requests)
        assert sum(len(json.loads(request.body)) for request in heard.requests) == len(large)


def test_what_ended_is_told_once_and_what_goes_on_keeps_its_beginning(receivers: Receivers) -> None:
    """Also for an Alertmanager that was started anew, and has forgotten it."""
    one, other, now = incident(), incident(), time.time()
    with listening() as heard:
        receiver = receivers(heard.url)
        for active, at in (([one, other], now), ([one], now + 60), ([one], now + 120)):
            receiver.refresh(active, at)
        first, second, third = (json.loads(request.body) for request in heard.requests)
    assert [len(alerts) for alerts in (first, second, third)] == [2, 2, 1]
    assert {alert["startsAt"] for alert in (first[0], second[1], third[0])} == {first[0]["startsAt"]}


def test_labels_of_the_site_go_before_ours(receivers: Receivers) -> None:
    with listening() as heard:
        receivers(heard.url, labels={"team": "hpc", "cluster": "lab", "user": ""}).deliver(parcel(incident()))
        assert heard.requests[0].path == "/hooks/gpus/api/v2/alerts"
        (alert,) = json.loads(heard.requests[0].body)
    assert (alert["labels"]["team"], alert["labels"]["cluster"]) == ("hpc", "lab")
    assert "user" not in alert["labels"]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"gpus": (Gpu("a", "0"), Gpu("a", "1"))}, {"node": "a"}),
        ({"gpus": (Gpu("a", "0"), Gpu("b", "1"))}, {}),
        ({"gpus": ()}, {}),
        ({"rule": "gpu_fault"}, {"alertname": "DutycycleGpuFault"}),
        ({"rule": "low_sm_activity"}, {"alertname": "DutycycleLowSmActivity"}),
        ({"user": ""}, {}),
    ],
)
def test_labels(changes: Mapping[str, Any], expected: Mapping[str, str]) -> None:
    found = labels_of(incident(**changes), {})
    assert expected.items() <= found.items()
    assert all(found.values())
    assert ("node" in found) is ("node" in expected or "gpus" not in changes)


@pytest.mark.parametrize(
    ("labels", "goes_to"),
    [
        (labels_of(doubles.incident(), {}), "hpc-chat"),
        (labels_of(doubles.incident(severity=Severity.INFO), {}), "nobody"),
        (
            labels_of(doubles.incident(rule="gpu_fault", subject="gpu/GPU-1", severity=Severity.CRITICAL), {}),
            "hpc-oncall",
        ),
        ({"alertname": "DutycycleTest", "severity": "info"}, "hpc-chat"),
        ({"alertname": "NodeDown", "node": "gpu1"}, "hpc-mail"),
    ],
)
def test_the_documented_routes_are_taken(tmp_path: Path, labels: Mapping[str, str], goes_to: str) -> None:
    example = re.search(
        r"```yaml\n(route:.*?)```", (Path(__file__).parents[3] / "docs/alertmanager.md").read_text(), re.DOTALL
    )
    assert example is not None
    path = tmp_path / "alertmanager.yml"
    path.write_text(example[1])
    command = [program("amtool"), "config", "routes", "test", f"--config.file={path}", f"--verify.receivers={goes_to}"]
    done = subprocess.run(
        [*command, *(f"{name}={value}" for name, value in labels.items())], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
