"""One request to one answer: who asks, whether they may, what is there, and in which form."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from . import discovery, listing, watching
from .access import User, authorize
from .clock import Clock
from .discovery import Registry
from .faults import Faults
from .forms import Form, Reply, form, reply
from .kinds import Kind
from .routing import Target
from .status import not_found, wrong_method
from .store import Store
from .writing import Writer

_READS = ("get", "list", "watch")


@dataclass(frozen=True, slots=True)
class Api:
    """Everything that an answer is made from."""

    store: Store
    clock: Clock
    faults: Faults
    registry: Registry
    writer: Writer

    def answer(
        self,
        target: Target,
        user: User,
        headers: Mapping[str, str],
        body: bytes,
        address: str,
        gone: Callable[[], bool],
    ) -> Reply:
        """Raises Refusal for every answer that is an error."""
        authorize(user, target)
        if not target.is_resource:
            accept = headers.get("Accept") or ""
            # Documents come in forms of their own.
            wanted = form(None if target.path.startswith("/openapi") else accept, pretty=target.flag("pretty"))
            return discovery.answer(self.registry, target, wanted, headers.get("If-None-Match"), address, accept)
        kind = discovery.served(self.registry, target)
        _allowed(kind, target)
        wanted = form(headers.get("Accept"), pretty=target.flag("pretty"))
        if target.verb not in _READS or target.subresource:
            return self.writer.answer(kind, target, user, headers, body, wanted)
        if target.verb == "watch":
            return self._watch(kind, target, wanted, gone)
        if target.verb == "list":
            body = listing.listed(self.store, self.clock, kind, target, gone, partial=wanted.partial)
            return reply(200, body, wanted)
        return self._get(kind, target, wanted)

    def _get(self, kind: Kind, target: Target, wanted: Form) -> Reply:
        stored = self.store.get(kind, target.namespace if kind.namespaced else "", target.name)
        if stored is None:
            raise not_found(kind, target.name)
        return reply(200, (stored.partial if wanted.partial else stored.whole) + b"\n", wanted)

    def _watch(self, kind: Kind, target: Target, wanted: Form, gone: Callable[[], bool]) -> Reply:
        asked = watching.asked(kind, target, partial=wanted.partial)
        watch = watching.Watch(self.store, self.clock, self.faults, kind, target, asked, gone)
        return Reply(200, lines=watch.lines())


def _allowed(kind: Kind, target: Target) -> None:
    """405 for what the resource does not do."""
    if target.subresource:
        sub = kind.sub(target.subresource)
        if sub is None or target.verb not in sub.verbs:
            raise wrong_method()
        return
    nowhere = kind.namespaced and not target.namespace and target.verb in ("create", "deletecollection")
    nameless = target.verb in ("update", "patch") and not target.name
    if target.method == "HEAD" or nowhere or nameless or target.verb not in kind.verbs:
        raise wrong_method()
