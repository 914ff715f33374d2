"""Secrets that no header can hold: the settings refuse them, and what goes wrong shows nothing of them."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import SecretStr, ValidationError

from dutycycle_alerter.errors import DeliveryError
from dutycycle_alerter.notify.addresses import Addresses
from dutycycle_alerter.notify.model import OPERATORS, Parcel, ParcelKind
from dutycycle_alerter.notify.receivers.slack import SlackReceiver
from dutycycle_alerter.settings.notify import (
    Alertmanager,
    Apprise,
    Email,
    People,
    Slack,
    SlackWebhook,
    Webhook,
)
from dutycycle_alerter.settings.types import Section
from tests.alerter.notify.slack_site import Composer

UNUSABLE = ("tops3cret\n", "tops3cret\r\nX: y", "tops3cr\0et", "tops3cr\x7fet", "top\\s3crét\n", "tops3cret\udcff")


@pytest.mark.parametrize("secret", [*UNUSABLE, ""])
@pytest.mark.parametrize(
    ("section", "key", "others"),
    [
        (Slack, "token", {}),
        (SlackWebhook, "url", {}),
        (Email, "password", {"username": "dutycycle"}),
        (Alertmanager, "bearer_token", {"url": "https://alerts.example.org"}),
        (Alertmanager, "password", {"url": "https://alerts.example.org", "username": "dutycycle"}),
        (Webhook, "secret", {"url": "https://tickets.example.org"}),
        (Apprise, "urls", {}),
    ],
)
def test_the_settings_refuse_them(section: type[Section], key: str, others: dict[str, Any], secret: str) -> None:
    with pytest.raises(ValidationError) as error:
        section.model_validate({key: [secret] if key == "urls" else secret, **others})
    found = error.value.errors(include_url=False, include_input=False, include_context=False)
    assert key in [str(part) for item in found for part in item["loc"]]
    assert "s3cr" not in str(found)


@pytest.mark.parametrize("token", UNUSABLE)
def test_slacks_token_is_not_shown(token: str) -> None:
    """Also where nobody checked the settings."""
    settings = Slack.model_validate({"token": "xoxb-1", "channel": "C1", "url": "http://127.0.0.1:1/api/"})
    unchecked = settings.model_copy(update={"token": SecretStr(token)})
    receiver = SlackReceiver("ops", unchecked, Addresses(People()), Composer())
    with pytest.raises(DeliveryError, match="not one of Slack's") as error:
        receiver.deliver(Parcel("k", ParcelKind.TEST, OPERATORS, (), 1_790_000_000.0))
    assert "s3cr" not in str(error.value)
    receiver.close()
