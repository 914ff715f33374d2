"""What Grafana does with dashboards, folders and annotations: its rules and its words, without the network.

After the handlers of Grafana 10 to 13: a save by uid needs the newest version or `overwrite`; identifiers have 40
characters at most; annotations come back with an end, their tags in the form in which they are kept. Before 11 no two
dashboards of a folder had one title. Grafana 13 answers an Editor who asks about a folder that is not there with 403,
and with 412 where a folder is made that is there.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Model = dict[str, Any]

TAGS_LENGTH = 500
"""`tags_length` of Grafana's configuration, its default."""
_COLUMN = 100
_UID = re.compile(r"[a-zA-Z0-9\-_]*")


class RefusedError(Exception):
    """An answer that is not a success."""

    def __init__(self, status: int, message: str, kind: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.body: Model = {"message": message} | ({"status": kind} if kind else {})


@dataclass
class Dashboard:
    """One dashboard with all its versions, the newest last."""

    number: int
    folder: str
    versions: list[Model] = field(default_factory=list)
    provisioned: bool = False

    def model(self) -> Model:
        """As it is answered: Grafana's own number and version in it."""
        newest = copy.deepcopy(self.versions[-1])
        # What is in the newer form is answered as it is.
        return newest if "apiVersion" in newest else newest | {"id": self.number, "version": len(self.versions)}


class Content:
    """What one organization has."""

    def __init__(self, release: int = 12) -> None:
        self.release = release
        self.folders: dict[str, Model] = {}
        self.dashboards: dict[str, Dashboard] = {}
        self.annotations: dict[int, Model] = {}

    def folder(self, uid: str) -> Model:
        if uid not in self.folders:
            if self.release >= 13:
                message = "You'll need additional permissions to perform this action. Permissions needed: folders:read"
                raise RefusedError(403, message)
            raise RefusedError(404, "folder not found", "not-found")
        return self.folders[uid]

    def make_folder(self, said: Model) -> Model:
        uid, title = _uid(said.get("uid") or f"generated-{len(self.folders)}"), said.get("title")
        if not title:
            raise RefusedError(400, "folder title cannot be empty")
        if uid in self.folders or uid in self.dashboards:
            if self.release >= 13:
                raise RefusedError(412, "the folder has been changed by someone else", "version-mismatch")
            raise RefusedError(409, "a folder/dashboard with the same uid already exists")
        made = {"id": 1000 + len(self.folders), "uid": uid, "title": title, "url": f"/dashboards/f/{uid}", "version": 1}
        self.folders[uid] = made
        return made

    def dashboard(self, uid: str) -> Model:
        found = self.dashboards.get(uid)
        if found is None:
            raise RefusedError(404, "Dashboard not found", "not-found")
        meta = {
            "type": "db",
            "slug": uid,
            "version": len(found.versions),
            "folderUid": found.folder,
            "folderTitle": self.folders.get(found.folder, {}).get("title", "General"),
            "provisioned": found.provisioned,
        }
        return {"meta": meta, "dashboard": found.model()}

    def save(self, said: Model) -> Model:
        model, folder = said.get("dashboard"), said.get("folderUid") or ""
        if not isinstance(model, dict):
            raise RefusedError(400, "bad request data")
        if not model.get("title"):
            raise RefusedError(400, "Dashboard title cannot be empty", "empty-name")
        if len(said.get("message") or "") > 500:
            raise RefusedError(400, "message too long, max 500 characters")
        uid = _uid(model.get("uid") or f"generated-{len(self.dashboards)}")
        if folder and folder not in self.folders:
            raise RefusedError(400, "folder not found")
        found = self.dashboards.get(uid)
        careful = not said.get("overwrite")
        if found and careful and not found.provisioned and model.get("version") != len(found.versions):
            raise RefusedError(412, "The dashboard has been changed by someone else", "version-mismatch")
        if self.release < 11:
            named = self._named(folder, model["title"])
            if named not in (None, uid):
                if not said.get("overwrite"):
                    message = "A dashboard with the same name in the folder already exists"
                    raise RefusedError(412, message, "name-exists")
                uid, found = named, self.dashboards[named]
        if found is None:
            if model.get("id"):
                raise RefusedError(404, "Dashboard not found", "not-found")
            found = self.dashboards[uid] = Dashboard(len(self.dashboards) + 1, folder)
        elif found.provisioned:
            raise RefusedError(400, "Cannot save provisioned dashboard")
        found.folder = folder
        found.versions.append(copy.deepcopy(model))
        return {
            "id": found.number,
            "uid": uid,
            "url": f"/d/{uid}/{uid}",
            "status": "success",
            "version": len(found.versions),
            "slug": uid,
            "folderUid": folder,
        }

    def _named(self, folder: str, title: str) -> str | None:
        for uid, one in self.dashboards.items():
            if one.folder == folder and one.versions[-1].get("title") == title:
                return uid
        return None

    def search(self, query: Mapping[str, Sequence[str]]) -> list[Model]:
        tags = query.get("tag", ())
        return [
            {"uid": uid, "title": one.versions[-1]["title"], "type": "dash-db", "folderUid": one.folder}
            for uid, one in self.dashboards.items()
            if set(tags) <= set(one.versions[-1].get("tags", []))
        ]

    def annotation(self, number: int) -> Model:
        if number not in self.annotations:
            raise RefusedError(404, "Could not find annotation to update")
        return self.annotations[number]

    def find(self, query: Mapping[str, Sequence[str]]) -> list[Model]:
        since, until = _number(query, "from"), _number(query, "to")
        limit = _number(query, "limit") or 100
        wanted = [_pair(tag) for tag in query.get("tags", ())]
        some = any if query.get("matchAny") == ["true"] else all
        found = [
            one
            for one in self.annotations.values()
            if not (since > 0 and until > 0) or (one["time"] <= until and one["timeEnd"] >= since)
            if not wanted or some(_has(one["tags"], *pair) for pair in wanted)
        ]
        found.sort(key=lambda one: (-one["timeEnd"], -one["time"]))
        return copy.deepcopy(found[:limit])

    def annotate(self, said: Model) -> Model:
        if not said.get("text"):
            raise RefusedError(400, "Failed to save annotation")
        tags = _kept(said.get("tags") or [])
        start = said.get("time") or 0
        if start <= 0:
            raise RefusedError(400, "missing timerange")
        start, end = sorted((start, said.get("timeEnd") or start))
        number = max(self.annotations, default=0) + 1
        self.annotations[number] = {
            "id": number,
            "alertId": 0,
            "dashboardUID": said.get("dashboardUID") or "",
            "panelId": said.get("panelId") or 0,
            "time": start,
            "timeEnd": end,
            "text": said["text"],
            "tags": tags,
        }
        return {"message": "Annotation added", "id": number}

    def patch(self, number: int, said: Model) -> Model:
        one = self.annotation(number)
        changed = dict(one)
        if said.get("tags") is not None:
            changed["tags"] = _kept(said["tags"])
        if said.get("text"):
            changed["text"] = said["text"]
        for key in ("time", "timeEnd"):
            if (said.get(key) or 0) > 0:
                changed[key] = said[key]
        changed["time"], changed["timeEnd"] = sorted((changed["time"], changed["timeEnd"]))
        one.update(changed)
        return {"message": "Annotation patched"}

    def remove(self, number: int) -> Model:
        self.annotation(number)
        del self.annotations[number]
        return {"message": "Annotation deleted"}


def _uid(uid: str) -> str:
    if len(uid) > 40:
        raise RefusedError(400, "uid too long, max 40 characters")
    if not _UID.fullmatch(uid):
        raise RefusedError(400, "uid contains illegal characters")
    return uid


def _number(query: Mapping[str, Sequence[str]], key: str) -> int:
    # What is no number counts as none.
    text = next(iter(query.get(key, ())), "")
    return int(text) if text.isdecimal() else 0


def _pair(tag: str) -> tuple[str, str]:
    key, *rest = tag.split(":")
    return key.strip(" "), rest[0].strip(" ") if rest else ""


def _has(tags: Sequence[str], key: str, value: str) -> bool:
    return any(pair[0] == key and value in ("", pair[1]) for pair in map(_pair, tags))


def _kept(tags: Sequence[str]) -> list[str]:
    """As Grafana keeps tags: what follows a second colon is lost, each is there once."""
    pairs = [_pair(tag) for tag in tags]
    if any(len(part) > _COLUMN for pair in pairs for part in pair):
        raise RefusedError(500, "Failed to save annotation")
    kept = list(dict.fromkeys(f"{key}:{value}" if value else key for key, value in pairs if key))
    if sum(len(tag.encode()) + 3 for tag in kept) + 1 > TAGS_LENGTH:
        raise RefusedError(400, f"tags length exceeds the maximum allowed ({TAGS_LENGTH})")
    return kept


def routes(content: Content) -> Iterator[tuple[str, str, Any]]:
    """Method, pattern of the path below /api, and what answers: of the path's part, the query and the body."""
    yield "GET", r"/folders/([^/]+)", lambda uid, query, said: content.folder(uid)
    yield "POST", r"/folders/?", lambda query, said: content.make_folder(said)
    yield "GET", r"/dashboards/uid/([^/]+)", lambda uid, query, said: content.dashboard(uid)
    yield "POST", r"/dashboards/db/?", lambda query, said: content.save(said)
    yield "GET", r"/search/?", lambda query, said: content.search(query)
    yield "GET", r"/annotations/?", lambda query, said: content.find(query)
    yield "POST", r"/annotations/?", lambda query, said: content.annotate(said)
    yield "DELETE", r"/annotations/(\d+)", lambda number, query, said: content.remove(int(number))
    yield "PATCH", r"/annotations/(\d+)", lambda number, query, said: content.patch(int(number), said)
