"""The server: a socket, the objects, and what a test does to them while it serves."""

from __future__ import annotations

import ssl
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from . import access, forms, patching, shaping
from .access import ALL, Rule, User
from .admission import Admission
from .api import Api
from .clock import Clock
from .discovery import Registry
from .faults import Fault, Faults
from .forms import Reply
from .kinds import STATUS, Kind
from .routing import target
from .status import Refusal, failure
from .store import Object, Store, Stored
from .wire import Call, Wire
from .writing import Writer

_REMEMBERED = 10_000
_TEXT = (("Content-Type", "text/plain; charset=utf-8"), ("X-Content-Type-Options", "nosniff"))
_FLOW = "Too many requests, please try again later."
_REASONS = {
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    410: "Expired",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


@dataclass(frozen=True, slots=True)
class Request:
    """One that came. `user` None: it was not let in. `at` is the server's time, in seconds."""

    method: str
    path: str
    query: dict[str, str]
    verb: str
    user: str | None
    at: float
    target: str
    """Path and query as they were sent."""


class KubernetesServer:
    """See the package. Serves from `start` (or `with`) to `stop`; objects and port outlive a stop."""

    def __init__(
        self,
        *,
        tls: tuple[Path, Path] | None = None,
        clock: Clock | None = None,
        history: int = 10_000,
        anonymous: bool = True,
        namespaces: tuple[str, ...] = ("default", "kube-system", "ml"),
    ) -> None:
        self.clock = clock or Clock()
        self.registry = Registry()
        self.store = Store(self.clock.now, history)
        self.clock.attach(self.store.wake)
        self.faults = Faults(self.store.wake)
        self.users: dict[str, User] = {}
        self.anonymous = anonymous
        self.requests: deque[Request] = deque(maxlen=_REMEMBERED)
        self.token = "admin"
        self.add_user("admin", self.token, ALL, groups=("system:masters",))
        writer = Writer(self.store, Admission(self.store, self._namespace), self.users)
        self._api = Api(self.store, self.clock, self.faults, self.registry, writer)
        self._context = _context(tls)
        self._wire: Wire | None = None
        self._address = ("127.0.0.1", 0)
        self._forbidden_until = 0.0
        self._namespaces = namespaces
        self.reset()

    # Serving

    def start(self, *, forbidden_for: float = 0.0) -> Self:
        """Listens; again on the same port after a stop. It answers everybody 403 for so many seconds at first."""
        self._forbidden_until = time.monotonic() + forbidden_for
        if self._wire is None:
            self._wire = Wire(self._address, self._context, self._answer, self.faults.active, self.store.wake)
            self._address = ("127.0.0.1", self._wire.server_address[1])
        return self

    def stop(self) -> None:
        """Refuses connections and drops those there are; all its threads have ended when it returns."""
        if self._wire is not None:
            self._wire.close()
            self._wire = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """Without a slash at its end. Only once it was started."""
        return f"{'https' if self._context else 'http'}://127.0.0.1:{self._address[1]}"

    @property
    def tls(self) -> ssl.SSLContext | None:
        """With what connections begin, over https."""
        return self._context

    @property
    def watching(self) -> int:
        """How many watches are open now."""
        return self._wire.watching if self._wire is not None else 0

    def _answer(self, call: Call) -> Reply | Fault:
        asked = target(call.method, call.url)
        try:
            user = access.authenticate(call.headers.get("Authorization"), self.users, anonymous=self.anonymous)
        except Refusal as no:
            self._note(call, asked, None)
            return self._fault(asked) or forms.refused(no)
        self._note(call, asked, user)
        spoiled = self._fault(asked)
        if spoiled is not None:
            return spoiled
        if time.monotonic() < self._forbidden_until:
            # A server that has just started has not read the rules yet.
            user = replace(user, rules=(), anonymous=True)
        try:
            host = self.url.partition("//")[2]
            found = self._api.answer(asked, user, call.headers, call.body, host, call.gone)
        except Refusal as no:
            found = forms.refused(no)
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
            # A request of a shape that nothing here was written for: as a real server that panics, and serves on.
            message = f"this request caused the server to fail: {type(error).__name__}: {error}"
            found = forms.refused(Refusal(500, failure(500, "InternalError", message)))
        return forms.compressed(found, call.headers.get("Accept-Encoding"))

    def _note(self, call: Call, asked: Any, user: User | None) -> None:
        who = user.name if user is not None else None
        moment = self.clock.now()
        self.requests.append(Request(call.method, asked.path, asked.query, asked.verb, who, moment, call.url))

    def _fault(self, asked: Any) -> Reply | Fault | None:
        fault = self.faults.for_request(asked)
        if fault is None or fault.action != "error":
            return fault
        details: dict[str, Any] | None = None
        headers: tuple[tuple[str, str], ...] = ()
        if fault.code == 429 or fault.retry_after is not None:
            seconds = 1 if fault.retry_after is None else fault.retry_after
            details, headers = {"retryAfterSeconds": seconds}, (("Retry-After", str(seconds)),)
        message = fault.message or (_FLOW if fault.code == 429 else f"the server says {fault.code}")
        if fault.plain or (fault.plain is None and fault.code == 429):
            return forms.refused(Refusal(fault.code, f"{message}\n".encode(), (*_TEXT, *headers)))
        status = failure(fault.code, _REASONS.get(fault.code, "Unknown"), message, details)
        return forms.refused(Refusal(fault.code, status, headers))

    # What is there

    def install(
        self,
        group: str,
        version: str,
        kind: str,
        plural: str,
        *,
        namespaced: bool = True,
        status: bool = True,
        schema: Mapping[str, Any] | None = None,
    ) -> Kind:
        """A custom kind, from now on in discovery. `schema`: what its objects are like; without one anything goes."""
        subs = (STATUS,) if status else ()
        made = Kind(group, version, kind, plural, namespaced, subresources=subs, custom=True, schema=schema)
        self.registry.install(made)
        return made

    def uninstall(self, kind: str) -> None:
        """As if its definition were deleted: its group is unknown when it was the last."""
        self.registry.uninstall(self.registry.named(kind))

    def add_user(
        self, name: str, token: str, *rules: Rule, uid: str = "", groups: tuple[str, ...] = (), **extra: tuple[str, ...]
    ) -> User:
        """Whoever brings the token; without rules they may look at versions and groups only."""
        user = User(name, rules, uid, groups, tuple(extra.items()))
        self.users[token] = user
        return user

    def remove_user(self, token: str) -> None:
        """The token is worth nothing any more: 401."""
        self.users.pop(token, None)

    def put(self, content: Object, *, revision: int | None = None) -> Object:
        """Creates or replaces an object as it is, status too, without defaults or checks; the answer is what is kept.

        Missing metadata (uid, creationTimestamp, namespace "default") is made; a replaced object keeps its own.
        `revision` stores under that resource version, to rebuild a history; else it is the next one.
        """
        kind = self.registry.of(content)
        given = content["metadata"]
        namespace = given.get("namespace", "default") if kind.namespaced else ""
        with self.store.lock:
            old = self.store.get(kind, namespace, given["name"])
            base = old.object["metadata"] if old is not None else _fresh(kind)
            kept = {name: base[name] for name in ("uid", "creationTimestamp", "generation") if name in base}
            metadata = {**kept, **given, **({"namespace": namespace} if namespace else {})}
            return self.store.put(kind, {**content, "metadata": metadata}, revision).copy()

    def patch(self, kind: str, namespace: str, name: str, change: Object) -> Object:
        """A merge patch of any part, status and spec and metadata alike. KeyError where there is no such object."""
        with self.store.lock:
            old = self._there(kind, namespace, name)
            return self.store.put(old.kind, patching.merge(old.object, change)).copy()

    def delete(self, kind: str, namespace: str, name: str, *, revision: int | None = None) -> Object:
        """Gone at once, with one DELETED event. KeyError where there is no such object."""
        with self.store.lock:
            old = self._there(kind, namespace, name)
            last = self.store.delete(old.kind, old.namespace, name, revision)
            assert last is not None
            return last.copy()

    def get(self, kind: str, namespace: str, name: str) -> Object:
        """A copy. KeyError where there is no such object."""
        return self._there(kind, namespace, name).copy()

    def objects(self, kind: str) -> list[Object]:
        """Copies of all of a kind, in the order of a list."""
        with self.store.lock:
            collection = self.store.collection(self.registry.named(kind))
            found = [collection.items[key] for key in collection.keys]
        return [one.copy() for one in found]

    def reset(self) -> None:
        """Nothing is there but the namespaces of the beginning, nothing was asked, nothing goes wrong; users stay."""
        self.faults.clear()
        self.store.clear()
        self.requests.clear()
        for name in self._namespaces:
            content = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            self.put(shaping.defaulted(self.registry.of(content), content))

    @property
    def revision(self) -> int:
        """The resource version of the last write."""
        with self.store.lock:
            return self.store.revision

    def skip_to(self, revision: int) -> None:
        """As if the writes up to that resource version had been of other kinds, which do not concern anybody here."""
        self.store.skip_to(revision)

    def compact(self, *, watches: bool = True) -> None:
        """Older resource versions are gone: continue tokens and exact lists get 410, and so does a watch from one.

        `watches` False: as etcd's compaction alone, which the watch cache outlives. Watches that run go on.
        """
        self.store.compact(watches=watches)

    def inject(self, action: str, **how: Any) -> Fault:
        """Lets something go wrong from now on; see Fault. For a `with`, or until `remove` or `heal`."""
        return self.faults.add(Fault(action, **how))

    def heal(self) -> None:
        """Nothing goes wrong any more."""
        self.faults.clear()

    def _there(self, kind: str, namespace: str, name: str) -> Stored:
        found = self.registry.named(kind)
        stored = self.store.get(found, namespace if found.namespaced else "", name)
        if stored is None:
            raise KeyError(f"no {kind} {namespace}/{name}")
        return stored

    def _namespace(self, name: str) -> Stored | None:
        return self.store.get(self.registry.named("Namespace"), "", name)


def _fresh(kind: Kind) -> Object:
    made: Object = {"uid": shaping.uid(), "creationTimestamp": shaping.time_text(shaping.now())}
    return {**made, "generation": 1} if shaping.counts_generations(kind) else made


def _context(tls: tuple[Path, Path] | None) -> ssl.SSLContext | None:
    if tls is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*tls)
    return context
