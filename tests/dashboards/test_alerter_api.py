"""Reading the alerter's incidents page by page: none is missing because others moved, and what is cut off is known."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from dutycycle_alerter.incidents.model import Incident
from dutycycle_alerter.views import IncidentFilter
from dutycycle_dashboards.errors import AlerterError
from dutycycle_dashboards.publishing import alerter_api
from dutycycle_dashboards.publishing.alerter_api import Alerter
from tests.alerter.web.conftest import Client
from tests.alerter.web.conftest import serve as serve  # noqa: PLC0414 - fixtures
from tests.alerter.web.doubles import FixedReader, incident

Serve = Callable[..., Client]


class _Moving(FixedReader):
    """After each page some of its incidents are resolved, and stand behind all others."""

    def incidents(self, wanted: IncidentFilter, *, limit: int = 100, offset: int = 0) -> tuple[Sequence[Incident], int]:
        found = super().incidents(wanted, limit=limit, offset=offset)
        self.found = [*self.found[5:], *self.found[:5]]
        return found


def test_incidents_that_move_hide_no_others(serve: Serve) -> None:
    reader = _Moving(found=[incident(id=number) for number in range(1, 651)])
    source = Alerter(serve(reader).url.rstrip("/"), None)
    read = [one["id"] for one in source.incidents(7 * 86400.0)]
    assert (sorted(read), source.left_out) == (list(range(1, 651)), 0)


def test_how_many_are_not_read_is_known(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alerter_api, "MOST", 150)
    source = Alerter(serve(FixedReader(found=[incident(id=number) for number in range(1, 451)])).url.rstrip("/"), None)
    assert len(list(source.incidents(7 * 86400.0))) == 200
    assert source.left_out == 250


class _Repeating(FixedReader):
    """Has more than it ever shows."""

    def incidents(self, wanted: IncidentFilter, *, limit: int = 100, offset: int = 0) -> tuple[Sequence[Incident], int]:
        self.asked = getattr(self, "asked", 0) + 1
        return super().incidents(wanted, limit=limit)[0], 10_000


def test_an_alerter_that_shows_the_same_again_and_again_is_asked_no_more(serve: Serve) -> None:
    reader = _Repeating(found=[incident(id=number) for number in (1, 2, 3)])
    source = Alerter(serve(reader).url.rstrip("/"), None)
    with pytest.raises(AlerterError, match="more incidents than 3, and shows none of them"):
        list(source.incidents(7 * 86400.0))
    assert reader.asked == 12
