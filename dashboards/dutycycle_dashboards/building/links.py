"""Links: from one dashboard to another with the time range and the filters kept, and to the alerter's page."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

DATASOURCE: dict[str, Any] = {"type": "prometheus", "uid": "${datasource}"}

FLEET, USERS, USER, JOB, NODE, INCIDENTS, OPERATIONS = (
    f"dutycycle-{name}" for name in ("fleet", "users", "user", "job", "node", "incidents", "operations")
)
TAG = "dutycycle"


@dataclass(frozen=True, slots=True)
class Link:
    """From a value. `variables` of the dashboard `uid` are set to fields of the row (their titles) or, written
    `{{label}}`, to labels of the series; `keep` are variables that both dashboards have. Without a uid it leads to
    `path` of the alerter's page, where `{TITLE}` is a field of the row.
    """

    title: str
    uid: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)
    keep: tuple[str, ...] = ("datasource",)
    path: str = ""

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields of the row that it reads, by their titles."""
        sources = (source for source in self.variables.values() if not source.startswith("{{"))
        return (*sources, *re.findall(r"{(.+?)}", self.path))

    def model(self) -> dict[str, Any]:
        """As a data link of Grafana's."""
        if not self.uid:
            return {"title": self.title, "url": self._page(), "targetBlank": True}
        kept = [f"${{{name}:queryparam}}" for name in self.keep]
        chosen = [f"var-{name}={_value(source)}" for name, source in self.variables.items()]
        return {"title": self.title, "url": f"/d/{self.uid}?{'&'.join([*chosen, *kept, '${__url_time_range}'])}"}

    def _page(self) -> str:
        path = self.path.replace("{", '${__data.fields["').replace("}", '"]:percentencode}')
        return "${alerter:raw}" + path


def _value(source: str) -> str:
    if source.startswith("{{"):
        return f"${{__field.labels.{source[2:-2]}:percentencode}}"
    return f'${{__data.fields["{source}"]:percentencode}}'
