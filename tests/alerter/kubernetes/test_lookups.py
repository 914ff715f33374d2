"""Owners in the background: the living first, the failed again, the forgotten not kept."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from dutycycle_alerter.errors import SourceError
from dutycycle_alerter.kubernetes import lookups
from dutycycle_alerter.kubernetes.lookups import Lookups
from dutycycle_alerter.kubernetes.model import Metadata, Pod, Reference
from dutycycle_alerter.kubernetes.owners import OwnerFinder
from tests.alerter.kubernetes.watched import until


class Site:
    """Pods, and objects that own them; `broken` ones cannot be asked for."""

    def __init__(self) -> None:
        self.pods: dict[str, Pod] = {}
        self.asked: list[str] = []
        self.broken: set[str] = set()
        self.bugs: set[str] = set()
        self.stop = threading.Event()
        self.tidied = 0
        self.then: tuple[int, Callable[[], None]] | None = None
        self.lookups = Lookups(
            *(OwnerFinder(self.fetch), self.pods.get, lambda: dict(self.pods), self.tidy, self.stop),
            renewal=3600.0,
            name="test",
        )

    def fetch(self, namespace: str, reference: Reference) -> Metadata | None:
        self.asked.append(reference.name)
        if self.then is not None and len(self.asked) == self.then[0]:
            self.then[1]()
        if reference.name in self.broken:
            raise SourceError(f"{reference.name} cannot be asked for")
        if reference.name in self.bugs:
            raise KeyError(reference.name)
        return Metadata(reference.uid)

    def tidy(self) -> None:
        self.tidied += 1

    def at(self, count: int, then: Callable[[], None]) -> None:
        """Once so many were asked for."""
        self.then = count, then

    def add(self, name: str, phase: str = "Running", node: str = "gpu-0") -> None:
        owner = Reference("batch/v1", "Job", f"job-{name}", f"job-{name}")
        self.pods[name] = Pod("ml", name, name, owner, node=node, phase=phase)
        self.lookups.want(name)


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setattr(lookups, "_FIRST_PAUSE", 0.02)
    monkeypatch.setattr(lookups, "_LONGEST_PAUSE", 0.05)
    monkeypatch.setattr(lookups, "_HOUSEKEEPING", 0.02)
    found = Site()
    yield found
    found.stop.set()
    found.lookups.close(30)


def test_the_living_come_first(site: Site) -> None:
    """After a start there may be thousands of pods that completed, and thousands that wait for a node."""
    site.add("done", "Succeeded")
    site.add("waits", "Pending", node="")
    site.add("runs")
    site.lookups.start()
    until(lambda: len(site.lookups.owners()) == 3)
    assert site.asked == ["job-runs", "job-waits", "job-done"]


def test_renewals_hold_up_nobody(site: Site) -> None:
    """Each is read again; who is new in between is the next."""
    for number in range(30):
        site.add(f"old-{number}")
    site.lookups.start()
    until(lambda: len(site.lookups.owners()) == 30)
    site.asked.clear()
    site.at(5, lambda: site.add("new"))
    site.lookups._renewal = 0.001
    until(lambda: len(set(site.asked)) == 31)
    assert site.asked.index("job-new") == 5
    assert set(site.asked[:5]) <= {f"job-old-{number}" for number in range(30)}


def test_renewals_are_spread_and_those_that_wait_anyway_are_none(site: Site) -> None:
    site.broken = {"job-broken"}
    for name in ("a", "b", "broken"):
        site.add(name)
    site.lookups.start()
    until(lambda: len(site.lookups.owners()) == 2)
    added: list[tuple[str, float]] = []
    site.stop.set()
    site.lookups.close(30)
    site.lookups._turns.add = lambda turn, due: added.append((turn.uid, due))  # type: ignore[method-assign]
    site.lookups._renew(100.0)
    assert added == [("a", 100.0), ("b", 1900.0)]
    assert site.lookups.waiting() == 1


def test_one_that_fails_holds_up_nobody(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    site.broken, site.bugs = {"job-a"}, {"job-b"}
    for name in "abc":
        site.add(name)
    site.lookups.start()
    until(lambda: set(site.lookups.owners()) == {"c"} and site.lookups.failures > 4)
    assert site.lookups.waiting() <= 2
    assert site.lookups.problem()
    site.broken, site.bugs = set(), set()
    until(lambda: set(site.lookups.owners()) == {"a", "b", "c"})
    until(lambda: not site.lookups.problem())


def test_pods_that_are_forgotten_take_their_owners_along(site: Site) -> None:
    site.add("a")
    site.add("b")
    site.lookups.start()
    until(lambda: len(site.lookups.owners()) == 2)
    del site.pods["a"]
    until(lambda: set(site.lookups.owners()) == {"b"})
    assert site.tidied


def test_a_pod_that_went_before_it_was_looked_at(site: Site) -> None:
    site.add("a")
    del site.pods["a"]
    site.lookups.start()
    until(lambda: site.tidied)
    assert (site.asked, site.lookups.waiting()) == ([], 0)
