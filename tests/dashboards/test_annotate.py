"""`dutycycle-dashboards annotate`: incidents of a real alerter's API become annotations of Grafana, each once."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from dutycycle_alerter.incidents.model import Incident, Resolution, State
from dutycycle_alerter.model import Gpu
from dutycycle_alerter.settings.web import Auth
from dutycycle_alerter.views import IncidentFilter
from dutycycle_dashboards.publishing.marks import key_of
from tests.alerter.conftest import simulated as simulated  # noqa: PLC0414 - fixtures
from tests.alerter.conftest import store_file as store_file  # noqa: PLC0414
from tests.alerter.web.conftest import Client, Live
from tests.alerter.web.conftest import live as live  # noqa: PLC0414
from tests.alerter.web.conftest import live_site as live_site  # noqa: PLC0414
from tests.alerter.web.conftest import serve as serve  # noqa: PLC0414
from tests.alerter.web.doubles import FixedReader, incident
from tests.dashboards.command import Done, dutycycle_dashboards, environment, program
from tests.dashboards.conftest import reached, together
from tests.fakes.grafana.server import Answer, Cut, GrafanaServer

Annotate = Callable[..., Done]
Serve = Callable[..., Client]

THEN = float(round(time.time() - 7200))


@pytest.fixture
def annotate(grafana: GrafanaServer, token_file: Path) -> Annotate:
    """`dutycycle-dashboards annotate` from an alerter's address into the Grafana."""

    def run(alerter: str, *arguments: str | Path, token: Path | None = None) -> Done:
        where = ("--url", grafana.url, "--token-file", token or token_file, "--alerter", alerter)
        return dutycycle_dashboards("annotate", *where, *arguments)

    return run


def incidents(count: int = 1, **changes: object) -> list[Incident]:
    """Open incidents with numbers from 1."""
    return [incident(**{"id": number, "started_at": THEN, **changes}) for number in range(1, count + 1)]  # type: ignore[arg-type]


def resolved(one: Incident, ago: float = 600.0) -> Incident:
    at = float(round(time.time() - ago))
    return replace(one, state=State.RESOLVED, resolved_at=at, resolution=Resolution.CLEARED)


def written(grafana: GrafanaServer) -> list[dict[str, object]]:
    return list(grafana.content.annotations.values())


def test_every_incident_of_a_real_store_is_written_once(grafana: GrafanaServer, annotate: Annotate, live: Live) -> None:
    first = annotate(live.client.url)
    assert (first.code, first.err) == (0, "")
    _, total = live.store.incidents(IncidentFilter(), limit=1)
    assert len(grafana.content.annotations) == total > 3
    assert f"{total} created, 0 changed, 0 unchanged" in first.out
    grafana.calls.clear()
    second = annotate(live.client.url)
    assert (second.code, grafana.writes()) == (0, [])
    assert second.out == f"0 created, 0 changed, {total} unchanged\n"


def test_what_an_annotation_says(grafana: GrafanaServer, annotate: Annotate, serve: Serve) -> None:
    gpus = (Gpu("gpu1", "0", "GPU-1", model="H100"), Gpu("gpu2", "0", "GPU-2", model="H100"))
    one = incidents(cluster="alps", scheduler="slurm", gpus=gpus)[0]
    assert annotate(serve(FixedReader(found=[one])).url).code == 0
    (found,) = written(grafana)
    assert found["time"] == found["timeEnd"] == THEN * 1000
    assert found["text"] == "Both GPUs are idle: slurm/1 of alice (warning, incident 1)"
    assert found["tags"] == [
        "dutycycle",
        "incident:1",
        "cluster:alps",
        "rule:idle",
        "severity:warning",
        "user:alice",
        "workload:slurm/1",
        "node:gpu1",
        "node:gpu2",
    ]


def test_a_resolution_is_patched_and_a_new_opening_takes_the_end_away(
    grafana: GrafanaServer, annotate: Annotate, serve: Serve
) -> None:
    opened = incidents()[0]
    over = resolved(opened)
    reader = FixedReader(found=[opened])
    url = serve(reader).url
    annotate(url)
    before = written(grafana)[0].copy()
    reader.found = [over]
    done = annotate(url)
    assert "0 created, 1 changed, 0 unchanged" in done.out
    assert grafana.writes() == ["POST /annotations", "PATCH /annotations/1"]
    assert set(grafana.calls[-1].said) == {"timeEnd", "text"}
    (after,) = written(grafana)
    assert over.resolved_at is not None
    assert after["timeEnd"] == round(over.resolved_at * 1000)
    assert after["tags"] == before["tags"]
    assert "resolved: cleared, 2.0 GPU-hours wasted" in str(after["text"])
    reader.found = [opened]
    assert annotate(url).code == 0
    assert written(grafana) == [before]


