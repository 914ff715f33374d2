"""Alertmanager's v2 API: every active incident is an alert there, refreshed until it ends."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from dutycycle_alerter.bounded_http import Answer
from dutycycle_alerter.credentials import basic, secret
from dutycycle_alerter.errors import DeliveryError, SourceError
from dutycycle_alerter.incidents.model import Incident, State
from dutycycle_alerter.notify.links import Links
from dutycycle_alerter.notify.model import Composer, Parcel, ParcelKind, Receipt
from dutycycle_alerter.notify.receivers.posting import Posting
from dutycycle_alerter.printable import printable
from dutycycle_alerter.settings.notify import Alertmanager

LONGEST_VALUE = 512
"""Characters of a label's value: more than any job's id has; only nonsense is cut."""
MOST_ALERTS = 500
MOST_BYTES = 512 * 2**10
"""Of one request: proxies often take no more than 1 MB."""
_REFRESHES = 4
_SAID_FOR = 10
"""Refreshes for which what is said of an incident that does not change is said again as it is, and up to twice as many:
to compose it anew for ten thousand of them each time would take longer than a refresh.
"""
_TEST_LASTS = 300.0
_BEHIND = 60.0
"""An end in Alertmanager's future would not count, and its clock may be behind ours by as many seconds."""
_PERMANENT = frozenset({400, 415, 422})

_Alert = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class _Firing:
    """What Alertmanager has: these labels, since and last told when (Unix seconds)."""

    labels: Mapping[str, str]
    since: float
    at: float


@dataclass(frozen=True, slots=True)
class _Said:
    """What was composed of an incident, without what grows at every pass, and when (Unix seconds)."""

    annotations: Mapping[str, str]
    about: Incident
    at: float


@dataclass(frozen=True, slots=True)
class _Change:
    """An alert to send, and what Alertmanager has of the incident once it took it (None: nothing that fires)."""

    incident_id: int
    alert: _Alert
    after: _Firing | None


