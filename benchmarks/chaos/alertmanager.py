"""The site's Alertmanager: a real one, over TLS, behind a link, and it can be killed."""

from __future__ import annotations

import json
import ssl
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.fakes.alertmanager import AlertmanagerServer

from .certificates import Authority
from .fetching import fetch
from .links import Link

_TIMEOUT = 3.0


@dataclass(frozen=True)
class Alert:
    """One, by the number of its incident, with what it says as JSON: labels and annotations."""

    incident: int
    text: str


class Alertmanager:
    """A context manager. What it is told is kept in its memory alone: a kill loses every alert."""

    def __init__(self, directory: Path, authority: Authority) -> None:
        self._stack = ExitStack()
        self.certificate = authority.certificate("alertmanager")
        directory.mkdir()
        web = self.certificate.write_web_config()
        self.server = AlertmanagerServer(directory, web_config=web, scheme="https")
        # Whoever looks from outside does so while its certificate has expired, too.
        self._context = ssl.create_default_context()
        self._context.check_hostname, self._context.verify_mode = False, ssl.CERT_NONE

    def __enter__(self) -> Self:
        self._stack.enter_context(self.server)
        self.link = self._stack.enter_context(Link("alertmanager", int(self.server.url.rpartition(":")[2])))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def url(self) -> str:
        """As alerters reach it."""
        return f"https://127.0.0.1:{self.link.port}"

    def alerts(self) -> tuple[Alert, ...]:
        """Those that fire. Raises OSError where it does not answer."""
        status, text = fetch(f"{self.server.url}/api/v2/alerts", timeout=_TIMEOUT, context=self._context)
        if status != 200:
            raise OSError(f"/api/v2/alerts: {status}")
        return tuple(Alert(int(one["labels"]["incident"]), _said(one)) for one in json.loads(text))


def _said(alert: Mapping[str, object]) -> str:
    return json.dumps([alert["labels"], alert["annotations"]])