def test_what_changes_with_every_pass_is_not_written_again(
    grafana: GrafanaServer, annotate: Annotate, serve: Serve
) -> None:
    reader = FixedReader(found=incidents())
    url = serve(reader).url
    annotate(url)
    reader.found = incidents(wasted=9e6, energy=9e9, updated_at=time.time())
    assert annotate(url).out == "0 created, 0 changed, 1 unchanged\n"


def test_annotations_of_others_are_left_alone(grafana: GrafanaServer, annotate: Annotate, serve: Serve) -> None:
    others = [
        {"time": int(THEN * 1000), "text": "deployed", "tags": ["deploy"]},
        {"time": int(THEN * 1000), "text": "by hand", "tags": ["dutycycle"]},
        {"time": int(THEN * 1000), "text": "another's", "tags": ["incident:1"]},
        {"time": int(THEN * 1000), "text": "another cluster's", "tags": ["dutycycle", "incident:1", "cluster:b"]},
        {"time": int(THEN * 1000) - 1, "text": "of an older store", "tags": ["dutycycle", "incident:1"]},
    ]
    for one in others:
        grafana.content.annotate(one)
    before = [dict(one) for one in written(grafana)]
    assert "1 created, 0 changed" in annotate(serve(FixedReader(found=incidents())).url).out
    assert written(grafana)[: len(others)] == before


def test_tags_that_people_add_stay(grafana: GrafanaServer, annotate: Annotate, serve: Serve) -> None:
    reader = FixedReader(found=incidents())
    url = serve(reader).url
    annotate(url)
    grafana.content.annotations[1]["tags"].append("seen by olga")
    assert "1 unchanged" in annotate(url).out
    reader.found = [replace(reader.found[0], rule="hung")]
    assert "1 changed" in annotate(url).out
    tags = grafana.content.annotations[1]["tags"]
    assert "seen by olga" in tags
    assert "rule:hung" in tags
    assert "rule:idle" not in tags


@pytest.mark.parametrize(("since", "count"), [("1h", 1), ("2h", 2), ("7d", 3)])
def test_only_those_that_were_open_within_the_time(
    grafana: GrafanaServer, annotate: Annotate, serve: Serve, since: str, count: int
) -> None:
    opened, young, old = incidents(3, started_at=THEN - 864000.0)
    reader = FixedReader(found=[opened, resolved(young, 5400.0), resolved(old, 86400.0)])
    assert annotate(serve(reader).url, "--since", since).code == 0
    assert len(grafana.content.annotations) == count


def test_a_dry_run_writes_nothing(grafana: GrafanaServer, annotate: Annotate, serve: Serve) -> None:
    done = annotate(serve(FixedReader(found=incidents(2))).url, "--dry-run")
    assert (done.code, grafana.writes()) == (0, [])
    assert "created   1 of 2 GPUs is idle: slurm/1 of alice (warning, incident 2)" in done.out
    assert done.out.endswith("would be: 2 created, 0 changed, 0 unchanged\n")


def test_many_pages(grafana: GrafanaServer, annotate: Annotate, serve: Serve) -> None:
    assert annotate(serve(FixedReader(found=incidents(450))).url).code == 0
    assert {key_of(one["tags"]) for one in written(grafana)} == {(str(number), "") for number in range(1, 451)}


def test_a_run_that_is_killed_is_finished_by_the_next(
    grafana: GrafanaServer, token_file: Path, annotate: Annotate, serve: Serve
) -> None:
    url = serve(FixedReader(found=incidents(5))).url
    grafana.fail("POST /annotations", Cut.HANG, skip=2)
    arguments = ["annotate", "--url", grafana.url, "--token-file", str(token_file), "--alerter", url]
    with subprocess.Popen(
        [str(program()), *arguments], stdout=subprocess.PIPE, text=True, env=environment(PYTHONUNBUFFERED="1")
    ) as process:
        assert process.stdout is not None
        assert [process.stdout.readline()[:7] for _ in range(2)] == ["created", "created"]
        reached(grafana, 3)
        process.send_signal(signal.SIGKILL)
    assert annotate(url).out.endswith("3 created, 0 changed, 2 unchanged\n")
    assert len(grafana.content.annotations) == 5


