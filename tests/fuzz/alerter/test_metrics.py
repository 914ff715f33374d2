"""What Prometheus and exporters answer: JSON of the HTTP API, and the exposition's text."""

from __future__ import annotations

import math

from hypothesis import strategies as st

from dutycycle_alerter.errors import SourceError
from dutycycle_alerter.promql.decode import KnownSeries, decode_failure, decode_matrix, decode_vector
from dutycycle_alerter.promql.text import Matcher, parse_matcher, quote, selector
from dutycycle_alerter.recordings.record import Recorder
from dutycycle_alerter.sources.exposition import parse
from tests.alerter.sources.test_exposition import OURS, realistic
from tests.fuzz.hostile import jsons, texts
from tests.fuzz.running import fuzz

LABELS = ("node", "gpu", "job")
METRIC = {"__name__": "gpu_utilization_ratio", "node": "n1", "gpu": "0"}
VECTOR = {
    "resultType": "vector",
    "result": [{"metric": METRIC, "value": [1700000000.5, "0.25"]}, {"metric": {}, "value": [0, "NaN"]}],
}
MATRIX = {"resultType": "matrix", "result": [{"metric": METRIC, "values": [[1700000000, "1"], [1700000015.1, "+Inf"]]}]}
ANSWERS = (
    {"status": "success", "data": VECTOR, "warnings": ["PromQL info: x"], "infos": None, "isPartial": False},
    {"status": "success", "data": MATRIX},
    {"status": "error", "errorType": "bad_data", "error": "parse error"},
    {"status": "success", "data": {"resultType": "scalar", "result": [1700000000, "1"]}},
    {
        "status": "success",
        "data": {"resultType": "vector", "result": [{"metric": {}, "histogram": [1, {"count": "1"}]}]},
    },
)


@fuzz(body=jsons(ANSWERS, raw=['"vector"', '"matrix"', '"1e400"', '"0x1p3"', '"1_0"', '[0,"1"]', '[[0,"1"]]']))
def test_an_answer_is_series_or_refused(body: bytes) -> None:
    known = KnownSeries()
    for decode in (decode_vector, decode_matrix):
        try:
            answer = decode(body, LABELS, known)
        except SourceError as error:
            assert len(str(error)) < 2000
            assert str(error).isprintable()
            continue
        assert all(len(key) == len(LABELS) for key in answer.keys)
        if decode is decode_vector:
            assert len(answer.values) == len(answer.keys)
        assert decode(body, LABELS, known).keys == answer.keys, "the same again, from memory"
    failure = decode_failure(body)
    assert failure is None or (failure.error.isprintable() and failure.errorType.isprintable())


PAGE = realistic() + OURS
LINES = (
    *(
        'gpu_allocation{node="n1",gpu="0",gpu_uuid="GPU-0",mig="",workload="slurm/7",user="a"} 1\n',
        "# EOF\n",
        "# TYPE x y\n",
    ),
    *(
        "dutycycle_exporter_time_scale 0\n",
        "gpu_visible 1\n",
        'gpu_xid_last_seconds{xid="x"} 1\n',
        " 1 1700000000\n",
        "{} 1\n",
    ),
    *('{"gpu_visible"} 1\n', "# {a=", '\\"', "# HELP\n", "_total -1\n", "_total 1e300\n", 'workload=""', "nan\n"),
)


@fuzz(text=texts([PAGE[: PAGE.index("\n", 3000) + 1] + OURS, OURS], tokens=LINES))
def test_a_page_is_read_or_refused(text: str) -> None:
    try:
        found = parse(text)
    except SourceError as error:
        assert len(str(error)) < 2000
        return
    assert found.time_scale is not None
    assert math.isfinite(found.time_scale)
    for device in found.devices.values():
        for values in (device.readings, device.health, device.throttled, device.links):
            assert all(math.isfinite(value) for value in values.values())
        assert all(value >= 0 for value in device.links.values())
    for owned in found.owned.values():
        assert all(value is None or math.isfinite(value) for value in (*owned.counters, owned.share))
    recorder = Recorder()
    recorder.rows(found, 1000.0)
    for row in recorder.rows(found, 1010.0):
        ratio = row.get("utilization_ratio")
        assert ratio is None or 0 <= float(ratio) <= 1


MATCHERS = ('cluster="a"', 'node=~"gpu0.*"', "job!='x'", 'a!~"\\u0041\\n"')


@fuzz(text=texts(MATCHERS, tokens=["\\u", "\\ud800", "\\x", "=~", "!~", "__name__", '"} or up{a="']))
def test_a_matcher_means_the_same_when_it_is_written_again(text: str) -> None:
    try:
        matcher = parse_matcher(text)
    except ValueError:
        return
    assert parse_matcher(str(matcher)) == Matcher(matcher.label, matcher.operator, as_told(matcher.value))
    assert selector("up", [text]) == f"up{{{matcher}}}"


def as_told(value: str) -> str:
    """Halves of surrogate pairs are no text."""
    return "".join("\ufffd" if "\ud800" <= character <= "\udfff" else character for character in value)


@fuzz(value=st.text(max_size=60))
def test_no_value_breaks_out_of_its_quotes(value: str) -> None:
    assert parse_matcher(f"a={quote(value)}").value == as_told(value)
    assert "\n" not in quote(value)
