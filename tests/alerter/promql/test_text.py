"""Quoted strings and matchers mean to a real Prometheus what they mean here, whatever they hold."""

import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dutycycle_alerter.promql.text import Matcher, Operator, parse_matcher, quote, selector
from tests.prometheus.server import PrometheusServer

TEXT = st.text(max_size=40) | st.text("\\\"'`{}()[]=~!,;#$&\n\r\t\0\x07\x7f\ufffdnutx0aé", max_size=40)
LABELS = st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,10}", fullmatch=True).filter(lambda name: name != "__name__")


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with PrometheusServer(tmp_path_factory.mktemp("promql")) as server:
        yield server.url


def evaluated(url: str, query: str) -> Any:
    body = urllib.parse.urlencode({"query": query, "time": "0"}).encode()
    try:
        with urllib.request.urlopen(f"{url}/api/v1/query", body, timeout=60) as response:
            return json.load(response)["data"]["result"]
    except urllib.error.HTTPError as error:
        with error:
            raise ValueError(error.read()) from error


@given(value=TEXT)
def test_a_quoted_string_is_that_string(url: str, value: str) -> None:
    assert evaluated(url, quote(value))[1] == value


@given(value=TEXT)
def test_a_quoted_string_never_ends_early(url: str, value: str) -> None:
    """What stands behind it is still read as what it is: nothing of the value becomes PromQL."""
    assert evaluated(url, f"count_values({quote('v')}, absent(x{{a={quote(value)}}})) + 1")[0]["value"][1] == "2"


@pytest.mark.parametrize("value", ["\ud800", "a\udcffb"])
def test_what_no_label_can_be_is_the_replacement_character(url: str, value: str) -> None:
    assert evaluated(url, quote(value))[1] == value.replace("\ud800", "\ufffd").replace("\udcff", "\ufffd")


@given(label=LABELS, value=TEXT.filter(bool))
def test_a_matcher_asks_for_this_label_and_value(url: str, label: str, value: str) -> None:
    [series] = evaluated(url, f"absent({selector('x', [str(Matcher(label, '=', value))])})")
    assert series["metric"] == {label: value}


@given(label=LABELS, operator=st.sampled_from(get_args(Operator)), value=TEXT)
def test_a_written_matcher_is_read_as_it_was(label: str, operator: Operator, value: str) -> None:
    matcher = Matcher(label, operator, value)
    assert parse_matcher(str(matcher)) == matcher


@settings(max_examples=300)
@given(
    inner=st.lists(st.sampled_from([*"abn\\\"'{},= \t#", '\\"', "\\\\", "\\n", "\\'"]), max_size=8).map("".join),
    mark=st.sampled_from("\"'"),
)
def test_a_matcher_that_is_accepted_means_the_same_to_prometheus(url: str, inner: str, mark: str) -> None:
    try:
        matcher = parse_matcher(f"a={mark}{inner}{mark}")
    except ValueError:
        return
    [series] = evaluated(url, f"absent(x{{{matcher}}})")
    assert series["metric"] == ({"a": matcher.value} if matcher.value else {})
    # Prometheus knows an escaped quote only within quotes of its kind.
    if ("\\'" if mark == '"' else '\\"') not in inner.replace("\\\\", ""):
        assert evaluated(url, f"absent(x{{a={mark}{inner}{mark}}})")[0]["metric"] == series["metric"]


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ('cluster="a"', Matcher("cluster", "=", "a")),
        ("cluster='a'", Matcher("cluster", "=", "a")),
        (' node =~ "gpu0.*" ', Matcher("node", "=~", "gpu0.*")),
        ('node!~"a|b"', Matcher("node", "!~", "a|b")),
        ('_x!=""', Matcher("_x", "!=", "")),
        (r'a="\\d\"\n"', Matcher("a", "=", '\\d"\n')),
        (r"a='\u0041\uFFFD'", Matcher("a", "=", "A\ufffd")),
    ],
)
def test_matchers_as_people_write_them(text: str, meant: Matcher) -> None:
    assert parse_matcher(text) == meant


@pytest.mark.parametrize(
    "text",
    [
        "",
        "cluster",
        "cluster=a",
        'cluster=="a"',
        'cluster="a',
        'cluster="a"b"',
        'cluster="a","b"',
        'a="1",b="2"',
        'a="1"} or up{b="2"',
        '{a="1"}',
        '1a="x"',
        'a-b="x"',
        'é="x"',
        '__name__="up"',
        'a="line\nend"',
        r'a="\d"',
        r'a="\x41"',
        r'a="\ud800"',
        r'a="\u12"',
        'a="x"#',
        "a=`x`",
        'a>"1"',
    ],
)
def test_what_is_no_single_matcher_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"matcher|label"):
        parse_matcher(text)


def test_a_selector_holds_every_matcher() -> None:
    assert selector("up") == "up"
    assert selector("a:b", ["x='1'", 'y!~"2"']) == 'a:b{x="1",y!~"2"}'


@pytest.mark.parametrize("name", ["", "a b", "1a", "up{}", "a-b", 'up or "x"'])
def test_a_selector_is_of_a_metric(name: str) -> None:
    with pytest.raises(ValueError, match="metric's name"):
        selector(name)
