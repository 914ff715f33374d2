"""Dashboards into Grafana: what is missing is made, what differs is written, what is as it should be is left alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from dutycycle_dashboards.errors import ConflictError, GrafanaError, TakenError
from dutycycle_dashboards.publishing.comparing import difference
from dutycycle_dashboards.publishing.grafana import Grafana, Stored
from dutycycle_dashboards.publishing.inert import inert

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
    there = grafana.has_folder(FOLDER)
    present = {uid: grafana.dashboard(uid) for uid in models}
    for uid, stored in present.items():
        # Said before anything is written, not in the middle.
        if stored is not None and stored.provisioned and _differs(stored, models[uid]):
            raise GrafanaError(
                f"the dashboard {uid} comes from a provisioning file of Grafana's and can only be changed there: renew "
                "that file (dutycycle-dashboards render DIR), or remove it and push again"
            )
    detail = "the folder"
    if there is None and dry_run:
        detail += ", unless it is there and the token does not see it"
    elif not there and not dry_run:
        there = not grafana.make_folder(FOLDER, title)
    yield Pushed(FOLDER, title, Change.UNCHANGED if there else Change.CREATED, detail)
    for uid, model in models.items():
        yield _pushed(grafana, model, present[uid], dry_run=dry_run, overwrite=overwrite)


def _pushed(grafana: Grafana, model: Model, stored: Stored | None, *, dry_run: bool, overwrite: bool) -> Pushed:
    uid, name = model["uid"], model["title"]
    differs = "" if stored is None else _differs(stored, model)
    if stored is not None and not differs:
        return Pushed(uid, name, Change.UNCHANGED)
    change = Change.CREATED if stored is None else Change.CHANGED
    if dry_run:
        return Pushed(uid, name, change, differs)
    # Without an id Grafana finds it by its uid; the version says on what this is based.
    sent = {**model, "id": None, "version": 0 if stored is None else stored.version}
    try:
        # Grafana before 11 takes `overwrite` for another dashboard of the same title, too: not before it is needed.
        version = grafana.save(sent, folder=FOLDER, overwrite=False, message=_MESSAGE)
    except TakenError as error:
        raise TakenError(
            f"{error}. Where it is another dashboard of the folder that is called {name!r}, rename or move that one "
            "and push again"
        ) from error
    except ConflictError as error:
        if overwrite:
            version = grafana.save(sent, folder=FOLDER, overwrite=True, message=_MESSAGE)
            return Pushed(uid, name, change, "" if version is None else f"version {version}")
        if _is_as_wanted(grafana, uid, model):
            return Pushed(uid, name, Change.UNCHANGED)
        raise ConflictError(
            f"{error}. Push again to see and replace what was written meanwhile (--dry-run shows it), or push with "
            "--overwrite; Grafana keeps the replaced version"
        ) from error
    return Pushed(uid, name, change, "" if version is None else f"version {version}")


def _is_as_wanted(grafana: Grafana, uid: str, model: Model) -> bool:
    """Whether what somebody else wrote meanwhile, such as another push, is the same."""
    stored = grafana.dashboard(uid)
    return stored is not None and not _differs(stored, model)


def _differs(stored: Stored, model: Model) -> str:
    moved = f"folder: {inert(stored.folder, 60) or '(none)'} -> {FOLDER}" if stored.folder != FOLDER else ""
    newer = "it is in a form of Grafana 13's own, and is replaced"
    changed = newer if stored.newer else difference(stored.model, model)
    return "\n".join(part for part in (moved, changed) if part)
