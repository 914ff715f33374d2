"""The composer's own messages, mailed: what arrives is what it said, and every picture is found."""

from __future__ import annotations

import re

import pytest

from dutycycle_alerter.notify.addresses import Addresses
from dutycycle_alerter.notify.links import Links
from dutycycle_alerter.notify.model import To
from dutycycle_alerter.notify.receivers.email import EmailReceiver
from dutycycle_alerter.settings.notify.people import People
from dutycycle_alerter.settings.notify.receivers import Email
from tests.alerter.notify.composing.parcels import composition, curves, parcels, weekly
from tests.alerter.notify.mailing import Says
from tests.fakes.smtp import MailServer

CASES = parcels()
COMPOSER = composition(series=curves, weekly=weekly)


@pytest.mark.parametrize("case", CASES)
def test_what_is_composed_arrives(case: str, mail_server: MailServer) -> None:
    sent = CASES[case]
    settings = Email(host=mail_server.host, port=mail_server.port, security="none", to=("ops@example.org",))
    people = Addresses(People(address="{user}@example.org"))
    links = Links("https://gpus.example.org", b"k" * 32)
    said = COMPOSER.mail(sent)
    receipt = EmailReceiver("mail", settings, people, Says(said), links).deliver(sent)

    [received] = mail_server.messages
    assert received.recipients == receipt.addresses
    assert receipt.addresses == ("alice@example.org" if sent.to.to is To.OWNER else "ops@example.org",)
    assert set(receipt.threads) == {item.incident.id for item in sent.items}
    mail = received.message
    assert mail["Subject"] == said.subject
    parts = list(mail.walk())
    text, html = (part.get_content().replace("\r\n", "\n") for part in parts if part.get_content_maintype() == "text")
    assert text.removesuffix("\n") == said.text.removesuffix("\n")
    pictures = {part["Content-ID"].strip("<>"): part.get_content() for part in parts if part["Content-ID"]}
    assert re.findall(r'src="(.*?)"', html) == [f"cid:{reference}" for reference in pictures]
    assert list(pictures.values()) == [picture.png for picture in said.pictures]
    assert all(png.startswith(b"\x89PNG") for png in pictures.values())
    assert pictures or case not in ("idle-owner", "three", "weekly")
    for reference, picture in zip(pictures, said.pictures, strict=True):
        html = html.replace(f"cid:{reference}", f"cid:{picture.name}")
    assert html.removesuffix("\n") == said.html.removesuffix("\n")
    unsubscribed = sent.to.to is To.OWNER and sent.items[0].incident.severity.value != "critical"
    assert ("List-Unsubscribe" in mail) is unsubscribed
