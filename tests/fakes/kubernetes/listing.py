"""Lists: their options, pages that stay consistent, and resource versions that are too old or not yet there."""

from __future__ import annotations

import base64
import binascii
import json
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass

from . import selectors
from .clock import Clock
from .kinds import Kind
from .routing import Target
from .status import Refusal, bad_options, bad_request, expired, too_large
from .store import Store, Stored, encode

_NO_RV = "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided"
_PATIENCE = 3.0
"""How long a resource version is waited for that has not been reached, in seconds."""
_TOO_OLD = "The resourceVersion for the provided list is too old."
_TOKEN_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)


@dataclass(frozen=True, slots=True)
class Page:
    """Where a list goes on. `revision` -1: as things are now."""

    revision: int
    after: str


def whole_number(text: str) -> int:
    """A number of the query; 400 with the words of the parser of a real server."""
    if not text.lstrip("-").isdecimal() or not text.isascii():
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    return int(text)


def revision(text: str) -> int | None:
    """A resourceVersion; None for none. ValueError with the words of a real server."""
    if not text:
        return None
    if not text.isdecimal() or not text.isascii():
        raise ValueError(
            f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax'
        )
    return int(text)


def selection(kind: Kind, target: Target) -> selectors.Selects | None:
    """What the path and the selectors of a request leave of all objects of a kind; None: all."""
    namespace, name = target.namespace, target.name
    inside = _inside(namespace) if namespace and kind.namespaced else None
    named = (lambda stored: stored.name == name) if name else None
    labels = selectors.labels(target.query.get("labelSelector", ""))
    fields = selectors.fields(kind, target.query.get("fieldSelector", ""))
    return selectors.both(selectors.both(inside, named), selectors.both(labels, fields))


def _inside(namespace: str) -> selectors.Selects:
    return lambda stored: stored.namespace == namespace


def listed(store: Store, clock: Clock, kind: Kind, target: Target, gone: Callable[[], bool], *, partial: bool) -> bytes:
    """The body of a list. `gone` says that its client is, and that there is nothing to wait for."""
    query = target.query
    match = query.get("resourceVersionMatch", "")
    causes = []
    if match and "resourceVersion" not in query:
        causes.append(("resourceVersionMatch", _NO_RV))
    if target.flag("sendInitialEvents"):
        causes.append(("sendInitialEvents", "Forbidden: sendInitialEvents is forbidden for list"))
    if causes:
        raise bad_options(causes)
    limit = whole_number(query.get("limit") or "0")
    try:
        asked = revision(query.get("resourceVersion", ""))
    except ValueError as error:
        raise bad_request(f"invalid resource version: {error}") from None
    selects = selection(kind, target)
    page = _page(query["continue"], asked) if query.get("continue") else None
    if asked == 0:
        limit = 0
    with store.lock:
        if asked:
            _reach(store, clock, kind, asked, gone)
        as_of = store.revision
        if asked and (match == "Exact" or (not match and limit)):
            as_of = asked
        if page is not None and page.revision >= 0:
            as_of = page.revision
        if as_of < store.compacted:
            raise _too_old(page, target)
        keys, items = store.collection(kind).as_of(as_of)
        # What is stored never changes: the keys are copied and the objects can be encoded without the lock.
        first = bisect_right(keys, _prefix(target, kind) + page.after) if page is not None else 0
        chosen = [items[key] for key in keys[first:]]
    return _body(kind, target, chosen, selects, limit, as_of, partial=partial)


def _body(
    kind: Kind,
    target: Target,
    chosen: list[Stored],
    selects: selectors.Selects | None,
    limit: int,
    as_of: int,
    *,
    partial: bool,
) -> bytes:
    found = chosen if selects is None else [stored for stored in chosen if selects(stored)]
    metadata: dict[str, str | int] = {"resourceVersion": str(as_of)}
    if limit and len(found) > limit:
        rest = len(found) - limit
        found = found[:limit]
        metadata["continue"] = _token(as_of, "/" + found[-1].key.removeprefix(_prefix(target, kind)))
        if not target.query.get("labelSelector") and not target.query.get("fieldSelector"):
            metadata["remainingItemCount"] = rest
    if partial:
        shown, version = "PartialObjectMetadataList", "meta.k8s.io/v1"
    else:
        shown, version = f"{kind.name}List", kind.api_version
    items = b",".join([stored.partial if partial else stored.item for stored in found])
    head = encode({"kind": shown, "apiVersion": version, "metadata": metadata})
    return b'%s,"items":[%s]}\n' % (head[:-1], items)


def _prefix(target: Target, kind: Kind) -> str:
    return f"{target.namespace}/" if kind.namespaced and target.namespace else ""


def _reach(store: Store, clock: Clock, kind: Kind, asked: int, gone: Callable[[], bool]) -> None:
    """Waits a while for a resource version that has not been reached."""
    until = clock.now() + _PATIENCE
    changed = store.collection(kind).changed
    while store.revision < asked:
        if clock.now() >= until or gone():
            raise too_large(asked, store.revision)
        clock.wait(changed, until)


def _token(as_of: int, after: str) -> str:
    text = json.dumps({"v": "meta.k8s.io/v1", "rv": as_of, "start": f"{after}\0"}, separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _page(token: str, asked: int | None) -> Page:
    if asked:
        raise bad_request("specifying resource version is not allowed when using continue")
    try:
        text = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True).decode("latin-1")
    except (binascii.Error, ValueError):
        raise bad_request("invalid continue token: continue key is not valid: illegal base64 data") from None
    try:
        found = json.loads(text)
        return Page(int(found["rv"]), str(found["start"]).lstrip("/").rstrip("\0"))
    except (ValueError, KeyError, TypeError):
        first = text[:1] if text[:1].isprintable() else f"\\u{ord(text[:1]):04x}"
        why = f"invalid character '{first}' looking for beginning of value"
        raise bad_request(f"invalid continue token: continue key is not valid: {why}") from None


def _too_old(page: Page | None, target: Target) -> Refusal:
    if page is None:
        return expired(_TOO_OLD)
    token = _token(-1, page.after)
    return expired(_TOKEN_TOO_OLD, **{"continue": token})
