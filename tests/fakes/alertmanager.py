"""A real Alertmanager on loopback. `make` puts its program beside the virtual environment's interpreter."""

from __future__ import annotations

import json
import re
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.prometheus.server import PATIENCE, Server, find
from tests.required import lacking

_PROGRAM = "prometheus-alertmanager"
_TEMPLATES = Path("/usr/share/prometheus/alertmanager/default.tmpl")
_CONFIGURATION = """\
route: {{receiver: site, group_by: [alertname, cluster], group_wait: 200ms, group_interval: 200ms, repeat_interval: 1h}}
receivers:
  - name: site
    webhook_configs: {told}
"""


def missing() -> list[str]:
    """What it needs and this machine lacks."""
    return [name for name, there in ((_PROGRAM, find(_PROGRAM)), (str(_TEMPLATES), _TEMPLATES.exists())) if not there]


class AlertmanagerServer(Server):
    """Alertmanager in `directory`, which tells `webhook`, or nobody, of everything, by alertname and cluster, almost at
    once.

    `web_config` is a file for --web.config.file; with TLS in it give `scheme="https"`, and ask it yourself.
    """

    def __init__(
        self,
        directory: Path,
        webhook: str | None = None,
        *,
        web_config: Path | None = None,
        scheme: str = "http",
    ) -> None:
        super().__init__(directory, _PROGRAM)
        self._config = directory / "alertmanager.yml"
        told = "[]" if webhook is None else f'[{{url: "{webhook}", send_resolved: true}}]'
        self._config.write_text(_CONFIGURATION.format(told=told))
        self._flags = [] if web_config is None else [f"--web.config.file={web_config}"]
        self._scheme = scheme
        self._port = 0

    def start(self) -> None:
        if not _TEMPLATES.exists():
            lacking(f"{_TEMPLATES}, which Debian's Alertmanager reads,")
        said = len(self.log)
        self._launch(
            f"--config.file={self._config}",
            f"--storage.path={self.directory / 'data'}",
            f"--web.listen-address=127.0.0.1:{self._port}",
            "--cluster.listen-address=",
            *self._flags,
        )
        # With port 0 the kernel chose one; a later start takes the same.
        listening = re.compile(r'msg="Listening on" address=127\.0\.0\.1:(\d+)')
        self._until(lambda: listening.search(self.log, said), "listening")
        self._port = int(listening.findall(self.log)[-1])
        self.url = f"{self._scheme}://127.0.0.1:{self._port}"

    def alerts(self, *matchers: str) -> list[dict[str, Any]]:
        """Those that fire and match all of these (`user="alice"`), silenced ones too."""
        query = urllib.parse.urlencode([("filter", matcher) for matcher in matchers])
        found: list[dict[str, Any]] = self._ask(f"/api/v2/alerts?{query}")
        return found

    def silence(self, labels: Mapping[str, str]) -> None:
        """For an hour, alerts with all of these labels."""
        now = datetime.now(UTC)
        self._ask(
            "/api/v2/silences",
            {
                "matchers": [{"name": name, "value": value, "isRegex": False} for name, value in labels.items()],
                "startsAt": now.isoformat(),
                "endsAt": (now + timedelta(hours=1)).isoformat(),
                "createdBy": "operator",
                "comment": "known",
            },
        )

    def _ask(self, path: str, document: object = None) -> Any:
        body = None if document is None else json.dumps(document).encode()
        request = urllib.request.Request(self.url + path, data=body, headers={"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return json.load(answer)


def matcher(name: str, value: str) -> str:
    """As amtool and Alertmanager's page take it, whatever is in the value."""
    quoted = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'{name}="{quoted}"'


def until(condition: Callable[[], object]) -> None:
    """Waits for what Alertmanager does in its own time."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
