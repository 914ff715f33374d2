"""A real Alertmanager shows, silences and ends our alerts, whatever is in their labels."""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from dutycycle_alerter.incidents.model import Incident, Severity, State
from dutycycle_alerter.model import Gpu
from dutycycle_alerter.notify.composing.composition import Composition
from dutycycle_alerter.notify.model import ParcelKind
from dutycycle_alerter.notify.receivers.alertmanager import (
    LONGEST_VALUE,
    MOST_ALERTS,
    AlertmanagerReceiver,
    labels_of,
)
from dutycycle_alerter.settings import Settings
from dutycycle_alerter.settings.notify import Alertmanager
from tests.alerter.notify.alerting import LINKS, Receivers, ids, incident, making, of, parcel, resolved
from tests.alerter.notify.listening import Listening, listening
from tests.alerter.web import doubles
from tests.fakes.alertmanager import AlertmanagerServer, matcher, until


@pytest.fixture
def receivers() -> Iterator[Receivers]:
    yield from making()


@pytest.fixture(scope="module")
def told() -> Iterator[Listening]:
    """Whom Alertmanager tells."""
    with listening() as heard:
        yield heard


@pytest.fixture(scope="module")
def alertmanager(tmp_path_factory: pytest.TempPathFactory, told: Listening) -> Iterator[AlertmanagerServer]:
    with AlertmanagerServer(tmp_path_factory.mktemp("alertmanager"), told.url) as server:
        yield server


@pytest.fixture
def receiver(receivers: Receivers, alertmanager: AlertmanagerServer) -> AlertmanagerReceiver:
    return receivers(alertmanager.url)


def test_an_incident_is_an_alert_with_its_labels(
    alertmanager: AlertmanagerServer, receiver: AlertmanagerReceiver
) -> None:
    one = incident(account="ml", partition="a100", namespace="")
    receiver.deliver(parcel(one))
    (alert,) = alertmanager.alerts(of(one))
    assert alert["labels"] == {
        "alertname": "DutycycleIdle",
        "severity": "warning",
        "rule": "idle",
        "incident": str(one.id),
        "subject": one.subject,
        "cluster": one.cluster,
        "scheduler": "slurm",
        "user": "alice",
        "account": "ml",
        "partition": "a100",
        "node": "gpu1",
    }
    assert alert["annotations"] == {"summary": "alice: All 8 GPUs are idle", "description": "Cancel the job."}
    assert alert["generatorURL"] == f"https://gpus.example.org/incidents/{one.id}"
    assert alert["status"]["state"] in ("unprocessed", "active")


@pytest.mark.parametrize("label", ["rule", "user", "subject", "incident", "cluster"])
def test_a_silence_on_a_label_holds(
    alertmanager: AlertmanagerServer, receiver: AlertmanagerReceiver, label: str
) -> None:
    one = incident(user=f"u{label}", rule=f"idle_{label}")
    receiver.deliver(parcel(one))
    alertmanager.silence({label: labels_of(one, {})[label]})
    assert [alert["status"]["state"] for alert in alertmanager.alerts(of(one))] == ["suppressed"]


@pytest.mark.parametrize(
    ("after", "fires"),
    [
        (resolved, False),
        (lambda one: replace(one, state=State.SNOOZED, snoozed_until=time.time() + 3600), False),
        (lambda one: replace(one, state=State.ACKNOWLEDGED, actor="bob"), True),
    ],
    ids=["resolved", "snoozed", "acknowledged"],
)
@pytest.mark.parametrize("known", [True, False], ids=["same alerter", "another alerter"])
def test_what_people_and_the_engine_do_is_seen(
    alertmanager: AlertmanagerServer,
    receivers: Receivers,
    after: Callable[[Incident], Incident],
    fires: bool,
    known: bool,
) -> None:
    """Also by an alerter that has not sent the alert itself."""
    one, receiver = incident(), receivers(alertmanager.url)
    receiver.deliver(parcel(one))
    (receiver if known else receivers(alertmanager.url)).deliver(parcel(after(one)))
    assert bool(alertmanager.alerts(of(one))) is fires


def test_an_end_counts_also_where_alertmanagers_clock_is_behind(
    alertmanager: AlertmanagerServer, receivers: Receivers
) -> None:
    one, ahead = incident(), time.time() + 30
    receiver = receivers(alertmanager.url, clock=lambda: ahead)
    receiver.deliver(parcel(one))
    receiver.deliver(parcel(replace(one, state=State.RESOLVED, resolved_at=ahead)))
    assert alertmanager.alerts(of(one)) == []


def test_an_incident_that_wakes_fires_again(alertmanager: AlertmanagerServer, receiver: AlertmanagerReceiver) -> None:
    one = incident()
    for state, fires in ((State.OPEN, 1), (State.SNOOZED, 0), (State.OPEN, 1)):
        receiver.deliver(parcel(replace(one, state=state)))
        assert len(alertmanager.alerts(of(one))) == fires


def test_other_labels_are_another_alert_and_the_old_one_ends(
    alertmanager: AlertmanagerServer, receiver: AlertmanagerReceiver
) -> None:
    one = incident()
    receiver.deliver(parcel(one))
    for changed in (replace(one, severity=Severity.CRITICAL), replace(one, rule="hung", severity=Severity.CRITICAL)):
        receiver.refresh([changed], time.time())
        assert [alert["labels"] for alert in alertmanager.alerts(of(one))] == [labels_of(changed, {})]


