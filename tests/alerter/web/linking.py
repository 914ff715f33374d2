"""Links of messages to a site, as a browser asks for them."""

from __future__ import annotations

from urllib.parse import urlsplit

from dutycycle_alerter.notify.links import Action, Links
from dutycycle_alerter.notify.model import Recipient, To
from tests.alerter.web.conftest import KEY, Live

PUBLIC = "https://gpus.example.org"
LINKS = Links(PUBLIC, KEY)
ALICE = Recipient(To.OWNER, "alice")


def path(url: str) -> str:
    return urlsplit(url).path


def of_alice(live: Live, action: Action, to: Recipient = ALICE) -> str:
    return path(LINKS.action(live.incident_of("alice"), action, to, now=live.now))
