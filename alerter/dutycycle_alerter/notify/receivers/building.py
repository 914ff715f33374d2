"""Makes the configured receivers. Each kind's module, and what it needs, is imported only where it is configured."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from dutycycle_alerter.errors import ConfigError
from dutycycle_alerter.notify.addresses import Addresses
from dutycycle_alerter.notify.links import Links
from dutycycle_alerter.notify.model import Composer, Receiver
from dutycycle_alerter.settings.notify import Notify, ReceiverSettings

_PACKAGE = "dutycycle_alerter.notify.receivers"
_CLASSES = {
    "email": "EmailReceiver",
    "slack": "SlackReceiver",
    "slack_webhook": "SlackWebhookReceiver",
    "alertmanager": "AlertmanagerReceiver",
    "webhook": "WebhookReceiver",
    "apprise": "AppriseReceiver",
}
_PEOPLE = frozenset({"email", "slack"})
_LINKS = frozenset({"email", "alertmanager"})
_CLOCK = frozenset({"alertmanager", "webhook"})


def receivers(
    notify: Notify, composer: Composer, links: Links, *, clock: Callable[[], float]
) -> Mapping[str, Receiver]:
    """Every receiver by its name. `clock` tells Unix seconds. Raises ConfigError that names the receiver and the key
    where one cannot be used as it is configured.
    """
    # Read once, whoever asks for an address.
    people = Addresses(notify.people)
    made: dict[str, Receiver] = {}
    try:
        for settings in notify.receivers:
            made[settings.name] = _receiver(settings, people, composer, links, clock)
    except BaseException:
        for receiver in made.values():
            receiver.close()
        raise
    return made


def _receiver(
    settings: ReceiverSettings, people: Addresses, composer: Composer, links: Links, clock: Callable[[], float]
) -> Receiver:
    kind = settings.kind
    own = getattr(settings, kind)
    _check_files(settings.name, kind, own)
    made: Callable[..., Receiver] = getattr(import_module(f"{_PACKAGE}.{kind}"), _CLASSES[kind])
    arguments = [*([people] if kind in _PEOPLE else []), composer, *([links] if kind in _LINKS else [])]
    return made(settings.name, own, *arguments, **({"clock": clock} if kind in _CLOCK else {}))


def _check_files(name: str, kind: str, own: Any) -> None:
    """A file that is missing at the start is a mistake; one that is missing later may be about to be replaced."""
    for key in type(own).model_fields:
        path = getattr(own, key) if key.endswith("_file") else None
        if path is None:
            continue
        try:
            with path.open("rb") as file:
                file.read(1)
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise ConfigError(f"receiver {name}: {kind}.{key}: {path} cannot be read: {reason}") from error
