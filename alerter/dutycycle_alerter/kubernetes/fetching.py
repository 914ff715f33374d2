"""Reads the metadata of the objects that own pods, whatever their kind, without rights on kinds that are not there."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Lock
from typing import Annotated
from urllib.parse import quote

import msgspec
from msgspec import Meta, Struct

from dutycycle_alerter.errors import SourceError
from dutycycle_alerter.kubernetes.client import JSON, METADATA, Client
from dutycycle_alerter.kubernetes.failures import ApiError, Failure
from dutycycle_alerter.kubernetes.model import Metadata, Reference
from dutycycle_alerter.kubernetes.objects import BROKEN, MalformedError, decode_metadata
from dutycycle_alerter.kubernetes.resources import Resource, well_known

REMEMBERED = 600.0
"""Seconds for which it is believed what kinds there are, and that some may not be read."""
_MOST = 10_000
_SHOWN = 5

_Word = Annotated[str, Meta(max_length=253)]


class _ApiResource(Struct):
    name: _Word
    kind: _Word
    namespaced: bool = True


class _ApiResources(Struct):
    resources: list[_ApiResource]


class _GroupVersion(Struct):
    version: _Word


class _Group(Struct):
    preferredVersion: _GroupVersion | None = None  # noqa: N815 - the API's name


_RESOURCES = msgspec.json.Decoder(_ApiResources)
_GROUP = msgspec.json.Decoder(_Group)


class Fetcher:
    """Asks one API server for single objects. `wait` is called before every request: it keeps the rate down."""

    def __init__(self, client: Client, wait: Callable[[], None], *, remembered: float = REMEMBERED) -> None:
        self._client = client
        self._wait = wait
        self._remembered = remembered
        self._lock = Lock()
        self._kinds: dict[tuple[str, str], tuple[float, Resource | None]] = {}
        """By apiVersion and kind: since when it is believed, and where it is served; None where it is not."""
        self._denied: dict[tuple[Resource, str], float] = {}
        """Kinds that may not be read, in which namespaces, and since when that is believed."""

    def fetch(self, namespace: str, reference: Reference) -> Metadata | None:
        """The object; None where it does not exist any more, or may not be read. Raises SourceError where it cannot be
        found out now.
        """
        resource = well_known(reference.group, reference.api_version.rpartition("/")[2], reference.kind)
        known = self._kinds.get((reference.api_version, reference.kind))
        if known is not None and time.monotonic() - known[0] < self._remembered:
            resource = known[1]
        elif resource is None:
            resource = self._discover(reference)
        if resource is None:
            return None
        try:
            return self._get(resource, namespace, reference)
        except ApiError as error:
            if error.failure is not Failure.NOT_FOUND or error.named:
                raise
        # Not the object is unknown, but its kind: the version may have gone, or the kind.
        other = self._discover(reference)
        return None if other is None or other == resource else self._get(other, namespace, reference)

    def note(self) -> str:
        """What may not be read, and what to do; empty where there is nothing."""
        with self._lock:
            now = time.monotonic()
            self._denied = {key: since for key, since in self._denied.items() if now - since < self._remembered}
            names = sorted({resource.shown for resource, _ in self._denied})
        if not names:
            return ""
        shown = ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
        return f"may not read {shown}: grant get on them, or jobs end at what they own"

    def _get(self, resource: Resource, namespace: str, reference: Reference) -> Metadata | None:
        if not resource.namespaced:
            # No job, whatever is written on it: it is not worth a right.
            return Metadata(reference.uid, cluster_scoped=True)
        place = resource, namespace
        since = self._denied.get(place)
        if since is not None and time.monotonic() - since < self._remembered:
            return None
        path = resource.path(quote(namespace, safe=""), quote(reference.name, safe=""))
        try:
            try:
                body = self._ask(path, METADATA)
            except ApiError as error:
                if error.failure is not Failure.NOT_ACCEPTABLE:
                    raise
                body = self._ask(path, JSON)
        except ApiError as error:
            if error.failure is Failure.NOT_FOUND and error.named:
                return None
            if error.failure is not Failure.FORBIDDEN:
                raise
            with self._lock:
                if len(self._denied) < _MOST:
                    self._denied[place] = time.monotonic()
            return None
        try:
            found = decode_metadata(body)
        except MalformedError as error:
            raise SourceError(f"{self._client.shown}: {path}: {error}") from error
        # Made anew under the same name, it is another.
        return found if found.uid == reference.uid else None

    def _discover(self, reference: Reference) -> Resource | None:
        """Where the kind is served, in the version of the reference or the one that its group prefers."""
        version = reference.api_version.rpartition("/")[2]
        found = self._served(reference.group, version, reference.kind)
        if found is None and reference.group:
            preferred = self._preferred(reference.group)
            if preferred and preferred != version:
                found = self._served(reference.group, preferred, reference.kind)
        if len(self._kinds) >= _MOST:
            self._kinds.clear()
        self._kinds[reference.api_version, reference.kind] = time.monotonic(), found
        return found

    def _served(self, group: str, version: str, kind: str) -> Resource | None:
        path = (
            f"/apis/{quote(group, safe='')}/{quote(version, safe='')}" if group else f"/api/{quote(version, safe='')}"
        )
        body = self._about(path)
        if body is None:
            return None
        try:
            resources = _RESOURCES.decode(body).resources
        except BROKEN:
            raise SourceError(f"{self._client.shown}: {path}: not a list of resources") from None
        for one in resources:
            # With a slash it is a part of the objects, such as their status.
            if one.kind == kind and "/" not in one.name:
                return Resource(group, version, one.name, one.namespaced)
        return None

    def _preferred(self, group: str) -> str:
        path = f"/apis/{quote(group, safe='')}"
        body = self._about(path)
        if body is None:
            return ""
        try:
            preferred = _GROUP.decode(body).preferredVersion
        except BROKEN:
            raise SourceError(f"{self._client.shown}: {path}: not a group of resources") from None
        return preferred.version if preferred is not None else ""

    def _about(self, path: str) -> bytes | None:
        """What the server says of its kinds; None where it has none such, or tells nobody like us."""
        try:
            return self._ask(path, JSON)
        except ApiError as error:
            if error.failure in (Failure.NOT_FOUND, Failure.FORBIDDEN):
                return None
            raise

    def _ask(self, path: str, accept: str) -> bytes:
        self._wait()
        try:
            return self._client.get(path, accept=accept)
        except ApiError as error:
            if error.failure in (Failure.UNAUTHORIZED, Failure.TLS, Failure.CREDENTIALS):
                self._client.renew()
            raise
