"""Links' counters become one that only rises."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dutycycle_exporter.nvml.link_bytes import LinkBytes


def test_it_counts_from_the_first_reading_of_each_link():
    links = LinkBytes()
    assert [links.read(0, 1000), links.read(1, 2000)] == [0, 0]
    assert [links.read(0, 1005), links.read(1, 2007)] == [5, 12]
    assert links.read(2, 3000) == 12


def test_what_a_link_carried_while_it_could_not_be_read_is_counted_later():
    links = LinkBytes()
    links.read(0, 10)
    links.read(1, 10)
    assert links.read(0, 11) == 1
    assert links.read(1, 15) == 6


def test_a_link_whose_counter_went_back_began_anew():
    links = LinkBytes()
    links.read(0, 10**12)
    assert links.read(0, 7) == 7


@given(st.lists(st.tuples(st.integers(0, 17), st.integers(0, 2**50)), max_size=60))
def test_whatever_links_say_it_never_falls(readings):
    links = LinkBytes()
    totals = [links.read(link, value) for link, value in readings]
    assert totals == sorted(totals)