def test_two_runs_at_once_write_each_once(grafana: GrafanaServer, annotate: Annotate, serve: Serve) -> None:
    url = serve(FixedReader(found=incidents(3))).url
    together(grafana, "/annotations", 2)
    with ThreadPoolExecutor(2) as pool:
        done = [one.result() for one in [pool.submit(annotate, url), pool.submit(annotate, url)]]
    assert [(one.code, one.err) for one in done] == [(0, ""), (0, "")]
    assert sorted(key_of(one["tags"]) for one in written(grafana)) == [(str(n), "") for n in (1, 2, 3)]  # type: ignore[type-var]


def test_copies_that_were_left_are_merged_by_the_next_run(
    grafana: GrafanaServer, annotate: Annotate, serve: Serve
) -> None:
    reader = FixedReader(found=incidents())
    url = serve(reader).url
    annotate(url)
    copy = {**written(grafana)[0], "tags": [*grafana.content.annotations[1]["tags"], "seen by olga"]}
    grafana.content.annotate(copy)
    grafana.content.annotate({"time": copy["time"], "text": "by hand", "tags": ["dutycycle"]})
    reader.found = [resolved(reader.found[0])]
    assert annotate(url, "--dry-run").out.endswith("would be: 0 created, 1 changed, 0 unchanged, 1 merged\n")
    assert len(written(grafana)) == 3
    assert annotate(url).out.endswith("0 created, 1 changed, 0 unchanged, 1 merged\n")
    ours, theirs = written(grafana)
    assert (ours["id"], theirs["text"]) == (1, "by hand")
    assert "seen by olga" in grafana.content.annotations[1]["tags"]
    assert "resolved" in str(ours["text"])
    assert annotate(url).out == "0 created, 0 changed, 1 unchanged\n"


@pytest.mark.parametrize("status", [400, 422, 500])
def test_one_that_grafana_refuses_does_not_stop_the_others(
    grafana: GrafanaServer, annotate: Annotate, serve: Serve, status: int
) -> None:
    grafana.fail("POST /annotations", Answer(status, b'{"message": "not this one"}'), skip=1)
    done = annotate(serve(FixedReader(found=incidents(4))).url)
    assert done.code == 1
    assert done.out.endswith("3 created, 0 changed, 0 unchanged, 1 refused\n")
    assert "not this one" in done.err
    assert done.err.count("\n") == 1


def test_a_grafana_that_refuses_everything_is_not_asked_for_ever(
    grafana: GrafanaServer, annotate: Annotate, serve: Serve
) -> None:
    grafana.fail("POST /annotations", Answer(500, b"{}"), times=None)
    assert annotate(serve(FixedReader(found=incidents(40))).url).code == 1
    assert len(grafana.writes()) == 5


@pytest.mark.parametrize(
    "body",
    [
        b'[{"time": 1763596800000, "tags": ["dutycycle", "incident:1"]}]',
        b'[{"id": 1, "time": [1], "tags": ["dutycycle", "incident:1"]}]',
        b'[{"id": 1, "time": 1, "text": {"x": 1}, "tags": []}]',
        b'[{"id": 1, "time": 1, "text": "", "tags": [["x"]]}]',
        b"[null]",
        b'{"x": 1}',
        b"[" * 100_000,
    ],
)
def test_annotations_that_are_none_are_said_in_one_line(
    grafana: GrafanaServer, annotate: Annotate, serve: Serve, body: bytes
) -> None:
    grafana.fail("GET /annotations", Answer(200, body))
    done = annotate(serve(FixedReader(found=incidents())).url)
    assert (done.code, done.err.count("\n"), grafana.writes()) == (1, 1, [])
    assert done.err.startswith("dutycycle-dashboards: ")


HOSTILE = (
    "<script>alert(1)</script>",
    "\x1b[2J\x1b]0;title\x07\r\n\x00",
    "${__from} $x &lt;b&gt;",
    "a:b:c:d",
    "\u202egnp.exe",
    "x" * 2**20,
    "ж" * 400,
    " , , ",
)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_stays_text(grafana: GrafanaServer, annotate: Annotate, serve: Serve, text: str) -> None:
    url = serve(FixedReader(found=[incident(text, id=1, started_at=THEN)])).url
    done = annotate(url)
    assert (done.code, done.err) == (0, "")
    (found,) = written(grafana)
    assert len(str(found["text"])) <= 300
    everything = str(found["text"]) + "".join(grafana.content.annotations[1]["tags"]) + done.out.replace("\n", "")
    assert not re.search(r"[<>&$\x00-\x1f\x7f\u202e]", everything)
    assert annotate(url).out == "0 created, 0 changed, 1 unchanged\n"


