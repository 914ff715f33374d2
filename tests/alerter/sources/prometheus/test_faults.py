"""An engine that is down, slow, empty or wrong tells nothing: nothing opens or resolves, and the status says why."""

from __future__ import annotations

import json
import re
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlencode

import pytest

from dutycycle_alerter.engine import Engine
from dutycycle_alerter.incidents.model import Incident
from dutycycle_alerter.model import Evidence, JobKind
from dutycycle_alerter.rules import Outcome
from dutycycle_alerter.rules.device_memory import judge_leaked_memory
from dutycycle_alerter.settings import KindMatch, Settings
from dutycycle_alerter.sources.prometheus import PrometheusSource, queries
from dutycycle_alerter.sources.prometheus.asking import AT_ONCE, Deadline
from dutycycle_alerter.store import incidents
from dutycycle_alerter.store.database import get_meta, open_database
from dutycycle_alerter.store.status import WATERMARK
from tests.alerter.exporters import GIB
from tests.alerter.sources.prometheus.conftest import Story
from tests.fakes.clock import FakeClock
from tests.prometheus.server import PrometheusServer

Answer = tuple[int, bytes]
Rule = Callable[[str], Answer | None]


def result(rows: list[object], **more: object) -> bytes:
    data = {"resultType": "vector", "result": rows}
    return json.dumps({"status": "success", "data": data} | more).encode()


def error(kind: str, text: str) -> bytes:
    return json.dumps({"status": "error", "errorType": kind, "error": text}).encode()


@dataclass
class Proxy:
    """In front of a real engine: `rule` answers in its place where it answers at all."""

    engine: str
    rule: Rule = field(default=lambda _: None)
    asked: list[str] = field(default_factory=list)

    def answer(self, body: bytes) -> Answer:
        query = parse_qs(body.decode())["query"][0]
        self.asked.append(query)
        instead = self.rule(query)
        if instead is not None:
            return instead
        with urllib.request.urlopen(f"{self.engine}/api/v1/query", body, timeout=60) as response:
            return response.status, response.read()


