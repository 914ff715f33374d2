"""Creating, replacing, patching and deleting objects over the API."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from . import applying, bodies, decoding, fields, managers, patching, reviews, schemas, shaping, subresources
from .access import User
from .admission import Admission
from .forms import Form, Reply, reply
from .kinds import Kind
from .listing import selection, whole_number
from .routing import Target
from .status import (
    about,
    already_exists,
    bad_dry_run,
    bad_request,
    conflict,
    invalid,
    modified,
    not_found,
    refusal,
)
from .store import Object, Store, Stored, encode

_STRATEGIC = "application/strategic-merge-patch+json"
_PATCHES: dict[str, Callable[[Kind, Any, Any], Any]] = {
    "application/merge-patch+json": lambda _, value, patch: patching.merge(value, patch),
    _STRATEGIC: lambda kind, value, patch: patching.strategic(value, patch, schemas.of(kind)),
    "application/json-patch+json": lambda _, value, patch: patching.by_operations(value, patch),
}
_CREATED_BY_PUT = ("Lease", "Event")
_NEEDS_VERSION = ("Lease",)
_SYSTEM = (
    *("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "deletionTimestamp"),
    *("deletionGracePeriodSeconds", "name", "namespace"),
)
"""Metadata that clients do not change."""


class Writer:
    """Writes for clients, under the store's lock; every write that changes nothing leaves the resource version."""

    def __init__(self, store: Store, admission: Admission, users: dict[str, User]) -> None:
        self.store = store
        self.users = users
        self._admission = admission

    def answer(
        self, kind: Kind, target: Target, user: User, headers: Mapping[str, str], body: bytes, wanted: Form
    ) -> Reply:
        if reviews.is_review(kind):
            return reviews.answer(
                kind, user, self.users, bodies.parsed(kind, headers, body), bodies.manager(target, headers), wanted
            )
        if target.query.get("dryRun", "All") != "All":
            raise bad_dry_run(target.verb, target.query["dryRun"])
        with self.store.lock:
            if target.subresource and target.subresource != "status":
                return subresources.answer(self, kind, target, headers, body, wanted)
            if target.verb == "get":
                return self._said(200, self.there(kind, target), wanted)
            if target.verb == "create":
                return self._create(kind, target, user, headers, body, wanted)
            if target.verb == "update":
                return self._update(kind, target, user, headers, body, wanted)
            if target.verb == "patch":
                if bodies.media(headers) == applying.MEDIA:
                    return applying.answer(self, kind, target, user, body, wanted)
                return self._patch(kind, target, headers, body, wanted)
            if target.verb == "delete":
                return self._delete(kind, target, body, wanted)
            return self._delete_all(kind, target, body, wanted)

    def there(self, kind: Kind, target: Target) -> Stored:
        stored = self.store.get(kind, target.namespace if kind.namespaced else "", target.name)
        if stored is None:
            raise not_found(kind, target.name)
        return stored

    def _create(
        self, kind: Kind, target: Target, user: User, headers: Mapping[str, str], body: bytes, wanted: Form
    ) -> Reply:
        content, warnings = bodies.content(kind, bodies.parsed(kind, headers, body), target)
        new, more = self.made(kind, content, target, user, bodies.manager(target, headers))
        return self.kept(kind, new, 201, target, wanted, (*warnings, *more))

    def made(
        self, kind: Kind, content: Object, target: Target, user: User, manager: str
    ) -> tuple[Object, tuple[str, ...]]:
        """A new object that may be, to be kept, and what to warn of."""
        if kind.namespaced and not self._admission.there(target.namespace):
            message = f'namespaces "{target.namespace}" not found'
            raise refusal(404, "NotFound", message, {"name": target.namespace, "kind": "namespaces"})
        content, warnings = self._admission.created(kind, content, user, target)
        name = content["metadata"].get("name", "")
        if name and self.store.get(kind, target.namespace if kind.namespaced else "", name) is not None:
            raise already_exists(kind, name)
        return shaping.created(kind, content, target.namespace, manager), warnings

    def kept(
        self, kind: Kind, new: Object, code: int, target: Target, wanted: Form, warnings: tuple[str, ...] = ()
    ) -> Reply:
        """The answer with an object that is stored from now on, but for a dry run."""
        if "dryRun" in target.query:
            body = encode({"kind": kind.name, "apiVersion": kind.api_version, **new})
            return reply(code, body + b"\n", wanted, *warnings)
        return self._said(code, self.store.put(kind, new), wanted, *warnings)

    def _update(
        self, kind: Kind, target: Target, user: User, headers: Mapping[str, str], body: bytes, wanted: Form
    ) -> Reply:
        content, warnings = bodies.content(kind, bodies.parsed(kind, headers, body), target)
        name = content["metadata"].get("name", "")
        if name != target.name:
            why = f"the name of the object ({name}) does not match the name on the URL ({target.name})"
            raise bad_request(why)
        old = self.store.get(kind, target.namespace if kind.namespaced else "", target.name)
        if old is None:
            if kind.name not in _CREATED_BY_PUT:
                raise not_found(kind, target.name)
            return self._create(kind, target, user, headers, body, wanted)
        self._check_sent(kind, content["metadata"], old)
        if not content["metadata"].get("resourceVersion") and kind.name in _NEEDS_VERSION:
            cause = ("metadata.resourceVersion", "Invalid value: 0: must be specified for an update")
            raise invalid(f'{kind.qualified} "{name}"', about(kind, name), [cause])
        return self.change(kind, old, content, target, headers, wanted, warnings)

    def _check_sent(self, kind: Kind, sent: Mapping[str, Any], old: Stored) -> None:
        """What was sent must be about the object that is stored, and its latest version where it names one."""
        uid = old.object["metadata"]["uid"]
        if sent.get("uid") not in (None, "", uid):
            where = f"/registry/{kind.plural}/{old.key}"
            why = (
                f"StorageError: invalid object, Code: 4, Key: {where}, ResourceVersion: 0, AdditionalErrorMsg: "
                f"Precondition failed: UID in precondition: {sent['uid']}, UID in object meta: {uid}"
            )
            raise conflict(kind, old.name, why)
        if sent.get("resourceVersion") not in (None, "", str(old.revision)):
            raise modified(kind, old.name)

    def change(
        self,
        kind: Kind,
        old: Stored,
        content: Object,
        target: Target,
        headers: Mapping[str, str],
        wanted: Form,
        warnings: tuple[str, ...] = (),
    ) -> Reply:
        """Stores what an object is to become, as far as this request may change it."""
        new = self.merged(kind, old, content, target.subresource)
        if new == old.object:
            return self._said(200, old, wanted, *warnings)
        if not target.subresource:
            warnings = (*warnings, *self._admission.changed(kind, old.object, new))
        if bodies.media(headers) != applying.MEDIA:
            manager = bodies.manager(target, headers)
            moment = shaping.time_text(shaping.now())
            entries = new["metadata"].get("managedFields") or []
            managed = managers.managed(kind, old.object, entries, new, manager, target.subresource, moment)
            new["metadata"] = {**new["metadata"], "managedFields": managed}
        stored = self.kept(kind, new, 200, target, wanted, warnings)
        if "dryRun" not in target.query:
            self.finish(kind, new)
        return stored

    def merged(self, kind: Kind, old: Stored, content: Object, subresource: str) -> Object:
        """The stored object with that part of the content that may be written here; system metadata stays."""
        before = old.object
        kept = {name: value for name, value in content.items() if name not in ("kind", "apiVersion")}
        if subresource == "status":
            return shaping.with_status(kind, {**before, "status": kept.get("status") or {}})
        if shaping.has_status(kind):
            kept.pop("status", None)
            if "status" in before:
                kept["status"] = before["status"]
        metadata = {name: value for name, value in content["metadata"].items() if name not in _SYSTEM and value}
        metadata |= {name: before["metadata"][name] for name in _SYSTEM if name in before["metadata"]}
        if content["metadata"].get("managedFields") is not None:
            metadata["managedFields"] = [one for one in content["metadata"]["managedFields"] if one]
        if "generation" in metadata and kept.get("spec") != before.get("spec"):
            metadata["generation"] += 1
        return {**kept, "metadata": metadata}

    def finish(self, kind: Kind, new: Object) -> None:
        """An object that was only waiting for its last finalizer goes."""
        metadata = new["metadata"]
        if "deletionTimestamp" in metadata and not metadata.get("finalizers") and kind.name not in ("Pod", "Namespace"):
            self.store.delete(kind, metadata.get("namespace", ""), metadata["name"])

    def _patch(self, kind: Kind, target: Target, headers: Mapping[str, str], body: bytes, wanted: Form) -> Reply:
        media = bodies.media(headers)
        if media not in _PATCHES or (media == _STRATEGIC and kind.custom):
            raise refusal(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})
        patch = bodies.decoded(body)
        old = self.there(kind, target)
        content = _PATCHES[media](kind, old.object, patch)
        if not isinstance(content, dict) or not isinstance(content.get("metadata"), dict):
            raise bad_request("the patch leaves no object")
        content, warnings = fields.patched(kind, content, target.query.get("fieldValidation", "Warn"), patch)
        content = decoding.typed(kind, content)
        self._check_sent(kind, content["metadata"], old)
        return self.change(kind, old, content, target, headers, wanted, warnings)

    def _delete(self, kind: Kind, target: Target, body: bytes, wanted: Form) -> Reply:
        options = bodies.decoded(body) if body.strip() else {}
        stored = self.there(kind, target)
        return self.delete(kind, stored, options, target, wanted)

    def delete(self, kind: Kind, stored: Stored, options: Mapping[str, Any], target: Target, wanted: Form) -> Reply:
        """Deletes as DeleteOptions say; a pod on a node stays, terminating, for its kubelet to end."""
        _preconditions(kind, stored, options.get("preconditions") or {})
        dry = bool(options.get("dryRun")) or "dryRun" in target.query
        if kind.name == "Pod":
            grace = options.get("gracePeriodSeconds")
            if "gracePeriodSeconds" in target.query:
                grace = whole_number(target.query["gracePeriodSeconds"])
            return self._delete_pod(stored, grace, dry=dry, wanted=wanted)
        metadata = stored.object["metadata"]
        waits = kind.name == "Namespace" or bool(metadata.get("finalizers"))
        if waits:
            new = {**stored.object, "metadata": {"deletionTimestamp": shaping.time_text(shaping.now()), **metadata}}
            if kind.name == "Namespace":
                new["status"] = {**new.get("status", {}), "phase": "Terminating"}
            if dry or "deletionTimestamp" in metadata:
                return self._said(200, Stored(kind, new), wanted)
            return self._said(200, self.store.put(kind, new), wanted)
        if not dry:
            self.store.delete(kind, stored.namespace, stored.name)
        details = {**about(kind, stored.name), "uid": metadata["uid"]}
        status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
        return reply(200, encode(status) + b"\n", wanted)

    def _delete_pod(self, stored: Stored, grace: int | None, *, dry: bool, wanted: Form) -> Reply:
        spec, metadata = stored.object["spec"], stored.object["metadata"]
        over = stored.object.get("status", {}).get("phase") in ("Succeeded", "Failed")
        if not spec.get("nodeName") or over:
            grace = 0
        elif grace is None:
            grace = spec.get("terminationGracePeriodSeconds", 30)
        left = metadata.get("deletionGracePeriodSeconds")
        if left is not None and grace >= left and grace > 0:
            return self._said(200, stored, wanted)
        going = {
            **metadata,
            "deletionTimestamp": shaping.time_text(shaping.now() + timedelta(seconds=grace)),
            "deletionGracePeriodSeconds": grace,
        }
        if left is None and "generation" in metadata:
            going["generation"] += 1
        new = {**stored.object, "metadata": going}
        if dry:
            return self._said(200, Stored(stored.kind, new), wanted)
        kept = self.store.put(stored.kind, new)
        if grace == 0 and not metadata.get("finalizers"):
            kept = self.store.delete(stored.kind, stored.namespace, stored.name) or kept
        return self._said(200, kept, wanted)

    def _delete_all(self, kind: Kind, target: Target, body: bytes, wanted: Form) -> Reply:
        options = bodies.decoded(body) if body.strip() else {}
        selects = selection(kind, target)
        chosen = [one for one in self.store.collection(kind).items.values() if selects is None or selects(one)]
        for stored in chosen:
            self.delete(kind, stored, options, target, wanted)
        metadata = {"resourceVersion": str(self.store.revision)}
        head = encode({"kind": f"{kind.name}List", "apiVersion": kind.api_version, "metadata": metadata})
        items = b",".join(stored.item for stored in chosen)
        return reply(200, b'%s,"items":[%s]}\n' % (head[:-1], items), wanted)

    def _said(self, code: int, stored: Stored, wanted: Form, *warnings: str) -> Reply:
        return reply(code, (stored.partial if wanted.partial else stored.whole) + b"\n", wanted, *warnings)


def _preconditions(kind: Kind, stored: Stored, wanted: Mapping[str, Any]) -> None:
    uid, version = stored.object["metadata"]["uid"], str(stored.revision)
    checks = (
        ("UID", wanted.get("uid"), uid, "deleted and then recreated"),
        ("ResourceVersion", wanted.get("resourceVersion"), version, "modified"),
    )
    for name, sent, mine, fate in checks:
        if sent not in (None, mine):
            why = (
                f"the {name} in the precondition ({sent}) does not match the {name} in record ({mine}). "
                f"The object might have been {fate}"
            )
            raise conflict(kind, stored.name, why, by_kind=True)
