"""The site's Alertmanager: a real one, over TLS, behind a link, and it can be killed."""

from __future__ import annotations

import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.fakes.alertmanager import AlertmanagerServer

from .certificates import Authority
from .fetching import fetch
from .served import Served

_TIMEOUT = 3.0


@dataclass(frozen=True)
class Alert:
    """One, by the number of its incident, with what people read of it: the values of its labels and annotations."""

    incident: int
    text: str


class Alertmanager(Served):
    """A context manager. What it is told is kept in its memory alone: a kill loses every alert."""

    def __init__(self, directory: Path, authority: Authority) -> None:
        self.certificate = authority.certificate("alertmanager")
        directory.mkdir()
        web = self.certificate.write_web_config()
        self.server = AlertmanagerServer(directory, web_config=web, scheme="https")
        super().__init__("alertmanager", self.server)
        # Whoever looks from outside does so while its certificate has expired, too.
        self._context = ssl.create_default_context()
        self._context.check_hostname, self._context.verify_mode = False, ssl.CERT_NONE

    def alerts(self) -> tuple[Alert, ...]:
        """Those that fire. Raises OSError where it does not answer."""
        status, text = fetch(f"{self.server.url}/api/v2/alerts", timeout=_TIMEOUT, context=self._context)
        if status != 200:
            raise OSError(f"/api/v2/alerts: {status}")
        return tuple(read(one) for one in json.loads(text))


def read(alert: Mapping[str, Mapping[str, str]]) -> Alert:
    """One as Alertmanager has it."""
    labels = alert["labels"]
    return Alert(int(labels["incident"]), " ".join([*labels.values(), *alert["annotations"].values()]))
