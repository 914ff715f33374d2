"""The site's Alertmanager shows what it was told through its link, and forgets it when it is killed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.chaos import clocks, probes
from benchmarks.chaos.alertmanager import Alertmanager, read
from benchmarks.chaos.certificates import Authority
from benchmarks.chaos.clocks import SteppedClock
from dutycycle_alerter.errors import DeliveryError
from dutycycle_alerter.notify.receivers.alertmanager import AlertmanagerReceiver
from dutycycle_alerter.settings.notify import Alertmanager as Settings
from tests.alerter.notify.alerting import LINKS, incident, parcel
from tests.alerter.notify.listening import PlainComposer

from .evidence import clean, violations


def firing(site: Alertmanager) -> list[int]:
    return [alert.incident for alert in site.alerts()]


def test_it_shows_what_fires_until_it_is_killed_and_its_certificate_expires_in_use(tmp_path: Path) -> None:
    with SteppedClock(tmp_path / "clock", clocks.build(tmp_path)) as clock:
        authority = Authority(tmp_path / "certificates", clock)
        with Alertmanager(tmp_path / "alertmanager", authority) as site:
            settings = Settings(url=site.url, ca_file=authority.chain)
            receiver = AlertmanagerReceiver("alerts", settings, PlainComposer(), LINKS)
            one = incident()
            receiver.deliver(parcel(one))
            [alert] = site.alerts()
            assert alert.incident == one.id
            assert "Cancel the job." in alert.text
            assert probes.expired(site.link.port, authority.chain) is False
            site.certificate.become(expired=True)
            site.link.drop()
            assert probes.expired(site.link.port, authority.chain) is True
            with pytest.raises(DeliveryError, match="expired"):
                receiver.deliver(parcel(one))
            assert firing(site) == [one.id]
            site.certificate.become(expired=False)
            site.server.kill()
            with pytest.raises(OSError, match="refused"):
                site.alerts()
            site.server.start()
            assert firing(site) == []
            receiver.deliver(parcel(one))
            assert firing(site) == [one.id]
            receiver.close()


def test_what_an_alert_says_is_read_as_people_read_it() -> None:
    labels = {"incident": "7", "user": "trudy\x1b[2J"}
    alert = read({"labels": labels, "annotations": {"summary": "idle"}})
    assert (alert.incident, alert.text) == (7, "7 trudy\x1b[2J idle")
    said = replace(clean(), answers=(("alert of incident 7", alert.text),), unprintable=("\x1b[2J",))
    assert [(one.promise, one.subject) for one in violations(said)] == [
        ("untrusted text does nothing", "alert of incident 7")
    ]
