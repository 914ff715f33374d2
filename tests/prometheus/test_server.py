"""The engines that tests start hold what they were given, survive a restart, and scrape what they are told to."""

import json
import urllib.parse
import urllib.request
from pathlib import Path

import pytest

from tests.exporter.daemon import eventually
from tests.prometheus.server import PrometheusServer, VictoriaMetricsServer

T = 1_700_000_000
DATA = f"""\
# TYPE gpu_utilization_ratio gauge
gpu_utilization_ratio{{node="n1",gpu="0"}} 0.25 {T}
gpu_utilization_ratio{{node="n1",gpu="0"}} 0.5 {T + 15}
gpu_utilization_ratio{{node="n1",gpu="1"}} 1 {T + 15}
# EOF
"""


def ask(url: str, query: str, at: float) -> list[tuple[str, str]]:
    body = urllib.parse.urlencode({"query": query, "time": at}).encode()
    with urllib.request.urlopen(f"{url}/api/v1/query", body, timeout=60) as response:
        result = json.load(response)["data"]["result"]
    return sorted((one["metric"].get("gpu", ""), one["value"][1]) for one in result)


@pytest.mark.parametrize("engine", [PrometheusServer, VictoriaMetricsServer])
def test_backfilled_samples_are_answered_also_after_a_restart(
    engine: type[PrometheusServer] | type[VictoriaMetricsServer], tmp_path: Path
) -> None:
    with engine(tmp_path / "engine", openmetrics=DATA) as server:
        assert ask(server.url, "gpu_utilization_ratio", T + 20) == [("0", "0.5"), ("1", "1")]
        url = server.url
        server.stop()
        server.start()
        assert server.url == url
        assert ask(url, "max_over_time(gpu_utilization_ratio[1m])", T + 20) == [("0", "0.5"), ("1", "1")]


def test_targets_are_scraped_and_rules_evaluated(tmp_path: Path) -> None:
    rules = tmp_path / "rules.yml"
    rules.write_text("groups: [{name: g, rules: [{record: 'a:b', expr: 'vector(1) + count(up == 1)'}]}]\n")
    with PrometheusServer(tmp_path / "p", rules=[rules], interval="200ms") as server:
        server.configure([server.url.removeprefix("http://")])
        eventually(lambda: ask(server.url, 'a:b{} or up{job="other"}', _now(server.url)) == [("", "2")], "rule")


def _now(url: str) -> float:
    with urllib.request.urlopen(f"{url}/api/v1/query", b"query=time()", timeout=60) as response:
        return float(json.load(response)["data"]["result"][0])
