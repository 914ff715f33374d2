"""When digests come: by the clock on the wall, also on the days on which it is changed."""

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutycycle_alerter.notify.slots import Slots
from dutycycle_alerter.settings.calendar import Day

OSLO = ZoneInfo("Europe/Oslo")


def at(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


@pytest.mark.parametrize(
    ("slots", "now", "latest", "after"),
    [
        (Slots("08:00", None, OSLO), "2026-06-01T07:59+02:00", "2026-05-31T08:00+02:00", "2026-06-01T08:00+02:00"),
        (Slots("08:00", None, OSLO), "2026-06-01T08:00+02:00", "2026-06-01T08:00+02:00", "2026-06-02T08:00+02:00"),
        (Slots("08:00", Day.MON, OSLO), "2026-06-03T12:00+02:00", "2026-06-01T08:00+02:00", "2026-06-08T08:00+02:00"),
        # Across the change to winter a week has an hour more, and to summer one less.
        (Slots("08:00", Day.MON, OSLO), "2026-10-24T12:00+02:00", "2026-10-19T08:00+02:00", "2026-10-26T08:00+01:00"),
        (Slots("08:00", Day.MON, OSLO), "2026-03-28T12:00+01:00", "2026-03-23T08:00+01:00", "2026-03-30T08:00+02:00"),
        # 02:30 comes twice on one day, and not at all on another.
        (Slots("02:30", None, OSLO), "2026-10-25T02:30+01:00", "2026-10-25T02:30+02:00", "2026-10-26T02:30+01:00"),
        (Slots("02:30", None, OSLO), "2026-03-29T01:59+01:00", "2026-03-28T02:30+01:00", "2026-03-29T03:30+02:00"),
        # The end of Sunday is the first moment of Monday.
        (Slots("24:00", Day.SUN, OSLO), "2026-06-08T00:30+02:00", "2026-06-08T00:00+02:00", "2026-06-15T00:00+02:00"),
    ],
)
def test_the_slots_around_an_instant(slots: Slots, now: str, latest: str, after: str) -> None:
    assert (slots.latest(at(now)), slots.after(at(now))) == (at(latest), at(after))


@given(
    now=st.floats(1.5e9, 2.5e9),
    hour=st.integers(0, 24),
    day=st.none() | st.sampled_from(list(Day)),
    zone=st.sampled_from(["Europe/Oslo", "America/St_Johns", "Pacific/Apia", "Asia/Kathmandu", "UTC"]),
    scale=st.sampled_from([1.0, 1.0, 60.0, 3600.0]),
)
def test_slots_follow_each_other_without_a_gap(now: float, hour: int, day: Day | None, zone: str, scale: float) -> None:
    slots = Slots(f"{hour:02}:00", day, ZoneInfo(zone), scale)
    latest, after = slots.latest(now), slots.after(now)
    assert latest <= now < after
    assert slots.after(latest) == after
    assert slots.latest(after) == after
    period = (1 if day is None else 7) * 86400 / scale
    assert abs(after - latest - period) <= (7200 / scale if scale == 1 else 1e-6)