@contextmanager
def serving(proxy: Proxy) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            status, content = proxy.answer(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@dataclass
class Rig:
    """An alerter over a proxy, its incidents, and a clock."""

    proxy: Proxy
    source: PrometheusSource
    settings: Settings
    run: Callable[[], None]
    clock: FakeClock
    active: Callable[[], list[Incident]]
    watermark: Callable[[], float]

    @property
    def said(self) -> str:
        (target,) = self.source.targets()
        return "; ".join((target.error, target.note))


@pytest.fixture(scope="module")
def judged(prometheus: PrometheusServer, story: Story, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """Jobs have been judged once; slurm/6 and slurm/4 idle."""
    tmp_path: Path = tmp_path_factory.mktemp("store")
    clock = FakeClock(story.at)
    proxy = Proxy(prometheus.url)
    with serving(proxy) as url:
        section = {"url": url, "scrape_interval": story.past.interval, "timeout": 20}
        given = {"prometheus": section, "database": f"sqlite:///{tmp_path}/a.sqlite3"}
        settings = Settings.model_validate(given).scaled()
        database = open_database(settings.database)
        source = PrometheusSource(settings, database)
        engine = Engine(settings, source, database, clock)

        def active() -> list[Incident]:
            with database.read() as connection:
                return incidents.active(connection)

        def watermark() -> float:
            with database.read() as connection:
                return float(get_meta(connection, WATERMARK))

        engine.run_pass()
        clock.advance(61)
        yield Rig(proxy, source, settings, engine.run_pass, clock, active, watermark)
        engine.close()
        source.close()
        database.close()


@pytest.fixture
def rig(judged: Rig) -> Iterator[Rig]:
    """The same, without the faults of another test."""
    yield judged
    judged.proxy.rule = lambda _: None


def always(status: int, body: bytes) -> Rule:
    return lambda _: (status, body)


def where(part: str, status: int, body: bytes) -> Rule:
    return lambda query: (status, body) if part in query else None


FAULTS: dict[str, tuple[Rule, str]] = {
    "overloaded": (always(503, error("unavailable", "try later")), "answered 503 unavailable: try later"),
    "too slow": (always(503, error("timeout", "query timed out")), "query timed out"),
    "empty": (always(200, result([])), "the engine has no gpu_visible"),
    "not JSON": (always(200, b"\x00<html>"), "not that of a Prometheus API"),
    "cut off": (always(200, result([])[:-9]), "not that of a Prometheus API"),
    "another shape": (always(200, b'{"status":"success","data":{"resultType":"scalar","result":[]}}'), "a scalar"),
    "another type": (always(200, result([{"metric": {"node": 5}, "value": [1, "1"]}])), "not that of a Prometheus API"),
    "partial": (always(200, result([], isPartial=True)), "the answer is partial"),
    "allocations missing": (where("max by (cluster, node, gpu,", 422, error("execution", "too many")), "too many"),
    "owners missing": (where("first_process_timestamp", 500, error("internal", "no")), "answered 500 internal: no"),
    "a reading missing": (where("gpu_power_limit_watts", 500, error("internal", "no")), "answered 500 internal: no"),
    "another time scale": (
        where("time_scale", 200, result([{"metric": {"scale": "60"}, "value": [1, "3"]}])),
        "exporters run at time scale 60, the alerter at 1",
    ),
    "a node's exporter gone": (where("timestamp(gpu_visible", 200, result([])), ""),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_nothing_opens_and_nothing_resolves(rig: Rig, fault: str) -> None:
    rule, told = FAULTS[fault]
    before, watermark = rig.active(), rig.watermark()
    assert {"slurm/4", "slurm/6"} <= {incident.subject for incident in before}
    rig.proxy.rule = rule
    rig.run()
    assert told in rig.said
    after = rig.active()
    assert [(one.subject, one.state, one.rule) for one in after] == [
        (one.subject, one.state, one.rule) for one in before
    ]
    if told:
        assert rig.watermark() == watermark


def test_it_goes_on_when_the_engine_is_back(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "dutycycle_alerter.source_log")
    watermark = rig.watermark()
    rig.proxy.rule = always(503, error("unavailable", "try later"))
    rig.clock.advance(61)
    rig.run()
    assert "503" in rig.said
    rig.proxy.rule = lambda _: None
    rig.run()
    assert "503" not in rig.said
    assert rig.watermark() > watermark
    begins, ends = caplog.messages
    url = rig.source.targets()[0].url
    assert re.fullmatch(rf"{url}/api/v1/\S+: answered 503 .*", begins)
    assert ends.startswith(f"{url} answers again, after ")


@pytest.mark.parametrize("column", ['idle_gap_seconds_total{length="lt2"}[900000ms]', "busy_seconds_total[900000ms]"])
def test_a_window_of_which_a_part_is_missing_is_unknown_as_a_whole(rig: Rig, column: str) -> None:
    """Otherwise a rule that lacks a kind of evidence would not be evaluable, and its incident would resolve."""
    rig.proxy.rule = where(column, 422, error("execution", "too many samples"))
    with rig.source.evidence(rig.clock()) as evidence:
        job = next(item for item in evidence.jobs if item.job.id == "slurm/1")
        assert [usage.observed for usage in job.window(900).gpus] == [0, 0]
        assert [usage.observed > 1700 for usage in job.window(1800).gpus] == [True, True]
    assert "1 queries have no answer" in rig.said
    assert rig.source.targets()[0].error == ""
    assert "too many samples" in rig.said


def test_what_the_engine_remarks_of_its_answers_is_in_the_note(rig: Rig) -> None:
    """And no longer than it says so."""
    remarked = result([], warnings=["PromQL warning: encountered a mix (1:5)"], infos=["PromQL info: odd (2:7)"])
    rig.proxy.rule = lambda query: (200, remarked) if "throttle_seconds_total" in query else None
    for told in (True, False):
        with rig.source.evidence(rig.clock()):
            pass
        (target,) = rig.source.targets()
        said = "the engine says: PromQL info: odd; PromQL warning: encountered a mix"
        assert (target.error, said in target.note) == ("", told)
        rig.proxy.rule = lambda _: None


def test_what_was_learned_outlasts_a_query_that_fails_and_a_restart(rig: Rig, story: Story) -> None:
    """Also where the alerter was killed; on a full cluster there is no free GPU to learn from again."""
    again = PrometheusSource(rig.settings, rig.source._database)
    again.restore()
    rig.proxy.rule = where("quantile", 500, error("internal", "no"))
    with again.evidence(story.at) as evidence:
        job = next(item for item in evidence.jobs if item.job.id == "slurm/1")
        assert job.window(900).gpus[0].idle_power == 65
    again.close()


def test_the_baseline_is_the_lowest_ever_learned_also_after_a_restart(rig: Rig, story: Story) -> None:
    """The leaking GPU may be the only free one of its model."""
    leaking = result([{"metric": {"model": "NVIDIA H200"}, "value": [1, str(10 * GIB)]}])
    rig.proxy.rule = lambda query: (200, leaking) if "quantile" in query and "memory_used" in query else None
    again = PrometheusSource(rig.settings, rig.source._database)
    again.restore()
    for source in (rig.source, again):
        for _ in range(2):
            with source.evidence(story.at) as evidence:
                leak = next(one for one in evidence.gpus if one.memory_used == 10 * GIB)
                assert leak.memory_baseline == 0.5 * GIB
                assert judge_leaked_memory(leak, rig.settings.judging).outcome is Outcome.FIRING
    again.close()


def test_policies_by_label_see_the_labels_of_the_jobs_pods(rig: Rig, story: Story) -> None:
    labels = [
        {"metric": {"cluster": "", "workload": "slurm/6", "label": name, "value": value}, "value": [1, "1"]}
        for name, value in (("app", "vllm-8b"), ("team", "a"))
    ]
    rig.proxy.rule = lambda query: (200, result([*labels])) if "workload_label" in query else None
    kinds = (KindMatch(kind=JobKind.SERVING, label="app=vllm*"),)
    source = PrometheusSource(rig.settings.model_copy(update={"kinds": kinds}), rig.source._database)
    with source.evidence(story.at) as evidence:
        jobs = {item.job.id: item.job for item in evidence.jobs}
    assert (jobs["slurm/6"].labels, jobs["slurm/6"].kind) == ({"app": "vllm-8b", "team": "a"}, JobKind.SERVING)
    assert (jobs["slurm/4"].labels, jobs["slurm/4"].kind) == ({}, JobKind.BATCH)
    source.close()


def test_series_of_answers_that_do_not_come_again_do_not_add_up(rig: Rig, story: Story) -> None:
    """On a busy cluster every pass sees other jobs."""
    passing = iter(range(1_000))

    def other(query: str) -> tuple[int, bytes] | None:
        if "workload_label" not in query:
            return None
        series = {"cluster": "", "workload": f"slurm/{next(passing)}", "label": "team", "value": "a"}
        return 200, result([{"metric": series, "value": [1, "1"]}])

    rig.proxy.rule = other
    kinds = (KindMatch(kind=JobKind.SERVING, label="app=vllm*"),)
    source = PrometheusSource(rig.settings.model_copy(update={"kinds": kinds}), rig.source._database)
    known = []
    for _ in range(8):
        with source.evidence(story.at):
            pass
        assert source._client is not None
        known.append(len(source._client._known._keys))
    assert len(set(known[3:])) == 1, known
    source.close()


def test_idle_power_follows_down_at_once_and_up_slowly(rig: Rig, story: Story) -> None:
    drawn = [0.0]
    rig.proxy.rule = lambda query: (
        (200, result([{"metric": {"model": "NVIDIA H200"}, "value": [1, str(drawn[0])]}]))
        if "quantile" in query and "power_watts" in query
        else None
    )
    for drawn[0], expected in ((60.0, 60.0), (400.0, 60.06)):
        with rig.source.evidence(story.at) as evidence:
            job = next(item for item in evidence.jobs if item.job.id == "slurm/1")
            assert job.window(900).gpus[0].idle_power == pytest.approx(expected)


def test_an_engine_that_is_not_there(rig: Rig) -> None:
    before = rig.active()
    section = rig.settings.prometheus
    assert section is not None
    nowhere = section.model_copy(update={"url": "http://127.0.0.1:9", "timeout": 1.0})
    source = PrometheusSource(rig.settings.model_copy(update={"prometheus": nowhere}), rig.source._database)
    with source.evidence(rig.clock() + 60) as evidence:
        assert (evidence.jobs, evidence.gpus, evidence.nodes) == ((), (), ())
        assert evidence.accounted_until == rig.watermark()
    (target,) = source.targets()
    assert target.last_success is None
    assert "127.0.0.1:9" in target.error
    source.close()
    assert rig.active() == before


@dataclass
class Hanging:
    """An alerter whose engine does not answer what `hangs` names, and what it then asked of that."""

    rig: Rig
    released: threading.Event = field(default_factory=threading.Event)
    asked: list[str] = field(default_factory=list)

    def look(self, at: float, hangs: Callable[[str], bool], **limits: float) -> tuple[Evidence, str]:
        def rule(query: str) -> Answer | None:
            if not hangs(query):
                return None
            self.asked.append(query)
            self.released.wait()
            return 503, b""

        section = self.rig.settings.prometheus
        assert section is not None
        self.rig.proxy.rule = rule
        settings = self.rig.settings.model_copy(update={"prometheus": section.model_copy(update=limits)})
        source = PrometheusSource(settings, self.rig.source._database)
        with source.evidence(at) as evidence:
            said = source.targets()[0].error
        source.close()
        return evidence, said


@pytest.fixture
def hanging(rig: Rig) -> Iterator[Hanging]:
    made = Hanging(rig)
    yield made
    made.released.set()


def test_an_engine_that_hangs_is_not_asked_everything(hanging: Hanging) -> None:
    """Without who holds what nothing can be said: the first failure ends the pass."""
    evidence, said = hanging.look(hanging.rig.clock(), lambda _: True, timeout=0.5)
    assert (evidence.jobs, evidence.gpus, evidence.accounted_until) == ((), (), hanging.rig.watermark())
    assert "no complete answer within 0.5 s" in said
    assert len(hanging.asked) <= AT_ONCE


def test_a_pass_ends_in_time_however_many_queries_hang(hanging: Hanging) -> None:
    """What was not answered by then is unknown."""
    windows = {query.text for query in queries.evidence(hanging.rig.settings)}
    evidence, said = hanging.look(hanging.rig.clock(), windows.__contains__, timeout=600.0, pass_timeout=2.0)
    assert (evidence.jobs, evidence.gpus, evidence.accounted_until) == ((), (), hanging.rig.watermark())
    assert "no complete answer" in said or "pass_timeout" in said
    assert len(hanging.asked) <= AT_ONCE


def test_catching_up_goes_on_at_the_next_pass_where_time_runs_short(rig: Rig) -> None:
    deadline = Deadline(600)
    source = PrometheusSource(rig.settings, rig.source._database)
    since = rig.clock() - 86400
    whole = source._accounting.account(rig.clock(), since, deadline)
    deadline._at -= 400
    part = source._accounting.account(rig.clock(), since, deadline)
    assert since < part.until < whole.until
    assert part.error == ""
    source.close()


def test_nothing_of_a_job_is_ever_part_of_a_query(rig: Rig, story: Story) -> None:
    """Whatever users, jobs and nodes are called."""
    rig.proxy.asked.clear()
    with rig.source.evidence(story.at + 61) as evidence:
        assert evidence.jobs
    asked = "\n".join(rig.proxy.asked)
    for name in ("slurm/", "brien", "alice", "gpu01", "GPU-"):
        assert name not in asked
    fixed = len(queries.identity(rig.settings, back=1.0)) + len(queries.evidence(rig.settings))
    assert len(rig.proxy.asked) in (fixed, fixed + len(queries.accounts(rig.settings, span=60)))


def test_an_instance_is_not_beyond_measuring_because_the_engine_had_nothing_of_it_while_it_was_away(
    rig: Rig, story: Story, tmp_path: Path
) -> None:
    database = open_database(f"sqlite:///{tmp_path}/a.sqlite3")
    source = PrometheusSource(rig.settings, database)

    def unmeasured(query: str) -> Answer | None:
        if queries.ACCOUNTED["observed"] not in query or "increase" not in query:
            return None
        body = urlencode({"query": f"({query}) * 0", "time": story.at}).encode()
        with urllib.request.urlopen(f"{rig.proxy.engine}/api/v1/query", body, timeout=60) as response:
            return response.status, response.read()

    def allocated(at: float) -> set[float]:
        with source.evidence(at) as evidence:
            (item,) = [item for item in evidence.jobs if item.job.id == "slurm/6"]
            return {usage.allocated for usage in item.window(1800.0).gpus}

    rig.proxy.rule = unmeasured
    known = allocated(story.at)
    rig.proxy.rule = always(503, b"")
    with source.evidence(story.at):
        pass
    rig.proxy.rule = unmeasured
    assert (known, allocated(story.at), allocated(story.at + 15)) == ({1800.0}, {0.0}, {15.0})
    source.close()
    database.close()
