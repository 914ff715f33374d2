"""`dutycycle notify`: previews of messages, a test through one receiver, and what waits."""

from __future__ import annotations

import json
import re
import time
from dataclasses import replace
from pathlib import Path

import pytest

from dutycycle_alerter.errors import ConfigError, DeliveryError, IncidentNotFoundError
from dutycycle_alerter.notify.links import LinkError, Links
from dutycycle_alerter.notify.model import OPERATORS
from dutycycle_alerter.settings.notify import News
from dutycycle_alerter.store import outbox
from dutycycle_alerter.store.database import open_database
from dutycycle_alerter.store.reader import open_reader
from dutycycle_alerter.store.schema import delivery, notice
from tests.alerter.cli.test_tables import Shell, shell, squeezed
from tests.alerter.notify.listening import listening
from tests.alerter.web.html import parse

__all__ = ["shell"]

CONFIG = """
web: {public_url: "https://gpus.example.org"}
costs: {gpu_hour: 2.5, currency: EUR}
notify:
  receivers:
    - {name: hook, webhook: {url: "URL"}}
    - {name: broken, slack_webhook: {url_file: /nonexistent/url}}
"""


@pytest.fixture
def config(tmp_path: Path, shell: Shell) -> Path:
    path = tmp_path / "dutycycle.yaml"
    path.write_text(f"database: {shell.url}\n" + CONFIG.replace("URL", "http://127.0.0.1:9/hook"))
    return path


# Previews


def test_a_preview_says_what_the_owner_would_read(shell: Shell, config: Path) -> None:
    said = shell("notify", "preview", shell.incident_of("alice"), "--config", str(config))
    assert said.startswith("Subject: Critical: All 4 GPUs are idle: your job ")
    assert "EUR" in said
    assert "https://gpus.example.org/act/" in said
    assert "You hear of it because all GPUs of the job were idle for at least 2 h." in said


def test_a_link_of_a_preview_is_not_accepted(shell: Shell, config: Path) -> None:
    said = shell("notify", "preview", shell.incident_of("alice"), "--config", str(config))
    tokens = re.findall(r"https://gpus\.example\.org/(?:act|unsubscribe)/(\S+)", said)
    assert tokens
    reader = open_reader(shell.url)
    links = Links("https://gpus.example.org", reader.key())
    reader.close()
    for token in tokens:
        with pytest.raises(LinkError, match="forged"):
            links.read(token, now=time.time())


def test_a_preview_says_only_of_enough_waste_that_it_is_enough(shell: Shell, config: Path) -> None:
    command = ("notify", "preview", shell.incident_of("bob"), "--config", str(config))
    assert "your jobs together wasted more than" not in shell(*command)
    with config.open("a") as file:
        file.write("  owners: {wasted_gpu_hours: 0.01}\n")
    assert "your jobs together wasted more than 0.01 GPU-hours within 7 d" in shell(*command)


def test_without_a_configuration_the_defaults_hold(shell: Shell) -> None:
    said = shell("notify", "preview", shell.incident_of("alice"), "--to", "operators")
    assert "of alice" in said
    assert "https://" not in said
    assert "You hear of it" not in said


def test_html_is_a_page_by_itself(shell: Shell, config: Path, tmp_path: Path) -> None:
    path = tmp_path / "mail.html"
    number = shell.incident_of("bob")
    said = shell("notify", "preview", number, "--format", "html", "--output", str(path), "--config", str(config))
    assert said == ""
    page = parse(path.read_text(encoding="utf-8"))
    (image,) = page.all("img")
    assert image.attributes["src"].startswith("data:image/png;base64,")
    assert image.attributes["alt"]


@pytest.mark.parametrize("kind", ["slack", "slack-webhook", "json"])
def test_slack_and_json_are_json(shell: Shell, config: Path, kind: str) -> None:
    number = shell.incident_of("bob")
    said = json.loads(shell("notify", "preview", number, "--format", kind, "--config", str(config)))
    assert set(said) >= ({"text", "blocks"} if kind.startswith("slack") else {"items", "version", "replay"})


@pytest.mark.parametrize("news", News)
def test_each_kind_of_news_can_be_seen(shell: Shell, news: News) -> None:
    assert shell("notify", "preview", "1", "--format", "brief", "--news", news.value).count("\n") > 2


def test_a_resolved_incident_is_told_as_such(shell: Shell) -> None:
    reader_says = shell("notify", "preview", shell.incident_of("heidi"), "--format", "brief")
    assert reader_says.startswith("Resolved: ")
    assert "Outcome: " in reader_says


def test_a_thread_and_a_webhook_without_threads_say_what_is_new(shell: Shell) -> None:
    number = shell.incident_of("heidi")
    reply = shell("notify", "preview", number, "--format", "slack-reply")
    assert reply.startswith(":white_check_mark: *Resolved:* ")
    back = ("--news", "reopened", "--format")
    assert "It came back" in shell("notify", "preview", number, *back, "slack-webhook")
    assert "It came back" not in shell("notify", "preview", number, *back, "slack")


def test_a_digest_is_of_all_that_is_open(shell: Shell) -> None:
    said = shell("notify", "preview", "--digest")
    open_now = shell.json("incidents", "--state", "open")["total"]
    assert f"{open_now} incidents" in said.splitlines()[0]
    assert "WORST FIRST" in said


