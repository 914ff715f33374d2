"""Everything that Apprise can send to. The one module that imports it, and only where such a receiver is configured."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING

from dutycycle_alerter.credentials import secret_lines
from dutycycle_alerter.errors import ConfigError, DeliveryError, SourceError
from dutycycle_alerter.incidents.model import State
from dutycycle_alerter.notify.model import Composer, Parcel, Receipt
from dutycycle_alerter.settings.notify import Apprise as Settings

if TYPE_CHECKING:
    from apprise import Apprise

_TIMEOUT = 30.0
"""Seconds for one service."""
_LONGEST = 8192
"""Characters of a URL: Apprise takes time that grows with their square."""
_SCHEMA = re.compile(r"([A-Za-z][A-Za-z0-9+.-]{0,30}):")


class AppriseReceiver:
    """Implements `notify.model.Receiver`. Services are told one after the other, and are the addresses of its receipts
    by their place and schema (`1 json`), which hold no secret. Raises ConfigError where Apprise is not installed or an
    URL is not one that it knows.
    """

    def __init__(self, name: str, settings: Settings, composer: Composer) -> None:
        try:
            import apprise  # noqa: PLC0415
        except ImportError as error:
            raise ConfigError(
                f"receiver {name}: Apprise is not installed: in a checkout, pip install '.[apprise]'"
            ) from error
        self._apprise = apprise
        # What it logs names hosts, and at debug level whole URLs, which hold secrets.
        logging.getLogger("apprise").disabled = True
        self._shown = f"{name}: Apprise"
        self._settings = settings
        self._composer = composer
        self._services: dict[str, Apprise] = {}
        try:
            self._urls()
        except DeliveryError as error:
            raise ConfigError(f"receiver {error}") from error

    def deliver(self, parcel: Parcel) -> Receipt:
        """Any kind, to the services that it is not settled for. Raises DeliveryError, which names who did not."""
        urls = self._urls()
        brief = self._composer.brief(parcel)
        body = brief.text if not brief.url or brief.url in brief.text else f"{brief.text}\n\n{brief.url}"
        taken: list[str] = []
        failed: list[str] = []
        for number, url in enumerate(urls, 1):
            name = _named(number, url)
            if name in parcel.settled:
                continue
            said = self._services[url].notify(
                body=body,
                title=brief.title,
                notify_type=self._kind(parcel),
                body_format=self._apprise.NotifyFormat.TEXT,
            )
            (taken if said else failed).append(name)
        if failed:
            raise DeliveryError(f"{self._shown}: not accepted by {', '.join(failed)}", addresses=tuple(taken))
        return Receipt(addresses=tuple(taken))

    def close(self) -> None:
        """Nothing is kept open."""

    def _urls(self) -> tuple[str, ...]:
        """The URLs, a file read anew, each with a service made for it. Raises DeliveryError."""
        path = self._settings.urls_file
        try:
            more = () if path is None else secret_lines("urls_file", path)
        except SourceError as error:
            raise DeliveryError(f"{self._shown}: {error}") from error
        urls = tuple(dict.fromkeys((*(url.get_secret_value() for url in self._settings.urls), *more)))
        if not urls:
            raise DeliveryError(f"{self._shown}: urls_file {path}: it contains no URL")
        # Those that go on keep their service, which keeps a distance between two messages.
        self._services = {url: self._services.get(url) or self._service(n, url) for n, url in enumerate(urls, 1)}
        return urls

    def _service(self, number: int, url: str) -> Apprise:
        if len(url) > _LONGEST:
            shown = f"{self._shown}: service {_named(number, url)}"
            raise DeliveryError(f"{shown} has {len(url)} characters: a URL may have at most {_LONGEST}")
        asset = self._apprise.AppriseAsset(
            app_id="Dutycycle",
            app_desc="Dutycycle",
            app_url="",
            async_mode=False,
            http_redirects=False,
            interpret_emojis=False,
            interpret_escapes=False,
            secure_logging=True,
            service_timeout=_TIMEOUT,
            storage_mode="memory",
        )
        one = self._apprise.Apprise(asset=asset)
        try:
            known = one.add(url)
        except Exception:  # noqa: BLE001 - each service takes its URL apart by itself, some with errors of any kind
            known = False
        if not known:
            raise DeliveryError(f"{self._shown}: service {_named(number, url)} is not a URL that Apprise knows")
        return one

    def _kind(self, parcel: Parcel) -> str:
        """The colour or sign that some services show."""
        kinds = self._apprise.NotifyType
        active = [item.incident for item in parcel.items if item.incident.state is not State.RESOLVED]
        if parcel.items and not active:
            return kinds.SUCCESS
        worst = max((incident.severity.rank for incident in active), default=0)
        return (kinds.INFO, kinds.WARNING, kinds.FAILURE)[worst]


def _named(number: int, url: str) -> str:
    """A service without its secrets."""
    schema = _SCHEMA.match(url)
    return f"{number} {schema[1].lower()}" if schema else f"{number}"
