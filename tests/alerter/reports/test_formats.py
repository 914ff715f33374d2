"""Every report in every form: what it says, to the byte, and that what people typed does nothing in it.

To write the golden files anew: `DUTYCYCLE_REWRITE_GOLDEN=1 pytest tests/alerter/reports/test_formats.py`; look at the
difference.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from dutycycle_alerter.cli.report_text import plain, report_text
from dutycycle_alerter.plots.canvas import BUSY, IDLE
from dutycycle_alerter.plots.comparison import Tone
from dutycycle_alerter.reports.commas import comma_separated
from dutycycle_alerter.reports.model import IncidentWaste, Kind, Report, RulesReport, UsageReport, WasteReport
from dutycycle_alerter.reports.pictures import ROWS, bars, picture
from dutycycle_alerter.reports.shapes import UsageAnswer, WasteAnswer, answer, usage_answer
from dutycycle_alerter.reports.sheet import Unit, sheets, sort_keys
from dutycycle_alerter.reports.shown import empty, notes, span
from dutycycle_alerter.settings import Costs
from dutycycle_alerter.usage import GroupUsage
from dutycycle_alerter.web.ledger_page import ledger_page
from tests.alerter.reports.asked import COSTS, HOUR, PEOPLE, SINCE, UNTIL, nothing, report
from tests.alerter.web.doubles import status
from tests.alerter.web.html import parse
from tests.alerter.web.test_hostile_text import HOSTILE

GOLDEN = Path(__file__).with_name("golden")
FORMS = ("txt", "csv", "json", "html")


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> None:
    """Times of day are the machine's own."""
    monkeypatch.setenv("TZ", "UTC")


def written(found: Report, form: str, costs: Costs = COSTS) -> str:
    if form == "txt":
        return plain(report_text(found, sheets(found, costs), status()))
    if form == "csv":
        return comma_separated(sheets(found, costs))
    if form == "json":
        return answer(found, costs, replay=False).model_dump_json(indent=2) + "\n"
    return ledger_page(found, costs, UTC, now=UNTIL)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", list(Kind))