def test_incidents_of_a_megabyte_each_are_read_in_smaller_pages(
    grafana: GrafanaServer, annotate: Annotate, serve: Serve
) -> None:
    many = [incident("y" * 2**20, id=number, started_at=THEN) for number in range(1, 9)]
    assert annotate(serve(FixedReader(found=many)).url).code == 0
    assert len(grafana.content.annotations) == 8


def test_an_alerter_that_wants_a_token(
    grafana: GrafanaServer, annotate: Annotate, serve: Serve, tmp_path: Path
) -> None:
    path = tmp_path / "alerter.token"
    path.write_text("viewer-of-the-dashboards-0000")
    auth = Auth.model_validate({"tokens": [{"name": "dashboards", "role": "viewer", "token_file": str(path)}]})
    url = serve(FixedReader(found=incidents()), auth=auth, key=bytes(32)).url
    refused = annotate(url)
    assert refused.code == 1
    assert f"the alerter at {url.rstrip('/')}: 401, it wants a token: --alerter-token-file" in refused.err
    assert annotate(url, "--alerter-token-file", path).code == 0
    assert len(grafana.content.annotations) == 1


def test_a_token_for_the_alerter_is_not_sent_in_the_clear(annotate: Annotate, token_file: Path) -> None:
    done = annotate("http://gpus.example.org", "--alerter-token-file", token_file)
    assert done.code == 2
    assert "--alerter: a token is not sent to gpus.example.org in the clear" in done.err


def test_what_is_no_alerter(grafana: GrafanaServer, annotate: Annotate, serve: Serve) -> None:
    for alerter, said in (
        (grafana.url, "401, it wants a token"),
        ("http://127.0.0.1:1", "Connection refused"),
        (grafana.url + "/x", "the answer is no JSON"),
        (serve(FixedReader(broken=True)).url, "503, it failed"),
    ):
        done = annotate(alerter)
        assert done.code == 1
        assert said in done.err
        assert done.err.count("\n") == 1
    assert grafana.writes() == []


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Answer(200, b'{"incidents": {}}'), "not as the alerter's API does"),
        (Answer(200, b'{"incidents": [{"id": "x"}], "total": 1}'), "not as the alerter's API does"),
        (Answer(200, b"<html>"), "the answer is no JSON"),
        (Answer(200, b"[" * 100_000), "the answer is no JSON"),
        (Answer(302, b"", (("Location", "http://127.0.0.1:1/"),)), "302, it redirects"),
        (Cut.CLOSE, "the alerter at"),
        (Cut.HALF, "the alerter at"),
        (Cut.HANG, "it did not answer in time"),
        (Cut.DRIP, "it did not answer in time"),
        (Cut.FLOOD, "one incident alone is more than 32 MiB"),
    ],
)
def test_answers_of_an_alerter_that_are_none(
    grafana: GrafanaServer, annotate: Annotate, answer: Answer | Cut, said: str
) -> None:
    """Here the double plays the part of whatever answers at the alerter's address."""
    grafana.fail("GET /v1/incidents", answer, times=None)
    done = annotate(grafana.url, "--timeout", "1" if answer in (Cut.HANG, Cut.DRIP) else "30")
    assert done.code == 1
    assert said in done.err
    assert done.err.count("\n") == 1
    assert grafana.writes() == []


def test_a_token_that_may_only_read(grafana: GrafanaServer, annotate: Annotate, serve: Serve, tmp_path: Path) -> None:
    path = tmp_path / "viewer"
    path.write_text(grafana.viewer)
    done = annotate(serve(FixedReader(found=incidents())).url, token=path)
    assert done.code == 1
    assert "writing an annotation: 403, the token may not" in done.err


def test_a_time_that_is_none_is_left_out(grafana: GrafanaServer, annotate: Annotate) -> None:
    body = (
        b'{"incidents": [{"id": 1, "started_at": "soon"}, {"id": 2, "started_at": "2026-01-01T00:00:00Z"},'
        b'{"id": 3, "started_at": "1960-01-01T00:00:00Z"}], "total": 3}'
    )
    grafana.fail("GET /v1/incidents", Answer(200, body), times=None)
    done = annotate(grafana.url)
    assert done.code == 0
    assert done.err == "left out for want of a time that Grafana takes: incident 1, 3\n"
    assert len(grafana.content.annotations) == 1
