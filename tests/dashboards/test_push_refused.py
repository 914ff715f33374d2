"""`dutycycle-dashboards push` where something is wrong: one line that names it and its remedy, nothing half done."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.dashboards.command import Done
from tests.fakes.grafana.server import LOGIN_PAGE, Answer, Cut, GrafanaServer

Push = Callable[..., Done]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (
            Answer(500, b'{"message": "database is locked"}'),
            r'500, it failed: its log says why \("database is locked"\)',
        ),
        (
            Answer(400, b'{"message": "bad \\u001b[31m <b>x</b>"}'),
            r'400, it refused what was sent \("bad �\[31m ‹b›x‹/b›"\)',
        ),
        (Answer(404, b"<h1>nginx</h1>", (("Content-Type", "text/html"),)), "404, it has no such thing"),
        (Answer(502, b"<h1>nginx</h1>", (("Content-Type", "text/html"),)), "502, it failed"),
        (Answer(200, b'{"x": ', (("Content-Type", "application/json"),)), "reading the folder"),
        (Answer(200, b"[]"), "answers, but not as Grafana does"),
        (Answer(200, b"null"), "answers, but not as Grafana does"),
        (Answer(200, b"[" * 100_000), "reading the folder"),
        (Cut.FLOOD, "the answer is more than 32 MiB"),
        (LOGIN_PAGE, "answers, but not as Grafana does.*log-in page"),
        (Answer(302, b"", (("Location", "https://elsewhere.example.org/login"),)), "it redirects to another address"),
        (Cut.CLOSE, "reading the folder dutycycle: "),
        (Cut.HALF, "reading the folder dutycycle: "),
    ],
)
def test_what_goes_wrong_is_said_in_one_line(
    grafana: GrafanaServer, push: Push, answer: Answer | Cut, said: str
) -> None:
    grafana.fail("GET *", answer, times=None)
    done = push()
    assert done.code == 1
    assert re.search(said, done.err), done.err
    assert done.err.startswith("dutycycle-dashboards: ")
    assert done.err.count("\n") == 1
    assert grafana.content.dashboards == {}


@pytest.mark.parametrize("cut", [Cut.HANG, Cut.DRIP])
def test_a_grafana_that_does_not_answer_is_not_waited_for(grafana: GrafanaServer, push: Push, cut: Cut) -> None:
    grafana.fail("GET *", cut)
    done = push("--timeout", "0.5")
    assert done.code == 1
    assert "it did not answer in time; --timeout gives it longer" in done.err


def test_no_grafana_at_all(push: Push) -> None:
    done = push(url="http://127.0.0.1:1")
    assert done.code == 1
    assert "Grafana at http://127.0.0.1:1, reading the folder dutycycle: " in done.err


def test_tokens_that_may_not(grafana: GrafanaServer, push: Push, tmp_path: Path) -> None:
    wrong, viewer = tmp_path / "wrong", tmp_path / "viewer"
    wrong.write_text("glsa_wrong")
    viewer.write_text(grafana.viewer)
    unknown, refused = push(token=wrong), push(token=viewer)
    assert (unknown.code, refused.code) == (1, 1)
    assert "401, the token is unknown or expired" in unknown.err
    assert "403, the token may not: its service account needs the role Editor" in refused.err


def test_the_token_is_never_said(grafana: GrafanaServer, push: Push) -> None:
    echo = json.dumps({"message": f"no {grafana.token} here"}).encode()
    grafana.fail("POST /folders", Answer(500, echo), times=1)
    said = [push(), push(), push("--dry-run")]
    assert said[0].code == 1
    assert "no (the token) here" in said[0].err
    assert not [done for done in said if grafana.token in done.out + done.err]
    assert {call.token for call in grafana.calls} == {grafana.token}


@pytest.mark.parametrize(
    ("arguments", "content", "said"),
    [
        (["--url", "http://grafana.example.org"], "t", "a token is not sent to grafana.example.org in the clear"),
        (["--url", "grafana.example.org"], "t", "is no address; write it like https://grafana.example.org"),
        (["--url", "http://admin:admin@127.0.0.1:1"], "t", "give a token file"),
        (["--url", "https://127.0.0.1:1/?verify=false"], "t", "leave out what begins with [?] or #"),
        (["--url", "http://127.0.0.1:x"], "t", "is no address"),
        (["--alerter-url", "javascript:alert(1)"], "t", "--alerter-url: .* is no address"),
        ([], "", "--token-file: .* is empty"),
        ([], "two words", "--token-file: .* holds no token"),
        ([], None, "--token-file: .* cannot be read: No such file"),
        (["--ca-file", "/nonexistent"], "t", "does not exist"),
        (["--timeout", "0"], "t", "--timeout"),
    ],
)
def test_wrong_usage_is_said_before_anything_is_sent(
    grafana: GrafanaServer, push: Push, token_file: Path, arguments: list[str], content: str | None, said: str
) -> None:
    if content is None:
        token_file.unlink()
    else:
        token_file.write_text(content)
    done = push(*arguments)
    assert done.code == 2
    assert re.search(said, done.err), done.err
    assert grafana.calls == []
