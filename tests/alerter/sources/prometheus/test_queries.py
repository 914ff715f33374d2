"""The queries of a pass: a fixed set, that every engine understands, with nothing in them that anybody made up."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from dutycycle_alerter.backtest.prometheus import read_alike, reading
from dutycycle_alerter.model import Gpu
from dutycycle_alerter.promql.answers import Vector
from dutycycle_alerter.promql.client import Client
from dutycycle_alerter.settings import Settings
from dutycycle_alerter.sources.prometheus import queries, scope, selectors
from dutycycle_alerter.sources.prometheus.devices import DeviceEvidence
from dutycycle_alerter.sources.prometheus.identity import Sight
from dutycycle_alerter.sources.prometheus.recorded import COPIED, copy_of
from dutycycle_alerter.sources.prometheus.selectors import Query
from dutycycle_alerter.sources.prometheus.tables import Tables
from dutycycle_exporter import contract
from tests.alerter.sources.prometheus.conftest import Story

LABELS = {label for family in contract.FAMILIES.values() for label in family.labels}

SERVING = [{"kind": "serving", "namespace": "inference"}]


def settings(kinds: list[dict[str, str]] | None = None, time_scale: float = 1, **section: Any) -> Settings:
    given = {"prometheus": section, "kinds": kinds or [], "time_scale": time_scale}
    return Settings.model_validate(given).scaled()


def every(found: Settings) -> list[Query]:
    assert found.prometheus is not None
    return [
        query
        for shard in scope.shards(found.prometheus)
        for query in (
            *queries.identity(found, back=1800, shard=shard),
            *queries.evidence(found, shard=shard),
            *queries.accounts(found, span=60, shard=shard),
        )
    ]


def test_rules_read_a_day_only_where_there_are_serving_jobs() -> None:
    assert scope.windows(settings()).every == (900, 1800, 7200)
    assert scope.windows(settings(SERVING)).every == (900, 1800, 7200, 86400)


def test_rules_read_a_day_where_jobs_may_say_that_they_serve() -> None:
    """Also a backtest's reading."""
    told = Settings.model_validate({"prometheus": {}, "policies": {"opt_out": {"kinds": [{"partition": "serve"}]}}})
    assert scope.windows(told).every == (900, 1800, 7200, 86400)
    assert scope.windows(reading(told)).every == (900, 1800, 7200, 86400)


def test_rules_read_a_day_where_kubernetes_says_what_serves() -> None:
    """A Deployment is serving without any entry about it. A backtest asks no scheduler, and needs no such day."""
    found = Settings.model_validate({"prometheus": {}, "kubernetes": [{}]})
    assert scope.windows(found).every == (900, 1800, 7200, 86400)
    assert scope.windows(reading(found)).every == (900, 1800, 7200)


LABELLED: list[dict[str, Any]] = [
    {"kinds": [{"kind": "serving", "label": "app=vllm*"}]},
    {"uneven_by_design": [{"label": "app=vllm*"}]},
    {"policies": {"exceptions": [{"name": "a", "reason": "b", "exclude": True, "label": "app=vllm*"}]}},
    {"policies": {"opt_out": {"allowed": [{"label": "app=vllm*"}]}}},
    {"policies": {"opt_out": {"kinds": [{"label": "app=vllm*"}]}}},
]


@pytest.mark.parametrize("given", LABELLED)
def test_labels_of_pods_are_asked_for_once_where_an_entry_is_about_them(given: dict[str, Any]) -> None:
    """Also by a backtest, which leaves the kinds to whoever judges."""
    found = Settings.model_validate({"prometheus": {}} | given)
    for one in (found, reading(found)):
        asked = [query for query in queries.identity(one, back=1800) if query.name == "labels"]
        assert [query.text for query in asked] == [
            "max by (cluster, workload, label, value) (last_over_time(workload_label[1800000ms]))"
        ]
    assert not [query for query in every(settings(SERVING)) if query.name == "labels"]
    assert not read_alike(found, settings(SERVING))


def test_throttling_by_the_power_limit_is_asked_for_once() -> None:
    """Of GPUs: no rule on jobs reads it, and each answer has a line for every GPU there is."""
    asked = [query.window for query in every(settings()) if query.name == "throttle_power"]
    assert asked == [settings().judging.rules.throttled.window]


