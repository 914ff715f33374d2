"""What happens to an object between the request and the store: policies change or refuse it, its namespace may too."""

from __future__ import annotations

from collections.abc import Callable

from . import podsecurity, policies, validation
from .access import User
from .kinds import Kind
from .routing import Target
from .store import Object, Store, Stored


class Admission:
    """`namespace` finds one by its name."""

    def __init__(self, store: Store, namespace: Callable[[str], Stored | None]) -> None:
        self._store = store
        self._namespace = namespace

    def there(self, namespace: str) -> bool:
        return self._namespace(namespace) is not None

    def created(self, kind: Kind, content: Object, user: User, target: Target) -> tuple[Object, tuple[str, ...]]:
        """The object as policies have it, and what to warn of; refused where it is not valid, or may not be."""
        content = policies.mutated(self._store, kind, content, user, target)
        validation.valid(kind, content)
        policies.compiles(kind, content)
        policies.validated(self._store, kind, content, user, target)
        return content, podsecurity.admitted(kind, content, self._labels(target.namespace))

    def changed(self, kind: Kind, old: Object, new: Object) -> tuple[str, ...]:
        """What to warn of; refused as above. Policies here are about what is created."""
        validation.may_become(kind, old, new)
        validation.valid(kind, new)
        policies.compiles(kind, new)
        if new.get("spec") == old.get("spec"):
            return ()
        return podsecurity.admitted(kind, new, self._labels(new["metadata"].get("namespace", "")))

    def _labels(self, namespace: str) -> dict[str, str]:
        found = self._namespace(namespace)
        return dict(found.object["metadata"].get("labels") or {}) if found is not None else {}
