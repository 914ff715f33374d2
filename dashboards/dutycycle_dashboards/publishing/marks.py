"""An incident as an annotation of Grafana's: when, what, and the tags by which dashboards and we ourselves find it.

Grafana keeps a tag as a key and a value of at most 100 characters each, takes a second colon in it as the value's end,
and refuses more than 500 characters of tags (`tags_length`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from dutycycle_dashboards.publishing.inert import inert

TAG = "dutycycle"
_VALUE = 100
_TAGS = 490
"""Characters of all tags with their quotes and commas, a little less than Grafana takes."""
_FIRST = 2
"""Workloads that come before the nodes; a dashboard asks for any of a job's, so one is enough to find it."""
_TEXT = 300
_NAME = 80


@dataclass(frozen=True)
class Mark:
    """One annotation. Times are in ms since 1970; `end` is None while the incident is not resolved."""

    key: tuple[str, str]
    """The incident's number and cluster: what tells it from every other."""
    start: int
    end: int | None
    text: str
    tags: tuple[str, ...]

    def fields(self) -> dict[str, Any]:
        """As Grafana wants a new one."""
        fields: dict[str, Any] = {"time": self.start, "tags": list(self.tags), "text": self.text}
        return fields if self.end is None else fields | {"timeEnd": self.end}


def mark(incident: Mapping[str, Any]) -> Mark:
    """The annotation of an incident of the alerter's API. Raises ValueError where its times are none."""
    start = _milliseconds(incident["started_at"])
    if start <= 0:
        raise ValueError("Grafana has no time before 1970")
    resolved = incident.get("resolved_at")
    end = None if resolved is None else max(start, _milliseconds(resolved))
    cluster = _value(incident.get("cluster"))
    return Mark((str(incident["id"]), cluster), start, end, _text(incident, resolved=end is not None), _tags(incident))


def key_of(tags: object) -> tuple[str, str] | None:
    """Which incident an annotation with these tags is of; None where it is none of ours."""
    if not isinstance(tags, list | tuple) or TAG not in tags:
        return None
    found: dict[str, str] = {}
    for tag in tags:
        key, _, value = str(tag).partition(":")
        found.setdefault(key, value)
    return (found["incident"], found.get("cluster", "")) if found.get("incident") else None


def _tags(incident: Mapping[str, Any]) -> tuple[str, ...]:
    """Those that identify it first: where there is no room for all, the last are left out."""
    found, room = [], _TAGS
    for name, value in _pairs(incident):
        tag = f"{name}:{value}" if value else name
        size = len(tag.encode()) + 3
        if tag not in found and size <= room:
            found.append(tag)
            room -= size
    return tuple(found)


def _pairs(incident: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield TAG, ""
    for name, value in (("incident", incident["id"]), ("cluster", incident.get("cluster"))):
        if _value(value):
            yield name, _value(value)
    for name in ("rule", "severity", "user"):
        if _value(incident.get(name)):
            yield name, _value(incident[name])
    # One that had to be cut or changed would be found by nobody.
    workloads = [("workload", one) for one in _workloads(incident) if one == _value(one)]
    nodes = sorted({str(gpu["node"]) for gpu in _gpus(incident) if gpu.get("node")})
    yield from workloads[:_FIRST]
    yield from (("node", _value(node)) for node in nodes)
    yield from workloads[_FIRST:]


def _workloads(incident: Mapping[str, Any]) -> list[str]:
    found = {str(gpu["workload"]) for gpu in _gpus(incident) if gpu.get("workload")}
    subject = str(incident.get("subject") or "")
    return sorted(found) or [subject] * subject.startswith(("slurm/", "k8s/"))


def _gpus(incident: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    gpus = incident.get("gpus")
    return [gpu for gpu in gpus[:10_000] if isinstance(gpu, dict)] if isinstance(gpus, list) else []


def _value(value: object) -> str:
    """As Grafana keeps it: of two tags that become the same one, one is kept."""
    return inert(str(value if value is not None else "")[: _VALUE + 1].replace(":", "_"), _VALUE)


def _text(incident: Mapping[str, Any], *, resolved: bool) -> str:
    """What changes with every pass, such as hours wasted so far, has no place in it until the incident is over."""

    def named(key: str, limit: int = _NAME) -> str:
        value = incident.get(key)
        return inert(str(value)[: limit + 1], limit) if value else ""

    parts = [": ".join(part for part in (named("title"), named("subject")) if part) or "Incident"]
    if named("user"):
        parts.append(f"of {named('user')}")
    parts.append(f"({named('severity', 20)}, incident {incident['id']})" if named("severity") else "")
    if resolved:
        wasted = incident.get("wasted_gpu_hours")
        hours = f", {wasted:,.1f} GPU-hours wasted" if isinstance(wasted, int | float) and wasted >= 0.05 else ""
        parts.append(f"resolved: {named('resolution', 40) or 'over'}{hours}")
    return inert(" ".join(part for part in parts if part), _TEXT)


def _milliseconds(moment: object) -> int:
    if not isinstance(moment, str):
        raise ValueError("a time is not a text")  # noqa: TRY004 - of an answer, as a text that is no time is
    return round(datetime.fromisoformat(moment).timestamp() * 1000)
