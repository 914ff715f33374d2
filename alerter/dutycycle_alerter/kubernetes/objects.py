"""Kubernetes objects as they come, decoded into what is kept of them: of a pod of 10 kB a few hundred bytes.

The official client's models refuse what servers send (a number as a quantity), and hold all of it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Generic, TypeVar

import msgspec
from msgspec import Meta, Raw, Struct

from dutycycle_alerter.kubernetes.model import Metadata, Reference

BROKEN = (msgspec.MsgspecError, ValueError, RecursionError)
"""What a decoder raises."""
_MOST_TEXTS = 128
_LONGEST_KEY = 317
_LONGEST_TEXT = 1024
_INTERNED = 64
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}(\.[0-9]{1,12})?(Z|[+-][0-9]{2}:[0-9]{2})")

Name = Annotated[str, Meta(max_length=253)]
Identifier = Annotated[str, Meta(min_length=1, max_length=253)]
Version = Annotated[str, Meta(max_length=1024)]

T = TypeVar("T")


class MalformedError(ValueError):
    """An object that is not what it says to be."""


@dataclass(frozen=True, slots=True)
class Seen(Generic[T]):
    """An object that was told of: who it is, its resource version, and what is kept of it, if anything is."""

    uid: str
    name: str
    version: str
    kept: T | None = None


class OwnerReference(Struct, gc=False):
    """One of an object's owners."""

    apiVersion: Name = ""  # noqa: N815 - here and below the API's names
    kind: Name = ""
    name: Name = ""
    uid: Name = ""
    controller: bool | None = None


class ObjectMeta(Struct, gc=False):
    """The metadata of an object that exists."""

    name: Identifier
    uid: Identifier
    namespace: Name = ""
    resourceVersion: Version = ""  # noqa: N815
    creationTimestamp: str | None = None  # noqa: N815
    deletionTimestamp: str | None = None  # noqa: N815
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    ownerReferences: list[OwnerReference] | None = None  # noqa: N815


class ListMeta(Struct, gc=False):
    """The metadata of a list, and of a Status."""

    resourceVersion: Version = ""  # noqa: N815
    more: Annotated[str, Meta(max_length=65536)] = msgspec.field(name="continue", default="")


class ListPage(Struct, gc=False):
    """One page of a list. Without its kind and its items it is none."""

    kind: str
    metadata: ListMeta
    items: list[Raw] | None


class StatusDetails(Struct, gc=False):
    """What a Status is about."""

    name: str = ""
    retryAfterSeconds: int = 0  # noqa: N815


class Status(Struct, gc=False):
    """What a server answers instead of an object."""

    message: str = ""
    code: int = 0
    details: StatusDetails | None = None


class Event(Struct, gc=False):
    """One line of a watch."""

    type: str
    object: Raw


class _Marked(Struct, gc=False):
    uid: Name = ""
    name: Name = ""
    resourceVersion: Version = ""  # noqa: N815


class _Identified(Struct, gc=False):
    metadata: _Marked


class _Owning(Struct, gc=False):
    metadata: ObjectMeta


_PAGE = msgspec.json.Decoder(ListPage)
_EVENT = msgspec.json.Decoder(Event)
_STATUS = msgspec.json.Decoder(Status)
_IDENTIFIED = msgspec.json.Decoder(_Identified)
_OWNING = msgspec.json.Decoder(_Owning)


def decode_page(body: bytes, kind: str) -> ListPage:
    """One page of a list of this kind (`PodList`). Raises MalformedError: what is no such list is not an empty one."""
    try:
        page = _PAGE.decode(body)
    except BROKEN as error:
        raise MalformedError(f"not a {kind}: {_why(error)}") from None
    if page.kind != kind:
        raise MalformedError(f"not a {kind}, but a {page.kind[:40]!r}")
    if not page.metadata.resourceVersion:
        raise MalformedError(f"a {kind} without a resourceVersion")
    return page


def decode_event(line: bytes) -> Event:
    """One line of a watch. Raises MalformedError."""
    try:
        return _EVENT.decode(line)
    except BROKEN as error:
        raise MalformedError(f"not a watch event: {_why(error)}") from None


def decode_status(body: bytes | Raw) -> Status:
    """A server's explanation; a plain one where the body is a line of text, an empty one where it is neither."""
    try:
        return _STATUS.decode(body)
    except BROKEN:
        text = bytes(body)[:_LONGEST_TEXT].decode(errors="replace").strip()
        plain = text.isascii() and text.isprintable() and not text.startswith(("{", "[", "<"))
        return Status(message=text if plain else "")


def identify(body: bytes | Raw) -> Seen[None]:
    """Who a malformed object is, and the version of a bookmark, as far as it says; empty texts where it does not."""
    try:
        marked = _IDENTIFIED.decode(body).metadata
    except BROKEN:
        return Seen("", "", "")
    return Seen(marked.uid, marked.name, marked.resourceVersion)


def decode_metadata(body: bytes) -> Metadata:
    """The metadata of any object, whole or as PartialObjectMetadata. Raises MalformedError."""
    try:
        metadata = _OWNING.decode(body).metadata
    except BROKEN as error:
        raise MalformedError(f"not an object: {_why(error)}") from None
    return Metadata(
        uid=metadata.uid,
        owner=controller(metadata),
        created=seconds(metadata.creationTimestamp),
        labels=texts(metadata.labels),
        annotations=texts(metadata.annotations),
    )


def controller(metadata: ObjectMeta) -> Reference | None:
    """The one owner that controls an object."""
    for owner in metadata.ownerReferences or ():
        if owner.controller:
            return Reference(*map(sys.intern, (owner.apiVersion, owner.kind, owner.name, owner.uid)))
    return None


def seconds(time: str | None) -> float | None:
    """An RFC 3339 time as Unix seconds; None where it is none, or before 1970, as Go writes what never was."""
    if not time or _TIME.fullmatch(time) is None:
        return None
    try:
        found = datetime.fromisoformat(time).timestamp()
    except (ValueError, OverflowError):
        return None
    return found if found > 0 else None


def texts(found: dict[str, str] | None) -> Mapping[str, str]:
    """Labels or annotations, without the long ones: a whole manifest as it was applied says nothing about its owner.
    What thousands of pods share is one text.
    """
    kept: dict[str, str] = {}
    for name, text in (found or {}).items():
        if len(kept) == _MOST_TEXTS:
            break
        if len(name) <= _LONGEST_KEY and len(text) <= _LONGEST_TEXT:
            kept[sys.intern(name)] = sys.intern(text) if len(text) <= _INTERNED else text
    return kept


def _why(error: BaseException) -> str:
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)[:200]