class AlertmanagerReceiver:
    """Implements `notify.model.Receiver`, and is refreshed beside. `clock` tells Unix seconds.

    An acknowledged incident goes on firing; one that is snoozed ends there, and fires again when it wakes. Labels tell
    alerts apart: when an incident changes its rule, say, the alert with the old ones ends with the same request.
    """

    def __init__(
        self,
        name: str,
        settings: Alertmanager,
        composer: Composer,
        links: Links,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._settings = settings
        self._composer = composer
        self._links = links
        self._clock = clock
        self._shown = f"{name}: Alertmanager"
        self._posting = Posting(
            self._shown,
            f"{settings.url}/api/v2/alerts",
            timeout=settings.timeout,
            ca_file=settings.ca_file,
            permanent=_PERMANENT,
            remedies={
                401: "check username and password_file, or bearer_token_file",
                403: "check username and password_file, or bearer_token_file",
                404: "is the url right? It must end before /api/v2",
            },
        )
        self._firing: dict[int, _Firing] = {}
        self._said: dict[int, _Said] = {}

    def deliver(self, parcel: Parcel) -> Receipt:
        """Of incidents and digests, each incident as it is now; of a test, an alert that lasts five minutes. Raises
        DeliveryError; alerts may be sent again without harm.
        """
        now = self._clock()
        if parcel.kind is ParcelKind.REPORT:
            raise DeliveryError(f"{self._shown}: accepts alerts, not reports: choose another receiver", permanent=True)
        if parcel.kind is ParcelKind.TEST:
            self._send([_Change(0, self._test(parcel, now), None)])
            return Receipt()
        self._send(change for item in parcel.items for change in self._changes(item.incident, now))
        return Receipt()

    def refresh(self, active: Sequence[Incident], now: float) -> None:
        """`active` are all incidents that are to fire, as they were at `now` (Unix seconds): each is told again, and
        what fires and is none of them ends. Raises DeliveryError.
        """
        kept = {incident.id for incident in active}
        self._said = {number: said for number, said in self._said.items() if number in kept}
        # Told after `active` was read: that knows nothing of it yet.
        gone = [(number, had) for number, had in self._firing.items() if number not in kept and had.at < now]
        self._send(
            [
                *(_Change(number, _span(had.labels, had.since, now - _BEHIND), None) for number, had in gone),
                *(change for incident in active for change in self._changes(incident, now)),
            ]
        )

    def close(self) -> None:
        """Let go of connections."""
        self._posting.close()

    def _changes(self, incident: Incident, now: float) -> Iterator[_Change]:
        labels = labels_of(incident, self._settings.labels)
        had = self._firing.get(incident.id)
        if incident.resolved_at is not None or incident.state in (State.SNOOZED, State.RESOLVED):
            end = now if incident.resolved_at is None else incident.resolved_at
            known = had or _Firing(labels, incident.opened_at, now)
            yield _Change(incident.id, self._alert(incident, known.labels, known.since, min(end, now - _BEHIND)), None)
            return
        if had is not None and had.labels != labels:
            yield _Change(incident.id, _span(had.labels, had.since, now - _BEHIND), None)
            had = None
        # Not since the incident is open: Alertmanager would not wait for more of its group then, but tell it at once.
        since = now if had is None else had.since
        until = now + _REFRESHES * self._settings.refresh
        yield _Change(incident.id, self._alert(incident, labels, since, until), _Firing(labels, since, now))

    def _alert(self, incident: Incident, labels: Mapping[str, str], starts: float, ends: float) -> _Alert:
        url = self._links.incident(incident.id)
        return {
            **_span(labels, starts, ends),
            "annotations": self._annotations(incident),
            **({"generatorURL": url} if url else {}),
        }

    def _annotations(self, incident: Incident) -> Mapping[str, str]:
        said, now = self._said.get(incident.id), self._clock()
        about = replace(incident, wasted=0.0, energy=0.0, updated_at=0.0, known_at=0.0, figures={})
        lasts = (_SAID_FOR + incident.id % _SAID_FOR) * self._settings.refresh
        if said is None or said.about != about or now - said.at > lasts:
            said = _Said(dict(self._composer.annotations(incident)), about, now)
            self._said[incident.id] = said
        return said.annotations

    def _test(self, parcel: Parcel, now: float) -> _Alert:
        brief = self._composer.brief(parcel)
        labels = _accepted({"alertname": "DutycycleTest", "severity": "info", **self._settings.labels})
        return {
            **_span(labels, now, now + _TEST_LASTS),
            "annotations": {"summary": brief.title, "description": brief.text},
        }

    def _send(self, changes: Iterable[_Change]) -> None:
        """Every batch, also after one that Alertmanager does not want; none after one that did not get through."""
        headers, secrets = self._credentials()
        unwanted: DeliveryError | None = None
        for body, batch in _batches(changes):
            try:
                self._check(self._posting.post(body, headers, secrets))
            except DeliveryError as error:
                if not error.permanent:
                    raise
                unwanted = unwanted or error
                continue
            for change in batch:
                if change.after is None:
                    self._firing.pop(change.incident_id, None)
                else:
                    self._firing[change.incident_id] = change.after
        if unwanted is not None:
            raise unwanted

    def _check(self, answer: Answer) -> None:
        if answer.headers.get("content-type", "").lower().startswith("text/html"):
            raise DeliveryError(f"{self._shown}: answered with a web page, as no Alertmanager does: is the url right?")

    def _credentials(self) -> tuple[dict[str, str], tuple[str, ...]]:
        """The header, and what must not be shown. Files are read anew."""
        settings = self._settings
        try:
            token = secret("bearer_token", settings.bearer_token, settings.bearer_token_file)
            password = secret("password", settings.password, settings.password_file)
        except SourceError as error:
            raise DeliveryError(f"{self._shown}: {error}") from error
        if token is not None:
            return {"Authorization": f"Bearer {token}"}, (token,)
        if password is not None:
            pair = basic(settings.username, password)
            return {"Authorization": f"Basic {pair}"}, (password, pair)
        return {}, ()


def labels_of(incident: Incident, more: Mapping[str, str]) -> dict[str, str]:
    """What tells the incident's alert apart; only what is known. `more` are the site's, which go before ours: an empty
    one takes ours away.
    """
    nodes = {gpu.node for gpu in incident.gpus}
    ours = {
        "alertname": "Dutycycle" + "".join(word.capitalize() for word in incident.rule.split("_")),
        "severity": incident.severity.value,
        "rule": incident.rule,
        "incident": str(incident.id),
        "subject": incident.subject,
        "cluster": incident.cluster,
        "scheduler": incident.scheduler,
        "namespace": incident.namespace,
        "user": incident.user,
        "account": incident.account,
        "partition": incident.partition,
        "node": nodes.pop() if len(nodes) == 1 else "",
    }
    return _accepted({**ours, **more})


def _accepted(labels: Mapping[str, str]) -> dict[str, str]:
    return {name: printable(value, LONGEST_VALUE) for name, value in labels.items() if value}


def _span(labels: Mapping[str, str], starts: float, ends: float) -> dict[str, object]:
    # Alertmanager takes no alert that ends before it begins.
    return {"labels": labels, "startsAt": _written(min(starts, ends)), "endsAt": _written(ends)}


def _written(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _batches(changes: Iterable[_Change]) -> Iterator[tuple[bytes, list[_Change]]]:
    """Bodies of bounded length, and what is in each; a single alert may be longer."""
    texts: list[bytes] = []
    batch: list[_Change] = []
    size = 0
    for change in changes:
        # As ASCII: half a surrogate pair is then a character that nobody knows, and no error.
        text = json.dumps(change.alert).encode()
        if batch and (len(batch) == MOST_ALERTS or size + len(text) > MOST_BYTES):
            yield b"[" + b",".join(texts) + b"]", batch
            texts, batch, size = [], [], 0
        texts.append(text)
        batch.append(change)
        size += len(text) + 1
    if batch:
        yield b"[" + b",".join(texts) + b"]", batch