def test_what_is_refreshed_goes_on_and_what_is_not_ends_by_itself(
    alertmanager: AlertmanagerServer, receivers: Receivers
) -> None:
    one, other = incident(), incident()
    receivers(alertmanager.url, refresh=0.1).deliver(parcel(one, other))
    receivers(alertmanager.url).refresh([one], time.time())
    until(lambda: not alertmanager.alerts(of(other)))
    assert alertmanager.alerts(of(one))


def test_a_refresh_ends_what_is_not_to_fire_any_more(
    alertmanager: AlertmanagerServer, receiver: AlertmanagerReceiver
) -> None:
    """It was resolved and nobody told it here, or the routes are others now."""
    one, other, snoozed = incident(), incident(), incident()
    receiver.refresh([one, other, snoozed], time.time())
    receiver.refresh([one, replace(snoozed, state=State.SNOOZED)], time.time() + 0.001)
    assert [len(alertmanager.alerts(of(each))) for each in (one, other, snoozed)] == [1, 0, 0]


def test_a_refresh_leaves_alone_what_was_told_after_the_store_was_read(
    alertmanager: AlertmanagerServer, receiver: AlertmanagerReceiver
) -> None:
    one, read_at = incident(), time.time()
    receiver.deliver(parcel(one))
    receiver.refresh([], read_at)
    assert alertmanager.alerts(of(one))


def test_a_test_is_an_alert_of_its_own(alertmanager: AlertmanagerServer, receivers: Receivers) -> None:
    receivers(alertmanager.url, labels={"team": "hpc"}).deliver(parcel(kind=ParcelKind.TEST))
    (alert,) = alertmanager.alerts('alertname="DutycycleTest"')
    assert alert["labels"] == {"alertname": "DutycycleTest", "severity": "info", "team": "hpc"}
    assert alert["annotations"]["summary"] == "All 8 GPUs are idle"


HOSTILE = (
    'a"b\\c{d}=~e,f',
    "a\nb\r\nc\td",
    "a\u202eb\u2066c",
    "a\0b\x1bc\x7f",
    "\ud800",
    "<script>alert(1)</script> {{ .Labels }}",
    "ünï 名前 🖥",
    ".*",
    "x" * 2**20,
    "名" * 2**20,
)


@pytest.mark.parametrize(
    "text",
    HOSTILE,
    ids=["quotes", "lines", "directions", "control", "surrogate", "markup", "unicode", "regex", "1 MB", "3 MB"],
)
def test_hostile_values_are_taken_and_can_be_matched_and_silenced(
    alertmanager: AlertmanagerServer, receiver: AlertmanagerReceiver, text: str
) -> None:
    one = incident(user=text, account=text, namespace=text, partition=text, gpus=(Gpu(text, "0"),))
    receiver.deliver(parcel(one))
    (alert,) = alertmanager.alerts(of(one))
    assert alert["labels"] == labels_of(one, {})
    shown = alert["labels"]["user"]
    assert shown.isprintable()
    assert len(shown) <= LONGEST_VALUE
    assert [found["labels"]["incident"] for found in alertmanager.alerts(matcher("user", shown))] == [str(one.id)]
    alertmanager.silence({"user": shown})
    assert [found["status"]["state"] for found in alertmanager.alerts(of(one))] == ["suppressed"]


def test_what_is_said_of_hostile_incidents_is_taken(alertmanager: AlertmanagerServer) -> None:
    many = [replace(doubles.incident(text), id=next(ids), cluster="said") for text in HOSTILE]
    receiver = AlertmanagerReceiver(
        "site", Alertmanager(url=alertmanager.url), Composition(Settings(), LINKS), LINKS, clock=time.time
    )
    receiver.deliver(parcel(*many))
    receiver.close()
    alerts = alertmanager.alerts('cluster="said"')
    assert len(alerts) == len(many)
    for alert in alerts:
        assert alert["annotations"].keys() >= {"summary", "description", "incident_url"}
        assert alert["annotations"]["summary"].isprintable()
        assert sum(map(len, alert["annotations"].values())) < 20_000


def test_a_thousand_incidents_are_one_group_that_fires_and_is_resolved(
    alertmanager: AlertmanagerServer, told: Listening, receiver: AlertmanagerReceiver
) -> None:
    """Their own labels do not keep them apart, nor does it that they come in several requests."""
    many = [replace(incident(), cluster="storm", rule="storm", user=f"u{n}") for n in range(2 * MOST_ALERTS + 1)]

    def messages() -> list[Any]:
        heard = [json.loads(request.body) for request in told.requests]
        return [one for one in heard if one["groupLabels"] == {"alertname": "DutycycleStorm", "cluster": "storm"}]

    receiver.refresh(many, time.time())
    until(lambda: len(many) in [len(one["alerts"]) for one in messages()])
    receiver.deliver(parcel(*map(resolved, many)))

    def ended() -> set[str]:
        alerts = [alert for one in messages() for alert in one["alerts"]]
        return {alert["labels"]["user"] for alert in alerts if alert["status"] == "resolved"}

    until(lambda: ended() == {one.user for one in many})


def test_an_alert_begins_when_it_is_first_sent(alertmanager: AlertmanagerServer, receivers: Receivers) -> None:
    """Else Alertmanager would not wait for others of the group. It keeps its beginning when it is refreshed, by another
    alerter, too.
    """
    one, receiver, before = incident(), receivers(alertmanager.url), time.time()
    receiver.deliver(parcel(one))
    (first,) = alertmanager.alerts(of(one))
    assert datetime.fromisoformat(first["startsAt"]).timestamp() == pytest.approx(before, abs=60)
    for again in (receiver, receivers(alertmanager.url)):
        again.refresh([one], time.time())
        (alert,) = alertmanager.alerts(of(one))
        assert alert["startsAt"] == first["startsAt"]
        assert alert["endsAt"] > first["endsAt"]
