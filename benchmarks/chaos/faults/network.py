"""Links that are cut, fall silent, are slow, are narrow or damage what they carry."""

from __future__ import annotations

import random
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from .. import probes
from ..happened import EVERY_NODE, Effects
from ..links import Link
from ..site import POD_NODE, Site
from .base import Fault
from .processes import MACHINES, REPLICAS

_SLOW = 1.5
"""Seconds for each piece: longer than a scrape may take, shorter than the alerters wait."""
_NARROW = 2000.0
"""Bytes a second."""
_UNTIL_A_MESSAGE = (20.0, 30.0)
"""Wall seconds within which, by the workload, something is likely to be told."""


@dataclass(frozen=True)
class _Way:
    """A link: how to find it, which part it belongs to, and what is known no more while nothing comes through."""

    find: Callable[[Site], Link]
    part: str
    effects: Effects
    says_refused: frozenset[str] = frozenset()
    """What is certain to be noticed only where connections are refused at once."""


def _scrape(node: str) -> _Way:
    return _Way(lambda site: site.machines[node].scraped_through, node, Effects(blinds=frozenset({node})))


def _database(replica: str) -> _Way:
    return _Way(
        lambda site: site.replicas[replica].database_link,
        f"database-{replica}",
        Effects(halts=frozenset({replica, "evaluation"})),
        says_refused=frozenset({f"store:{replica}"}),
    )


def _receiver(part: str, name: str, find: Callable[[Site], Link]) -> _Way:
    return _Way(find, part, Effects(halts=frozenset({part}), says=frozenset({f"receiver:{name}"})))


_PROMETHEUS = _Way(
    lambda site: site.prometheus.link,
    "prometheus",
    Effects(blinds=frozenset({EVERY_NODE}), says=frozenset({"source:prometheus"})),
)
WAYS: Mapping[str, Mapping[str, _Way]] = {
    "scrape": {node: _scrape(node) for node in MACHINES},
    "prometheus": {"": _PROMETHEUS},
    "database": {replica: _database(replica) for replica in REPLICAS},
    "mail": {"": _receiver("mail", "mail", lambda site: site.receivers.mail_link)},
    "slack": {"": _receiver("slack", "chat", lambda site: site.receivers.slack_link)},
    "webhook": {"": _receiver("webhook", "program", lambda site: site.receivers.hook_link)},
    "alertmanager": {"": _receiver("alertmanager", "alerts", lambda site: site.receivers.alertmanager.link)},
    "slurmrestd": {
        "": _Way(
            lambda site: site.slurm_link,
            "slurm",
            Effects(halts=frozenset({"slurm"}), says=frozenset({"source:slurm"})),
        )
    },
    "kubernetes": {
        "": _Way(
            lambda site: site.kubernetes_link,
            "kubernetes",
            Effects(halts=frozenset({"kubernetes"})),
            says_refused=frozenset({"watch:kubernetes"}),
        )
    },
    "kubelet": {
        "": _Way(
            lambda site: site.kubelet_link,
            POD_NODE,
            Effects(blinds=frozenset({POD_NODE}), halts=frozenset({"kubernetes"})),
            says_refused=frozenset({f"kubelet:{POD_NODE}"}),
        )
    },
}

_TO_RECEIVERS = ("mail", "slack", "webhook", "alertmanager")


class _OnLink(Fault):
    """What is done to a link of the kind `link`."""

    link: ClassVar[str]
    tells: ClassVar[bool] = True
    """Whether so little comes through that the site has to say so."""
    refuses: ClassVar[bool] = False

    def __init__(self, which: str) -> None:
        self._way = WAYS[self.link][which]
        self.touches = frozenset({self._way.part})
        says = self._way.effects.says if self.tells else frozenset()
        if self.refuses:
            says |= self._way.says_refused
        self.effects = replace(self._way.effects, says=says)

    @classmethod
    def draw(cls, chance: random.Random) -> Self:
        return cls(chance.choice(sorted(WAYS[cls.link])))

    def begin(self, site: Site) -> None:
        self.spoil(self._way.find(site))

    @abstractmethod
    def spoil(self, link: Link) -> None:
        """It happens to the link."""

    def in_force(self, site: Site) -> bool | None:
        return self._way.find(site).met > 0

    def end(self, site: Site) -> None:
        self._way.find(site).heal()


class _Cut(_OnLink):
    refuses = True

    def spoil(self, link: Link) -> None:
        link.cut()

    def in_force(self, site: Site) -> bool | None:
        return probes.refused(self._way.find(site).address)


class _Silent(_OnLink):
    def spoil(self, link: Link) -> None:
        link.silence()


class _Slow(_OnLink):
    tells = False

    def spoil(self, link: Link) -> None:
        link.delay(_SLOW)


class _Narrow(_OnLink):
    tells = False

    def spoil(self, link: Link) -> None:
        link.throttle(_NARROW)


class _Garbled(_OnLink):
    def spoil(self, link: Link) -> None:
        link.garble()


_MANNERS: Mapping[str, tuple[type[_OnLink], str]] = {
    "cut": (_Cut, "is cut: connections are ended, and new ones refused"),
    "silent": (_Silent, "is half-open: connections stand, and nothing comes through"),
    "slow": (_Slow, f"is slow: every piece takes {_SLOW:g} s longer"),
    "narrow": (_Narrow, f"is narrow: {_NARROW:g} bytes a second"),
    "garbled": (_Garbled, "damages what it carries"),
}
_BETWEEN = {
    "scrape": "Prometheus and an exporter",
    "prometheus": "the alerters and Prometheus",
    "database": "an alerter and PostgreSQL",
    "mail": "the alerters and the mail server",
    "slack": "the alerters and Slack",
    "webhook": "the alerters and the program that they tell by webhook",
    "alertmanager": "the alerters and Alertmanager",
    "slurmrestd": "the alerters and slurmrestd",
    "kubernetes": "the alerters and the API server",
    "kubelet": "an exporter and its kubelet",
}


def _classes() -> tuple[type[Fault], ...]:
    made = []
    for link, between in _BETWEEN.items():
        for manner, (kind, sentence) in _MANNERS.items():
            fields = {
                "name": f"{link}-{manner}",
                "link": link,
                "lasts": _UNTIL_A_MESSAGE if link in _TO_RECEIVERS else Fault.lasts,
                "__doc__": f"The link between {between} {sentence}.",
            }
            made.append(type(f"{link.title()}{manner.title()}", (kind,), fields))
    return tuple(made)


LINKS = _classes()