def test_golden(kind: Kind, form: str) -> None:
    text = re.sub(r"(?s)<style>.*?</style>\s*", "", written(report(kind), form))
    path = GOLDEN / f"{kind}.{form}"
    if os.environ.get("DUTYCYCLE_REWRITE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text.encode())
    assert text == path.read_bytes().decode()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", list(Kind))
def test_an_empty_range_says_so_and_an_empty_ledger_what_to_do(kind: Kind, form: str) -> None:
    for ledger_from in (None, SINCE):
        found = nothing(kind, ledger_from)
        text = written(found, form)
        if form in ("txt", "html"):
            assert empty(found, UTC) in " ".join((parse(text).words if form == "html" else text).split())
    expected = "No incident" if kind is Kind.RULES else "The ledger is empty: the passes of `dutycycle up`"
    assert empty(nothing(kind), UTC).startswith(expected)


def test_costs_are_there_only_where_they_are_configured() -> None:
    (sheet,) = sheets(report(Kind.USERS), Costs())
    assert {Unit.MONEY, Unit.CO2}.isdisjoint(column.unit for column in sheet.columns)
    said = answer(report(Kind.USERS), Costs(), replay=False)
    assert isinstance(said, UsageAnswer)
    assert (said.rows[0].cost, said.rows[0].co2_kg) == (None, None)
    priced = answer(report(Kind.USERS), COSTS, replay=False)
    assert isinstance(priced, UsageAnswer)
    assert (priced.rows[0].cost, priced.rows[0].wasted_cost) == (2000, 1755)
    assert priced.rows[0].co2_kg == pytest.approx(380 * 4e8 / 3.6e9)
    assert (priced.rows[2].co2_kg, priced.rows[3].energy_kwh) == (None, None)


def test_rows_are_sorted_and_cut_and_totals_are_of_all() -> None:
    found = report(Kind.USERS)
    (sheet,) = sheets(found, COSTS, sort="utilization", limit=2)
    assert [row[0] for row in sheet.rows] == ["bob", "alice"]
    assert sheet.rest == 2
    (whole,) = sheets(found, COSTS, sort="user")
    assert [row[0] for row in whole.rows] == ["", "alice", "bob", "carol"]
    assert sheet.totals == whole.totals
    (unmeasured_last,) = sheets(found, COSTS, sort="wasted")
    assert unmeasured_last.rows[-1][0] == "carol"
    for kind in Kind:
        for key in sort_keys(kind):
            assert sheets(report(kind), COSTS, sort=key)


def test_json_has_pages() -> None:
    found = report(Kind.USERS)
    assert isinstance(found, UsageReport)
    page = usage_answer(found, COSTS, replay=False, limit=2, offset=1)
    assert ([row.name for row in page.rows], page.total, page.offset) == (["bob", ""], 4, 1)
    assert usage_answer(found, COSTS, replay=False, limit=2, offset=100).rows == []


def test_what_is_not_known_is_no_number_anywhere() -> None:
    found = report(Kind.USERS)
    carol = next(row for row in csv.DictReader(io.StringIO(written(found, "csv"))) if row["user"] == "carol")
    unknown = ("utilization_percent", "wasted_gpu_hours", "idle_gpu_hours", "energy_kwh", "busy_gpu_hours")
    assert [carol[name] for name in unknown] == [""] * len(unknown)
    assert carol["allocated_gpu_hours"] == "10"
    assert json.loads(written(found, "json"))["rows"][3]["mean_utilization_percent"] is None
    assert "unknown" in next(line for line in written(found, "txt").splitlines() if line.startswith("carol"))


def test_the_where_of_waste_adds_up_in_every_form() -> None:
    found = report(Kind.WASTE)
    where, *_ = sheets(found, COSTS)
    assert sum(float(row[1] or 0) for row in where.rows) == pytest.approx(1340 * HOUR)
    assert sum(float(row[2] or 0) for row in where.rows) == pytest.approx(1)
    said = answer(found, COSTS, replay=False)
    assert isinstance(said, WasteAnswer)
    assert said.where.whole_gpu_hours == 1340
    assert sum(value for (value, _), *_ in (bar.parts for bar in bars(found, "").rows)) == pytest.approx(1340 * HOUR)


@pytest.mark.parametrize("form", ["txt", "html"])
@pytest.mark.parametrize("kind", list(Kind))
def test_a_range_that_begins_before_the_ledger_is_noted(kind: Kind, form: str) -> None:
    said = "The ledger begins at 2025-06-08 15:06 UTC: nothing earlier is known."
    for begins, noted in ((None, False), (SINCE - 1, False), (SINCE, False), (SINCE + 1, True)):
        text = written(replace(report(kind), ledger_from=begins), form)
        assert (said in " ".join((parse(text).words if form == "html" else text).split())) is noted


def test_each_end_of_a_range_is_in_the_zone_of_then() -> None:
    """In a range across a change of clocks one zone is not that of both ends."""
    since, until = (datetime(2026, month, 20, tzinfo=UTC).timestamp() for month in (10, 11))
    found = report(Kind.USERS)
    across = replace(found, asked=replace(found.asked, since=since, until=until), ledger_from=since + HOUR)
    berlin = ZoneInfo("Europe/Berlin")
    assert span(across, berlin) == "2026-10-20 02:00 CEST to 2026-11-20 01:00 CET"
    assert notes(across, berlin)[0] == "The ledger begins at 2026-10-20 03:00 CEST: nothing earlier is known."
    within = replace(found, asked=replace(found.asked, since=until - HOUR, until=until))
    assert span(within, berlin) == "2026-11-20 00:00 to 2026-11-20 01:00 CET"


# Pictures


def image(png: bytes) -> Image.Image:
    with Image.open(io.BytesIO(png)) as opened:
        assert opened.format == "PNG"
        return opened.convert("RGB")


def has(png: bytes, color: str) -> bool:
    """Whether the colour, as it is on white, is somewhere in it."""
    solid = tuple(int(color[i : i + 2], 16) for i in (1, 3, 5))
    wanted = tuple(round(0.85 * part + 0.15 * 255) for part in solid)
    colors = image(png).getcolors(1 << 24)
    assert colors is not None
    return any(all(abs(a - b) <= 2 for a, b in zip(found, wanted, strict=True)) for _, found in colors)


@pytest.mark.parametrize("kind", list(Kind))
def test_every_report_is_a_picture(kind: Kind) -> None:
    png = picture(report(kind), UTC)
    assert image(png).size[0] == 2240
    assert has(png, BUSY)
    assert has(png, IDLE)
    assert image(picture(nothing(kind), UTC)).size[0] == 2240


def test_a_picture_of_good_users_has_nothing_of_the_colour_of_waste() -> None:
    found = UsageReport(report(Kind.USERS).asked, PEOPLE[1:2])
    assert not has(picture(found, UTC), IDLE)
    assert has(picture(found, UTC), BUSY)


def test_a_picture_has_so_many_bars_and_says_how_many_more_there_are() -> None:
    found = report(Kind.ACCOUNTS)
    assert isinstance(found, UsageReport)
    many = replace(found, rows=tuple(replace(PEOPLE[0], name=f"a{i}") for i in range(ROWS + 5)))
    shown = bars(many, "a week")
    assert (len(shown.rows), shown.note) == (ROWS, "a week; 5 more not shown")
    assert [tone for _, tone in shown.rows[0].parts] == [Tone.BUSY, Tone.WASTED, Tone.OTHER]
    assert sum(value for value, _ in shown.rows[0].parts) == PEOPLE[0].allocated


# Text from outside


MORE = [
    "=cmd|' /C calc'!A0",
    "+1+1",
    "-2+3",
    "@SUM(1,1)",
    " =1+1",
    "\t=1+1",
    "\N{FULLWIDTH EQUALS SIGN}1+1",
    'a","b\r\nc',
    "A" * 1_000_000,
]


def hostile(kind: Kind, name: str) -> Report:
    if kind is Kind.RULES:
        found = report(kind)
        assert isinstance(found, RulesReport)
        return replace(found, rows=(replace(found.rows[0], name=name),))
    if kind is Kind.WASTE:
        found_waste = report(kind)
        assert isinstance(found_waste, WasteReport)
        part = IncidentWaste(name, 1, HOUR, 1.0)
        return replace(found_waste, rules=(part,), causes=(part,))
    return UsageReport(
        replace(report(kind).asked, cluster=name[:500]), (GroupUsage(name, HOUR, HOUR, 1.0), PEOPLE[0]), SINCE
    )


@pytest.mark.parametrize("text", [*HOSTILE, *MORE], ids=range(len(HOSTILE) + len(MORE)))
@pytest.mark.parametrize("kind", [Kind.USERS, Kind.WASTE, Kind.RULES])
def test_hostile_names_do_nothing(kind: Kind, text: str) -> None:
    found = hostile(kind, text)
    table = written(found, "txt")
    assert "\x1b" not in table
    assert "\u202e" not in table
    page = written(found, "html")
    plain_page = parse(written(hostile(kind, "plain"), "html"))
    assert [element.tag for element in parse(page).walk()] == [element.tag for element in plain_page.walk()]
    assert len(page) < 100_000
    lines = list(csv.reader(io.StringIO(written(found, "csv"), newline="")))
    assert len({len(line) for line in lines}) == 1
    for cell in (cell for line in lines for cell in line):
        assert not cell.lstrip().startswith(("=", "+", "@", "\t", "\r", "\N{FULLWIDTH EQUALS SIGN}"))
        assert not cell.startswith("-")
        assert not set(cell) & set("\r\n\0\x1b\u202e")
    assert json.loads(written(found, "json"))


@pytest.mark.parametrize("text", [HOSTILE[0], HOSTILE[6], HOSTILE[7], HOSTILE[8], MORE[0]])
def test_hostile_names_are_drawn(text: str) -> None:
    assert image(picture(hostile(Kind.ACCOUNTS, text), UTC)).size[0] == 2240


@given(st.text(st.characters(codec=None), max_size=40))
def test_csv_is_read_back_row_by_row_and_no_cell_is_a_formula(name: str) -> None:
    found = UsageReport(report(Kind.USERS).asked, (GroupUsage(name, HOUR, HOUR, 1.0),))
    header, row = csv.reader(io.StringIO(comma_separated(sheets(found, COSTS)), newline=""))
    assert len(header) == len(row)
    assert row[0][:1] not in ("=", "+", "-", "@", "\t", "\r")
    assert comma_separated(sheets(found, COSTS)).endswith("\r\n")


def test_a_replay_is_said_in_every_form() -> None:
    found = report(Kind.USERS)
    assert comma_separated(sheets(found, COSTS), replay=True).splitlines()[1].endswith(",true")
    assert answer(found, COSTS, replay=True).replay
    assert "REPLAY" in ledger_page(found, COSTS, UTC, now=UNTIL, replay=True)
    assert "REPLAY" in plain(report_text(found, sheets(found, COSTS), status(replay=True)))
