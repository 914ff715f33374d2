"""Our text format says what prometheus_client's parser reads: any label, any number, any family."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from dutycycle_exporter.contract import FAMILIES, Family
from dutycycle_exporter.exposition import Page, extended, heads, labels

GAUGE = Family("a_ratio", "gauge", ("x", "y", "z"), "A help.")
COUNTER = Family("b_total", "counter", ("x",), "Another.")
HISTOGRAM = Family("c_samples", "histogram", ("x",), "A third.")
HEADS = heads((GAUGE, COUNTER, HISTOGRAM))

# What UTF-8 can carry; our own sources of labels let printable text through alone.
TEXTS = st.text(st.characters(blacklist_categories=("Cs",)), max_size=40)
NUMBERS = st.one_of(st.floats(), st.integers(-(2**53), 2**53), st.booleans())


def parsed(page):
    return list(text_string_to_metric_families(page.text()))


def same(a, b):
    return a == b or (math.isnan(a) and math.isnan(b))


@given(TEXTS, TEXTS, TEXTS, NUMBERS)
def test_labels_and_values_come_back_as_they_were(x, y, z, value):
    page = Page(HEADS)
    page.add("a_ratio", extended(labels(("x", "y"), (x, y)), ("z", z)), value)
    [family] = parsed(page)
    [sample] = family.samples
    assert (family.type, family.documentation) == ("gauge", "A help.")
    assert sample.labels == {"x": x, "y": y, "z": z}
    assert same(sample.value, float(value))


@given(st.lists(st.floats(0, 1e9), min_size=4, max_size=4), st.floats(0, 1e9), TEXTS)
def test_a_histogram_is_cumulated_and_ends_with_everything(counts, total, x):
    page = Page(HEADS)
    page.add_histogram("c_samples", labels(("x",), (x,)), ("0.0", "0.5", "1.0"), counts, total)
    [family] = parsed(page)
    buckets = {sample.labels["le"]: sample.value for sample in family.samples if sample.name == "c_samples_bucket"}
    rest = {sample.name: sample.value for sample in family.samples if sample.name != "c_samples_bucket"}
    running = [sum(counts[: n + 1]) for n in range(4)]
    assert list(buckets) == ["0.0", "0.5", "1.0", "+Inf"]
    assert all(math.isclose(a, b) for a, b in zip(buckets.values(), running, strict=True))
    assert rest == {"c_samples_count": buckets["+Inf"], "c_samples_sum": total}
    assert all(sample.labels["x"] == x for sample in family.samples)


def test_what_is_not_known_is_no_series_and_a_family_without_series_no_family():
    page = Page(HEADS)
    page.add("a_ratio", "", None)
    assert page.text() == ""
    page.add("b_total", "", 0)
    assert page.text() == "# HELP b_total Another.\n# TYPE b_total counter\nb_total 0\n"


def test_a_page_that_is_given_away_by_families_is_the_same_and_keeps_nothing():
    page = Page(HEADS)
    for name in ("b_total", "a_ratio", "b_total"):
        page.add(name, "", 1)
    text = page.text()
    pieces = list(page.pieces())
    assert len(pieces) == 2
    assert "".join(pieces) == text
    assert page.text() == ""


def test_families_come_in_their_order_whatever_is_added_first():
    page = Page(HEADS)
    for name in ("b_total", "a_ratio", "b_total"):
        page.add(name, "", 1)
    assert [family.name for family in parsed(page)] == ["a_ratio", "b"]
    assert len(parsed(page)[1].samples) == 2


def test_no_help_text_needs_an_escape():
    """It is written as it is."""
    assert not [family.name for family in FAMILIES.values() if "\\" in family.help or "\n" in family.help]
