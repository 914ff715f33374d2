"""Reads the metadata of the objects that own pods, whatever their kind, without rights on kinds that are not there."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from dutycycle_alerter.errors import SourceError
from dutycycle_alerter.kubernetes.client import JSON, METADATA, Client
from dutycycle_alerter.kubernetes.failures import ApiError, Failure
from dutycycle_alerter.kubernetes.model import DENIED, Metadata, Reference
from dutycycle_alerter.kubernetes.objects import BROKEN, MalformedError, decode_metadata
from dutycycle_alerter.kubernetes.resources import Resource, is_plural, served_under, well_known

_log = logging.getLogger(__name__)

REMEMBERED = 600.0
"""Seconds for which it is believed what kinds there are, and after which a forbidden place is asked again."""
_MOST = 10_000
_SHOWN = 5
_ANSWER = 5.0
"""Seconds at most that the answer for one object may take to begin: the others wait meanwhile."""
_FIRST_REST, _LONGEST_REST = 2.0, 60.0
"""Seconds for which a kind is left alone after a failure, growing: some fail slowly, for their own servers are away."""
PROOF = 60.0
"""Seconds over which a 403 repeats before it is believed: API servers refuse everybody for a moment after a start."""
_PROOFS = 3
"""Refusals at least within that time."""
_STALE = 180.0
"""Seconds after which an earlier refusal proves nothing about a new one."""
_BETWEEN_LOGS = 60.0

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


@dataclass(frozen=True, slots=True)
class _Rest:
    until: float
    pause: float
    reason: str


@dataclass(slots=True)
class _Refusals:
    """403 answers for one place, without another answer between them."""

    first: float
    last: float
    pause: float
    count: int = 1
    believed: bool = False


_RESOURCES = msgspec.json.Decoder(_ApiResources)
_GROUP = msgspec.json.Decoder(_Group)


class Fetcher:
    """Asks one API server for single objects. `wait` is called before every request: it keeps the rate down."""

    def __init__(self, client: Client, wait: Callable[[], None]) -> None:
        self._client = client
        self._wait = wait
        self._lock = Lock()
        self._kinds: dict[tuple[str, str], tuple[float, Resource | None]] = {}
        """By apiVersion and kind: since when it is believed, and where it is served; None where it is not."""
        self._refused: dict[str, _Refusals] = {}
        """By the path of a collection or of discovery. Only the believed ones count as forbidden."""
        self._names: dict[str, str] = {}
        """What the paths are called in notes."""
        self._logged = -_BETWEEN_LOGS
        self._resting: dict[tuple[str, str], _Rest] = {}
        """By group and kind."""

    def fetch(self, namespace: str, reference: Reference) -> Metadata | None:
        """The object that has this name now; None where there is none, DENIED where it may not be read.

        Raises SourceError where neither is known now.
        """
        version = reference.api_version.rpartition("/")[2]
        if not version or not served_under(reference.group, version):
            return None
        kind = reference.group, reference.kind
        rest = self._resting.get(kind)
        if rest is not None and time.monotonic() < rest.until:
            raise SourceError(rest.reason)
        try:
            found = self._find(namespace, reference)
        except ApiError as error:
            pause = _FIRST_REST if rest is None else min(2 * rest.pause, _LONGEST_REST)
            if len(self._resting) < _MOST or rest is not None:
                until = time.monotonic() + max(pause, error.retry_after or 0.0)
                self._resting[kind] = _Rest(until, pause, str(error))
            raise
        self._resting.pop(kind, None)
        return found

    def _find(self, namespace: str, reference: Reference) -> Metadata | None:
        resource = well_known(reference.group, reference.api_version.rpartition("/")[2], reference.kind)
        known = self._kinds.get((reference.api_version, reference.kind))
        if known is not None and time.monotonic() - known[0] < REMEMBERED:
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
            names = sorted({name for path, name in self._names.items() if self._is_denied(path, now)})
        if not names:
            return ""
        shown = ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
        return f"may not read {shown}: grant get on them, or jobs end at what they own"

    def _get(self, resource: Resource, namespace: str, reference: Reference) -> Metadata | None:
        if not resource.namespaced:
            # No job, whatever is written on it: it is not worth a right.
            return Metadata(reference.uid, cluster_scoped=True)
        path = resource.path(namespace, reference.name)
        if not path:
            return None
        place = path.rpartition("/")[0]
        if self._held_back(place):
            return DENIED
        try:
            try:
                body = self._ask(path, METADATA)
            except ApiError as error:
                if error.failure is not Failure.NOT_ACCEPTABLE:
                    raise
                body = self._ask(path, JSON)
        except ApiError as error:
            if error.failure is Failure.NOT_FOUND and error.named:
                self._answered(place)
                return None
            if error.failure is not Failure.FORBIDDEN:
                raise
            self._believe(place, resource.shown, error)
            return DENIED
        self._answered(place)
        try:
            return decode_metadata(body)
        except MalformedError as error:
            raise SourceError(f"{self._client.shown}: {path}: {error}") from error

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
        path = served_under(group, version)
        body = self._about(path)
        if body is None:
            return None
        try:
            resources = _RESOURCES.decode(body).resources
        except BROKEN:
            raise SourceError(f"{self._client.shown}: {path}: not a list of resources") from None
        for one in resources:
            if one.kind == kind and is_plural(one.name):
                return Resource(group, version, one.name, one.namespaced)
        return None

    def _preferred(self, group: str) -> str:
        path = served_under(group)
        body = self._about(path)
        if body is None:
            return ""
        try:
            preferred = _GROUP.decode(body).preferredVersion
        except BROKEN:
            raise SourceError(f"{self._client.shown}: {path}: not a group of resources") from None
        found = preferred.version if preferred is not None else ""
        return found if served_under(group, found) else ""

    def _about(self, path: str) -> bytes | None:
        """What the server says of its kinds; None where it has none such, or refuses to list them."""
        if self._held_back(path):
            return None
        try:
            body = self._ask(path, JSON)
        except ApiError as error:
            if error.failure is Failure.FORBIDDEN:
                self._believe(path, "", error)
            elif error.failure is not Failure.NOT_FOUND:
                raise
            return None
        self._answered(path)
        return body

    def _is_denied(self, place: str, now: float) -> bool:
        refusals = self._refused.get(place)
        return refusals is not None and refusals.believed and now - refusals.last < REMEMBERED

    def _held_back(self, place: str) -> bool:
        """Whether a place is believed to be forbidden. Raises SourceError where that is not yet clear, to ask later."""
        now = time.monotonic()
        refusals = self._refused.get(place)
        if refusals is None:
            return False
        if not refusals.believed and now - refusals.last < refusals.pause:
            raise SourceError(f"{self._client.shown}: {place}: answered 403; this is asked again until it is confirmed")
        return self._is_denied(place, now)

    def _answered(self, place: str) -> None:
        """Forget refusals: the place can be read."""
        with self._lock:
            self._refused.pop(place, None)
            self._names.pop(place, None)

    def _believe(self, place: str, name: str, error: ApiError) -> None:
        """Take note of a 403. Raises SourceError as long as it is not believed."""
        now = time.monotonic()
        with self._lock:
            known = self._refused.get(place)
            if known is None or (not known.believed and now - known.last > _STALE):
                if known is None and len(self._refused) >= _MOST:
                    del self._refused[next(iter(self._refused))]
                known = self._refused[place] = _Refusals(now, now, _FIRST_REST)
            else:
                known.last, known.count = now, known.count + 1
                known.pause = min(2 * known.pause, _LONGEST_REST)
                known.believed = known.believed or (known.count >= _PROOFS and now - known.first >= PROOF)
            if known.believed and name:
                self._names[place] = name
        if now - self._logged >= _BETWEEN_LOGS:
            self._logged = now
            what = "it may not be read" if known.believed else "not confirmed yet; it is asked again"
            _log.warning("%s (%s)", error, what)
        if not known.believed:
            raise SourceError(str(error))

    def _ask(self, path: str, accept: str) -> bytes:
        self._wait()
        try:
            return self._client.get(path, accept=accept, at_most=_ANSWER)
        except ApiError as error:
            if error.failure in (Failure.UNAUTHORIZED, Failure.TLS, Failure.CREDENTIALS):
                self._client.renew()
            raise
