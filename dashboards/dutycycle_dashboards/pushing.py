"""Dashboards into Grafana: what is missing is made, what differs is written, what is as it should be is left alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from dutycycle_dashboards.comparing import difference
from dutycycle_dashboards.errors import ConflictError, GrafanaError
from dutycycle_dashboards.grafana import Grafana, Stored
from dutycycle_dashboards.inert import inert

Model = dict[str, Any]

FOLDER = "dutycycle"
"""The folder's uid. Its title and where it is are people's business once it is there."""
_MESSAGE = "dutycycle-dashboards push"


class Change(StrEnum):
    """What a push does, or would do."""

    CREATED = "created"
    CHANGED = "changed"
    UNCHANGED = "unchanged"


@dataclass(frozen=True)
class Pushed:
    """One dashboard, or the folder."""

    uid: str
    title: str
    change: Change
    detail: str = ""
    """A difference, or which version it is now."""


def push(
    grafana: Grafana, models: Mapping[str, Model], *, title: str, dry_run: bool, overwrite: bool
) -> Iterator[Pushed]:
    """One dashboard after the other, each said as soon as it is done. An interrupted push is finished by the next."""
    folder = grafana.folder(FOLDER)
    if folder is None and not dry_run:
        grafana.make_folder(FOLDER, title)
    yield Pushed(FOLDER, title, Change.CREATED if folder is None else Change.UNCHANGED, "the folder")
    for uid, model in models.items():
        yield _pushed(grafana, uid, model, dry_run=dry_run, overwrite=overwrite)


def _pushed(grafana: Grafana, uid: str, model: Model, *, dry_run: bool, overwrite: bool) -> Pushed:
    stored = grafana.dashboard(uid)
    name = model["title"]
    differs = "" if stored is None else _differs(stored, model)
    if stored is not None and not differs:
        return Pushed(uid, name, Change.UNCHANGED)
    change = Change.CREATED if stored is None else Change.CHANGED
    if stored is not None and stored.provisioned:
        raise GrafanaError(
            f"the dashboard {uid} comes from a provisioning file of Grafana's and can only be changed there: renew "
            "that file (dutycycle-dashboards render DIR), or remove it and push again"
        )
    if dry_run:
        return Pushed(uid, name, change, differs)
    # Without an id Grafana finds it by its uid; the version says on what this is based.
    sent = {**model, "id": None, "version": 0 if stored is None else stored.version}
    try:
        version = grafana.save(sent, folder=FOLDER, overwrite=overwrite, message=_MESSAGE)
    except ConflictError as error:
        raise ConflictError(
            f"{error}. Push again to see and replace what was written meanwhile (--dry-run shows it), or push with "
            "--overwrite; Grafana keeps the replaced version"
        ) from error
    return Pushed(uid, name, change, "" if version is None else f"version {version}")


def _differs(stored: Stored, model: Model) -> str:
    moved = f"folder: {inert(stored.folder, 60) or '(none)'} -> {FOLDER}" if stored.folder != FOLDER else ""
    return "\n".join(part for part in (moved, difference(stored.model, model)) if part)
