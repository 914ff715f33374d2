"""The exporters that are read: those configured, and those found by name; how each answered last, and who says what."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from dutycycle_alerter.settings import ScrapeSource
from dutycycle_alerter.sources.exposition import Exposition
from dutycycle_alerter.sources.resolving import PREFIX, Name, Resolved
from dutycycle_alerter.views import TargetStatus


@dataclass(slots=True, eq=False)
class Target:
    """One exporter: its last answer, or why there is none. `name` is what it was found by, `gpus` what it shows."""

    url: str
    name: Name | None = None
    node: str = ""
    last_success: float | None = None
    error: str = ""
    note: str = ""
    replay: bool = False
    gpus: frozenset[str] = frozenset()


@dataclass(slots=True)
class _Found:
    """What one name led to. `resolved_at` is wall time, of the last time that it did."""

    name: Name
    targets: dict[str, Target] = field(default_factory=dict)
    resolved_at: float | None = None


class Targets:
    """Belongs to whoever holds the source's lock. What a node's exporter says is read from one target at a time: who
    answered first for the node stays it until it fails.
    """

    def __init__(self, settings: ScrapeSource, name: Callable[[str, float], Name] = Name) -> None:
        self._replay = False
        self._readers: dict[str, Target] = {}
        self._given = [Target(url) for url in settings.targets if not url.startswith(PREFIX)]
        self._found = [_Found(name(url, settings.timeout)) for url in settings.targets if url.startswith(PREFIX)]

    def __iter__(self) -> Iterator[Target]:
        yield from self._given
        for found in self._found:
            yield from found.targets.values()

    @property
    def names(self) -> list[Name]:
        """What is resolved at each round."""
        return [found.name for found in self._found]

    def assume(self, replay: bool) -> None:
        """What is known of every exporter before it answers."""
        self._replay = replay
        for target in self:
            target.replay = replay

    def replaying(self) -> bool:
        """Whether any exporter plays a recording."""
        known = [target.replay for target in self]
        return any(known) if known else self._replay

    def expire(self) -> None:
        """To be called once a round, before `take`."""
        for found in self._found:
            found.name.expire()
            self._follow(found)

    def take(self, resolved: Resolved, now: float) -> list[Target]:
        """The targets that are new by what the resolver said."""
        (found,) = (found for found in self._found if found.name is resolved.name)
        found.name.take(resolved)
        if resolved.addresses:
            found.resolved_at = now
        return self._follow(found)

    def _follow(self, found: _Found) -> list[Target]:
        # Nothing ends with its address: the exporter of a node that comes back has another one, and what it says is
        # known by the node. Until then the node's jobs are unseen, which is not ended.
        urls = [found.name.url(address) for address in found.name.addresses]
        new = [Target(url, found.name, replay=self._replay) for url in urls if url not in found.targets]
        known = found.targets | {target.url: target for target in new}
        found.targets = {url: known[url] for url in urls}
        if len(known) > len(urls):
            self._readers = {node: one for node, one in self._readers.items() if self._current(one)}
        return new

    def answered(self, target: Target, exposition: Exposition | None, t: float, error: str) -> bool:
        """What a target said. Returns whether it is to be read: it is not where its address was let go, or where
        another has said it of the same node and still answers.
        """
        target.error, target.note = error, ""
        if exposition is None or not self._current(target):
            return False
        nodes = exposition.nodes | {node for node, *_ in exposition.owned}
        gpus = frozenset(uuid for _, uuid, _ in exposition.devices)
        target.node = min(nodes, default=target.node)
        other = next((one for node in nodes if (one := self._reader(node)) not in (None, target)), None)
        if other is None:
            self._readers.update(dict.fromkeys(nodes, target))
            target.gpus = gpus or target.gpus
        elif gpus <= other.gpus:
            target.note = f"is {target.node}, which is read at {other.url}"
        else:
            # Two exporters' counters under one name would be one counter that starts anew at every scrape.
            target.error = f"says that it is {target.node}, as {other.url} does with other GPUs: it is not read"
            return False
        target.last_success, target.replay = t, exposition.replay
        return other is None

    def _reader(self, node: str) -> Target | None:
        """Who is read for a node, and answers."""
        reader = self._readers.get(node)
        return None if reader is None or reader.error or not self._current(reader) else reader

    def _current(self, target: Target) -> bool:
        return target.name is None or any(
            found.targets.get(target.url) is target for found in self._found if found.name is target.name
        )

    def rewind(self, until: float) -> None:
        """The clock was set back: nothing answered later than `until`."""
        for one in self:
            one.last_success = None if one.last_success is None else min(one.last_success, until)
        for found in self._found:
            found.resolved_at = None if found.resolved_at is None else min(found.resolved_at, until)

    def status(self) -> tuple[TargetStatus, ...]:
        """Each exporter's state, and each name's."""
        names = (TargetStatus(one.name.target, "", one.resolved_at, one.name.error) for one in self._found)
        exporters = (TargetStatus(t.url, t.node, t.last_success, t.error, t.note) for t in self)
        return (*exporters, *names)
