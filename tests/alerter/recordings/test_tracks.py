"""How much time a row stands for, and to whom it belongs."""

from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutycycle_alerter.recordings.tracks import tracks
from tests.alerter.recordings.rows import START, lengths, recording


def weights(*rows):
    return tracks(recording(rows)).weights.tolist()


def test_row_stands_for_the_time_since_the_row_before():
    rows = [{"t": START + t} for t in (0, 10, 20, 32, 37, 47)]
    assert weights(*rows) == [10, 10, 10, 12, 5, 10]


def test_row_after_a_hole_stands_for_at_most_one_and_a_half_intervals():
    rows = [{"t": START + t} for t in (0, 10, 20, 100, 110, 120)]
    assert weights(*rows) == [10, 10, 10, 15, 10, 10]


def test_intervals_may_change_within_a_life():
    """Ten minutes at 1 s, then 9.8 hours at 60 s: one interval for the whole life made 0.33 hours of it."""
    fast, slow = [START + t for t in range(1, 601)], [START + 600 + 60 * i for i in range(1, 589)]
    found = tracks(recording([{"t": t} for t in (*fast, *slow)]))
    assert found.weights.sum() == pytest.approx(600 + 588 * 60, abs=90)
    assert found.weights[-1] == 60


def test_each_gpu_and_each_workload_has_its_own_interval():
    rows = [{"t": START + 10 * i, "gpu": "0"} for i in range(4)]
    rows += [{"t": START + 30 * i, "gpu": "1"} for i in range(4)]
    rows += [{"t": START + 5 * i, "gpu": "0", "workload": "other"} for i in range(4)]
    assert weights(*rows) == [10.0] * 4 + [30.0] * 4 + [5.0] * 4


def test_the_order_of_rows_does_not_matter():
    assert weights(*[{"t": START + t} for t in (40, 0, 20, 30, 10)]) == [10.0] * 5


def test_a_single_row_stands_for_nothing():
    assert weights({"t": START}, {"t": START + 1, "gpu": "1"}) == [0.0, 0.0]


def test_a_gpu_is_its_uuid_and_else_its_node_and_name():
    rows = [
        {"t": START, "node": "a", "gpu": "0"},
        {"t": START, "node": "b", "gpu": "0"},
        {"t": START, "node": "a", "gpu": "0", "gpu_uuid": "GPU-1"},
        {"t": START + 1, "node": "renamed", "gpu": "7", "gpu_uuid": "GPU-1"},
    ]
    assert sorted(len(track.rows) for track in tracks(recording(rows)).tracks) == [1, 1, 2]


def test_a_repeated_time_of_a_gpu_counts_once():
    found = tracks(recording([{"t": START}, {"t": START + 10}, {"t": START + 10}, {"t": START + 20}]))
    assert found.weights.tolist() == [10.0, 10.0, 0.0, 10.0]
    assert found.repeated == 1


def test_a_row_without_workload_belongs_to_nobody():
    found = tracks(recording([{"t": START + i, "workload": ""} for i in range(5)]))
    assert found.tracks == ()
    assert found.unowned == 5
    assert sum(found.weights) == 0


def test_no_rows_are_no_tracks():
    assert tracks(recording([])).tracks == ()


ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "t": st.integers(1, 60).map(float),
            "node": st.sampled_from("ab"),
            "gpu": st.sampled_from("01"),
            "gpu_uuid": st.sampled_from(["", "GPU-1"]),
            "workload": st.sampled_from(["", "x", "y"]),
        }
    ),
    max_size=40,
)


@given(ROWS)
def test_weights_are_what_the_definition_says(rows):
    times = defaultdict(set)
    for row in rows:
        gpu = row["gpu_uuid"] or (row["node"], row["gpu"])
        times[row["workload"], gpu].add(row["t"])
    expected = 0.0
    for (workload, _), distinct in times.items():
        ordered = sorted(distinct)
        if workload:
            expected += sum(lengths(ordered))
    assert sum(weights(*rows)) == pytest.approx(expected)
