"""Names are found in PromQL, and nothing else is taken for one."""

import pytest

from tests.dashboards.answers.names import Names, names


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        ('a{x="1", y=~"b{c}"}', Names([("a", ("x", "y"))])),
        (
            "100 * sum by (user) (rate(a_total[5m:1m] offset 1h30m)) / on (user) b",
            Names([("a_total", ()), ("b", ())], {"user"}),
        ),
        ("a:b:c1h * on (n, m) group_left (u) max without (i) (d)", Names([("a:b:c1h", ()), ("d", ())], {*"nmui"})),
        (
            'label_replace(count_values by (user) ("bin", a), "z", "0$1", "bin", "(\\\\d)")',
            Names([("a", ())], {"user", "bin"}, {"bin", "z"}),
        ),
        ('count_values("bin", floor(a / 1e-9))', Names([("a", ())], set(), {"bin"})),
        ("topk(5, a) > bool 3 or vector(0) and time() - b unless inf", Names([("a", ()), ("b", ())])),
        ("histogram_quantile(0.5, sum by (le) (a_bucket)) @ 5", Names([("a_bucket", ())], {"le"})),
        ("quantile by (x) (0.5, sum(a) by (x, y))", Names([("a", ())], {"x", "y"})),
    ],
)
def test_names(expr: str, expected: Names) -> None:
    assert names(expr) == expected


@pytest.mark.parametrize("expr", ['{x="1"}', "a & b"])
def test_what_cannot_be_told_is_an_error(expr: str) -> None:
    with pytest.raises(ValueError, match=r"PromQL|metric"):
        names(expr)
