"""The messages themselves through real receivers: what a mail server and a workspace of Slack get of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dutycycle_alerter.notify.addresses import Addresses
from dutycycle_alerter.notify.links import Links
from dutycycle_alerter.notify.model import Composer, To
from dutycycle_alerter.notify.receivers.email import EmailReceiver
from dutycycle_alerter.notify.receivers.slack import SlackReceiver
from dutycycle_alerter.settings.notify import Email, People, Slack
from tests.alerter.notify.composing.parcels import composition, curves, parcels, weekly
from tests.alerter.notify.composing.test_hostile import HOSTILE
from tests.alerter.notify.composing.test_hostile import parcels as hostile
from tests.fakes.slack.server import SlackServer
from tests.fakes.smtp.server import MailServer

COMPOSER = composition(series=curves, weekly=weekly)
PEOPLE = People(address="{user}@example.org")
CASES = parcels()


@pytest.fixture(scope="module")
def mails() -> Iterator[MailServer]:
    with MailServer() as server:
        yield server


@pytest.fixture(scope="module")
def slack() -> Iterator[SlackServer]:
    with SlackServer() as server:
        server.workspace.add_channel("gpus")
        server.workspace.add_user("alice@example.org")
        yield server


def mailed(server: MailServer, composer: Composer = COMPOSER) -> EmailReceiver:
    settings = Email(
        host=server.host, port=server.port, security="none", sender="gpus@example.org", to=("ops@example.org",)
    )
    return EmailReceiver("mail", settings, Addresses(PEOPLE), composer, Links("https://gpus.example.org", b"k" * 32))


@pytest.mark.parametrize("case", CASES)
def test_a_mail_arrives_as_it_was_composed(mails: MailServer, case: str) -> None:
    parcel, receiver = CASES[case], mailed(mails)
    receiver.deliver(parcel)
    receiver.close()
    received = mails.messages[-1].message
    said = COMPOSER.mail(parcel, unsubscribe=(received["List-Unsubscribe"] or "").strip("<>"))
    assert received["Subject"] == said.subject
    assert received["To"] == ("alice@example.org" if parcel.to.to is To.OWNER else "ops@example.org")
    bodies = {kind: received.get_body((kind,)) for kind in ("plain", "html")}
    assert bodies["plain"] is not None
    assert bodies["plain"].get_content().replace("\r\n", "\n") == said.text
    images = [part for part in received.walk() if part.get_content_type() == "image/png"]
    assert [part.get_content() for part in images] == [picture.png for picture in said.pictures]
    assert bodies["html"] is not None
    html = bodies["html"].get_content()
    for part in images:
        assert f'src="cid:{part["Content-ID"].strip("<>")}"' in html


@pytest.mark.parametrize("name", ["headers", "address", "newlines", "surrogate", "nul"])
def test_hostile_names_make_no_headers(mails: MailServer, name: str) -> None:
    receiver = mailed(mails, composition())
    for parcel in hostile(HOSTILE[name])[1:4]:
        receiver.deliver(parcel)
        received = mails.messages[-1].message
        assert received["Bcc"] is None
        assert received["To"] == "ops@example.org"
        assert not received.defects
    receiver.close()


@pytest.mark.parametrize("case", CASES)
def test_slack_takes_every_message(slack: SlackServer, tmp_path: Path, case: str) -> None:
    token = tmp_path / "token"
    token.write_text(slack.token)
    settings = Slack.model_validate({"url": slack.url, "token_file": token, "channel": "#gpus"})
    receiver = SlackReceiver("slack", settings, Addresses(PEOPLE), COMPOSER)
    before = len(slack.calls)
    receiver.deliver(CASES[case])
    receiver.close()
    assert "chat.postMessage" in [call.method for call in slack.calls[before:]]