@pytest.mark.parametrize(("leaked", "throttled"), [("15m", "15m"), ("2h", "15m"), ("15m", "30m")])
def test_gpus_are_watched_for_the_longest_window_of_their_rules(leaked: str, throttled: str) -> None:
    """Otherwise a rule with the longer one would wait for ever."""
    rules = {"leaked_memory": {"window": leaked}, "throttled": {"window": throttled}}
    found = Settings.model_validate({"prometheus": {}, "judging": {"rules": rules}})
    (asked,) = (query for query in queries.evidence(found) if query.name == "seen_before")
    window = max(found.judging.rules.leaked_memory.window, found.judging.rules.throttled.window)
    assert (asked.window, f"offset {window * 1000:.0f}ms" in asked.text) == (window, True)
    gpu = Gpu("n1", "0", "G0", "", "H200")
    tables = Tables(10_000.0, [], {("n1", "G0", ""): gpu})
    tables.fold(asked, Vector([("n1",)], np.array([1.0])))
    sights = {"n1": Sight(fresh=True, steady=True, visible=1, expected=1)}
    tables.fold(Query("memory", "", selectors.DEVICE), Vector([("n1", "G0", "")], np.array([1.0])))
    (item,) = DeviceEvidence(tables, sights, scope.windows(found)).gpus()
    assert item.watched_from == 10_000.0 - window


def test_windows_are_wall_time() -> None:
    assert scope.windows(settings(time_scale=60)).every == (15, 30, 120)
    assert all("[15000ms]" in q.text for q in every(settings(time_scale=60)) if q.name == "busy" and q.window == 15)


def test_what_a_name_means_is_asked_once_for_each_window() -> None:
    asked = [(query.name, query.window) for query in queries.evidence(settings(SERVING))]
    assert len(asked) == len(set(asked))


def test_shards_ask_each_query_once_with_their_matcher_and_that_of_all() -> None:
    plain = every(settings())
    found = every(settings(matchers=['cluster="a"'], shards=['node=~"a.*"', 'node!~"a.*"']))
    assert len(found) == 2 * len(plain)
    for query in found:
        assert query.text.count('cluster="a"') == query.text.count("node=~") + query.text.count("node!~") > 0


def test_a_matcher_cannot_leave_its_quotes() -> None:
    hostile = r"""cluster='"} or vector(1) or up{x="\\'"""
    for query in every(settings(matchers=[hostile])):
        assert r'cluster="\"} or vector(1) or up{x=\"\\"' in query.text


def test_the_copies_of_a_minute_are_read_for_long_windows_alone() -> None:
    found = {(query.name, query.window): query.text for query in every(settings(SERVING, recorded=True))}
    for window in (7200.0, 86400.0):
        assert copy_of("workload_gpu_busy_seconds_total") in found["busy", window]
    for window in (900.0, 1800.0):
        assert "workload_gpu_busy_seconds_total{" not in found["busy", window]
        assert copy_of("workload_gpu_busy_seconds_total") not in found["busy", window]
    quick = every(settings(recorded=True, time_scale=60))
    assert not any(copy_of(metric) in query.text for query in quick for metric in COPIED)


@pytest.mark.parametrize("engine", ["prometheus", "victoriametrics"])
@pytest.mark.parametrize("section", [{"recorded": True, "matchers": ['node=~"gpu.*"']}], ids=["everything"])
def test_every_engine_understands_them(
    request: pytest.FixtureRequest, story: Story, engine: str, section: dict[str, Any]
) -> None:
    server = request.getfixturevalue(engine)
    found = settings(SERVING, url=server.url, **section)
    assert found.prometheus is not None
    client = Client(found.prometheus)
    for query in every(found):
        if query.text.endswith("ms]"):
            client.raw(query.text, at=story.at, labels=query.labels)
        else:
            client.instant(query.text, at=story.at, labels=query.labels)
    client.close()


@pytest.mark.parametrize("query", every(settings(SERVING)), ids=lambda query: f"{query.name}-{query.window:.0f}")
def test_what_is_asked_for_is_published(query: Query) -> None:
    """Metrics and labels are those of the exporter's own table."""
    names = set(re.findall(r"\b((?:workload|gpu|dutycycle)_[a-z_]+)\b(?=[\[{ )]|$)", query.text)) - set(LABELS)
    assert names
    families = {name.removesuffix("_bucket") for name in names}
    for name in families:
        assert name in contract.FAMILIES, query.text
    published = {label for name in families for label in contract.FAMILIES[name].labels} | {"scale"}
    grouped = {label for group in re.findall(r"(?:by|on) \(([^)]*)\)", query.text) for label in group.split(", ")}
    assert grouped <= published


def test_copies_of_a_minute_need_more_than_one_scrape_in_it() -> None:
    with pytest.raises(ValidationError, match="under a minute of real time"):
        settings(recorded=True, scrape_interval="1m")
    assert settings(recorded=True, scrape_interval="1m", time_scale=2).prometheus is not None
    assert settings(scrape_interval="1m").prometheus is not None


def test_an_engine_and_targets_exclude_each_other() -> None:
    with pytest.raises(ValidationError, match=r"prometheus and source\.targets exclude each other: remove one"):
        Settings.model_validate({"prometheus": {}, "source": {"targets": ["http://n1:9836/metrics"]}})
    assert Settings.model_validate({"prometheus": {}, "source": {"interval": "15s"}}).prometheus is not None
    assert Settings().prometheus is None
