"""What dcgm-exporter shows of XIDs, in real engines: a gauge that stays, and of which only the beginning is news."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from dutycycle_alerter.engine import Engine
from dutycycle_alerter.incidents.model import EventKind, Incident, Resolution, State
from dutycycle_alerter.settings import Settings
from dutycycle_alerter.sources.prometheus import PrometheusSource
from dutycycle_alerter.store.database import open_database
from dutycycle_alerter.store.reader import StoreReader
from dutycycle_alerter.views import IncidentFilter
from tests.fakes.clock import FakeClock
from tests.prometheus.server import PrometheusServer, VictoriaMetricsServer

START, MINUTE = 1_700_000_400.0, 60.0
END = 400
"""Minutes of samples, one in each."""

Shown = Callable[[int], int | None]
"""What a GPU's gauge is in a minute; None where its exporter does not answer."""


def _once(minute: int) -> int:
    return 79 if minute >= 10 else 0


def _through_a_gap(minute: int) -> int | None:
    """It has it from the first; the exporter is away for longer than a missed scrape."""
    return None if 190 <= minute < 220 else 79


def _missed(minute: int) -> int | None:
    return None if minute == 200 else 79


def _again_after_a_reset(minute: int) -> int | None:
    """The node is down for a while, comes up well, and has the same again."""
    return None if 180 <= minute < 190 else 0 if 190 <= minute < 200 else 79


def _again_after_another(minute: int) -> int:
    """One that is not of the list came between."""
    return 31 if 190 <= minute < 200 else 79


def _followed_at_once(minute: int) -> int:
    """By one that is not of the list."""
    return 0 if minute < 200 else 48 if minute == 200 else 154


def _first_seen_with_it(minute: int) -> int | None:
    return None if minute < 200 else 79


GPUS: dict[str, Shown] = {
    "once": _once,
    "gap": _through_a_gap,
    "missed": _missed,
    "reset": _again_after_a_reset,
    "another": _again_after_another,
    "followed": _followed_at_once,
    "new": _first_seen_with_it,
}


def openmetrics(gpus: Iterable[str]) -> str:
    memory, xids = [], []
    for uuid in sorted(gpus):
        where = f'gpu="0",UUID="{uuid}",Hostname="{uuid}",modelName="NVIDIA H100"'
        for minute in range(END + 1):
            if (code := GPUS[uuid](minute)) is not None:
                t = START + MINUTE * minute
                memory.append(f"DCGM_FI_DEV_FB_USED{{{where}}} 1000 {t}")
                xids.append(f'DCGM_FI_DEV_XID_ERRORS{{{where},err_code="{code}",err_msg="{code}"}} {code} {t}')
    return "\n".join([*memory, *xids, "# EOF"]) + "\n"


@pytest.fixture(scope="module", params=["prometheus", "victoriametrics"])
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    engines = {"prometheus": PrometheusServer, "victoriametrics": VictoriaMetricsServer}
    with engines[request.param](tmp_path_factory.mktemp("engine"), openmetrics=openmetrics(GPUS)) as server:
        yield server.url


class Site:
    """An alerter of dcgm-exporter's metrics, in time that the test moves."""

    def __init__(self, url: str, directory: Path) -> None:
        self.clock = FakeClock(START)
        section = {"url": url, "scrape_interval": MINUTE, "metrics": "dcgm"}
        settings = Settings.model_validate({"prometheus": section, "database": f"sqlite:///{directory}/a.sqlite3"})
        self.settings = settings.scaled()
        self.database = open_database(settings.database)
        self.source = PrometheusSource(self.settings, self.database)
        self.reader = StoreReader(self.database, self.clock)

    def xids(self, minute: float) -> dict[str, dict[int, float]]:
        """By GPU, with the minutes in which they were reported."""
        with self.source.evidence(START + MINUTE * minute) as found:
            assert self.source.targets()[0].error == ""
            return {item.gpu.uuid: {xid: (at - START) / MINUTE for xid, at in item.xids.items()} for item in found.gpus}

    def work(self, minutes: Iterable[int]) -> None:
        """A pass in each of these minutes."""
        for minute in minutes:
            self.clock.now = START + MINUTE * minute
            Engine(self.settings, self.source, self.database, self.clock).run_pass()

    def incidents(self, uuid: str) -> list[Incident]:
        """Oldest first."""
        found = [one for one in self.reader.incidents(IncidentFilter())[0] if one.subject == f"gpu/{uuid}/{uuid}"]
        return sorted(found, key=lambda one: one.id)

    def events(self, incident: Incident) -> list[EventKind]:
        return [event.kind for event in self.reader.events(incident.id)]


@pytest.fixture
def site(url: str, tmp_path: Path) -> Iterator[Site]:
    made = Site(url, tmp_path)
    try:
        yield made
    finally:
        made.source.close()
        made.database.close()


@pytest.mark.parametrize("minute", [10, 11.5, 60, 129, 129.9])
def test_an_xid_was_reported_when_it_came_to_be_shown(site: Site, minute: float) -> None:
    assert site.xids(minute)["once"] == {79: 10}


@pytest.mark.parametrize("minute", [130.1, 131, 190, 300])
def test_one_that_has_been_shown_for_longer_than_is_looked_back_is_no_news(site: Site, minute: float) -> None:
    assert site.xids(minute)["once"] == {}


@pytest.mark.parametrize("minute", [201, 204.5, 221, 225, 300])
@pytest.mark.parametrize("gpu", ["gap", "missed"])
def test_one_that_is_shown_again_after_its_exporter_was_away_is_the_old_one(
    site: Site, gpu: str, minute: float
) -> None:
    assert not site.xids(minute).get(gpu)


@pytest.mark.parametrize("minute", [191, 194, 199])
def test_that_another_takes_its_place_is_no_news_of_it(site: Site, minute: int) -> None:
    """Though an engine that is not told of a series' end shows it for some minutes."""
    assert site.xids(minute)["another"] == {}


@pytest.mark.parametrize("minute", [201, 208, 214])
@pytest.mark.parametrize(("gpu", "xid"), [("reset", 79), ("another", 79), ("followed", 48), ("new", 79)])
def test_one_that_comes_after_the_gpu_was_seen_without_it_is_news(
    site: Site, gpu: str, xid: int, minute: float
) -> None:
    """Or of a GPU of which nothing was known. Also where another that does not matter took its place by then."""
    assert site.xids(minute)[gpu] == {xid: 200}


def test_a_fault_is_told_once_and_clears_after_its_time(site: Site) -> None:
    """Though the gauge shows it for ever."""
    site.work(range(11, 370, 9))
    (incident,) = site.incidents("once")
    assert (incident.state, incident.figures["xid_at"]) == (State.OPEN, START + 10 * MINUTE)
    assert site.events(incident) == [EventKind.OPENED]
    site.work([371, 390])
    (incident,) = site.incidents("once")
    assert (incident.state, incident.resolution) == (State.RESOLVED, Resolution.CLEARED)
    assert site.events(incident) == [EventKind.OPENED, EventKind.RESOLVED]


def test_what_an_operator_closed_stays_closed(site: Site) -> None:
    """Three hours later, and for as long as the gauge shows it."""
    site.work(range(11, 190, 9))
    (incident,) = site.incidents("once")
    site.reader.resolve(incident.id, actor="bob")
    site.work(range(191, END, 9))
    (after,) = site.incidents("once")
    assert (after.state, after.resolution) == (State.RESOLVED, Resolution.OPERATOR)
    assert site.events(after)[-1] is EventKind.RESOLVED