def test_the_weekly_report_is_until_now(shell: Shell, config: Path) -> None:
    said = shell("notify", "preview", "--weekly", "--config", str(config))
    assert said.startswith("Subject: GPUs, 7 days to ")
    assert "All users: https://gpus.example.org/users" in said
    assert "data:image/png" in shell("notify", "preview", "--weekly", "--format", "html")


def test_the_weekly_report_looks_back_as_far_as_is_configured(shell: Shell, config: Path) -> None:
    with config.open("a") as file:
        file.write("  weekly: [{receiver: hook, since: 14d}]\n")
    assert shell("notify", "preview", "--weekly", "--config", str(config)).startswith("Subject: GPUs, 14 days to ")


@pytest.mark.parametrize(
    "asked",
    [
        (),
        ("1", "--digest"),
        ("--digest", "--weekly"),
        ("--weekly", "--to", "operators"),
        ("--digest", "--news", "opened"),
        ("--digest", "--format", "slack-reply"),
    ],
)
def test_a_preview_is_of_one_thing(shell: Shell, asked: tuple[str, ...]) -> None:
    assert shell.run("notify", "preview", *asked).exit_code == 2


def test_an_incident_that_is_not_there_is_an_error(shell: Shell) -> None:
    result = shell.run("notify", "preview", "999")
    assert isinstance(result.exception, IncidentNotFoundError)
    assert not result.exception.usage


def test_a_file_that_cannot_be_written_is_an_error(shell: Shell, tmp_path: Path) -> None:
    result = shell.run("notify", "preview", "1", "--output", str(tmp_path / "no" / "mail.html"))
    assert isinstance(result.exception, ConfigError)
    assert "cannot be written" in str(result.exception)


# A test


def test_a_receiver_that_takes_it(shell: Shell, config: Path) -> None:
    """Also where another receiver cannot be made at all."""
    with listening() as hook:
        config.write_text(config.read_text().replace("http://127.0.0.1:9/hook", hook.url))
        assert shell("notify", "test", "hook", "--config", str(config)) == "hook: accepted\n"
        (heard,) = hook.requests
    said = json.loads(heard.body)
    assert (said["kind"], said["to"]) == ("test", {"audience": "operators", "user": ""})


def test_it_can_be_for_a_user(shell: Shell, config: Path) -> None:
    with listening() as hook:
        config.write_text(config.read_text().replace("http://127.0.0.1:9/hook", hook.url))
        shell("notify", "test", "hook", "--user", "alice", "--config", str(config))
        assert json.loads(hook.requests[0].body)["to"] == {"audience": "owner", "user": "alice"}


def test_a_receiver_that_refuses_or_is_not_there(shell: Shell, config: Path) -> None:
    result = shell.run("notify", "test", "hook", "--config", str(config))
    assert isinstance(result.exception, DeliveryError)
    assert not result.exception.usage
    with listening() as hook:
        hook.status = 403
        config.write_text(config.read_text().replace("http://127.0.0.1:9/hook", hook.url))
        result = shell.run("notify", "test", "hook", "--config", str(config))
    assert isinstance(result.exception, DeliveryError)
    assert "403" in str(result.exception)


@pytest.mark.parametrize(
    ("name", "said"),
    [("hooks", "there is no receiver 'hooks'; receivers: hook, broken"), ("broken", "/nonexistent/url cannot be read")],
)
def test_a_mistake_is_an_error_of_usage(shell: Shell, config: Path, name: str, said: str) -> None:
    result = shell.run("notify", "test", name, "--config", str(config))
    assert isinstance(result.exception, ConfigError)
    assert result.exception.usage
    assert said in str(result.exception)


# The outbox


def test_an_empty_outbox_says_so(shell: Shell) -> None:
    assert shell("notify", "outbox") == "Nothing is pending.\n"
    assert shell.json("notify", "outbox") == {"receivers": []}


def test_what_waits_is_listed_with_the_last_error(shell: Shell) -> None:
    database = open_database(shell.url)
    waiting = outbox.Notice("mail", OPERATORS, "", 1, News.OPENED, 0.0, "", "", 4e9, "")
    with database.write() as connection:
        outbox.add(connection, [waiting, replace(waiting, receiver="slack")])
        tried = {
            "receiver": "mail",
            "audience": "operators",
            "user": "",
            "kind": "incidents",
            "at": 900.0,
            "content": {},
        }
        for number, error in ((1, "refused"), (2, "450 try again later\x1b[31m")):
            changes = {"id": number, "key": str(number), "attempts": 2, "next_at": 950.0, "error": error}
            connection.execute(delivery.insert().values(tried | changes))
        outbox.add(connection, [replace(waiting, due_at=1000.0)])
        connection.execute(notice.update().where(notice.c.due_at == 1000.0).values(delivery_id=2))
    database.close()
    lines = shell("notify", "outbox").splitlines()
    assert [squeezed(line).split(" ")[:2] for line in lines[1:3]] == [["mail", "2"], ["slack", "1"]]
    assert " ago " in lines[1]
    assert "not due yet" in lines[2]
    assert "450 try again later\u241b[31m" in squeezed(" ".join(lines))
    assert shell.json("notify", "outbox")["receivers"] == [
        {
            "receiver": "mail",
            "waiting": 2,
            "due_at": "1970-01-01T00:16:40.000Z",
            "error": "450 try again later\x1b[31m",
        },
        {"receiver": "slack", "waiting": 1, "due_at": "2096-10-02T07:06:40.000Z", "error": ""},
    ]


def test_the_outbox_claims_no_shape_of_the_api(shell: Shell) -> None:
    assert "JSON API" not in squeezed(shell("notify", "outbox", "--help"))
