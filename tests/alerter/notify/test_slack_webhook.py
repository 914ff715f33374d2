"""Slack by an incoming webhook: each parcel a message; the webhook's address is shown nowhere."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from dutycycle_alerter.errors import DeliveryError
from dutycycle_alerter.notify.model import ParcelKind
from dutycycle_alerter.notify.receivers.slack_webhook import SlackWebhookReceiver
from dutycycle_alerter.settings.notify import SlackWebhook
from dutycycle_alerter.settings.notify.routes import News
from tests.alerter.notify.slack_site import Composer, item, parcel
from tests.fakes.slack.server import Answer, Cut, SlackServer, limited

OPENED, RESOLVED = News.OPENED, News.RESOLVED


class Hook:
    """A channel with a webhook, whose address is in a file."""

    def __init__(self, slack: SlackServer, url_file: Path) -> None:
        self.slack = slack
        self.channel = slack.workspace.add_channel("gpus")
        self.url = slack.webhook(self.channel)
        self.composer = Composer()
        self.url_file = url_file
        url_file.write_text(self.url + "\n")
        self.receiver = self.make()

    def make(self, timeout: float = 60) -> SlackWebhookReceiver:
        settings = SlackWebhook(url_file=self.url_file, timeout=timeout)
        return SlackWebhookReceiver("hook", settings, self.composer)

    def fails(self) -> DeliveryError:
        with pytest.raises(DeliveryError) as caught:
            self.receiver.deliver(parcel(item(1, OPENED)))
        text = str(caught.value)
        assert self.url not in text
        assert "secretOf" not in text
        assert caught.value.__cause__ is None
        assert text.isprintable()
        return caught.value


@pytest.fixture
def hook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hook]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with SlackServer() as slack:
        made = Hook(slack, tmp_path / "url")
        yield made
        made.receiver.close()


def test_each_parcel_is_one_message(hook: Hook) -> None:
    receipt = hook.receiver.deliver(parcel(item(1, OPENED), item(2, OPENED)))
    hook.receiver.deliver(parcel(item(1, RESOLVED, thread={"channel": "C1", "ts": "1.0"})))
    hook.receiver.deliver(parcel(kind=ParcelKind.TEST))
    assert receipt.threads == {}
    texts = [message["text"] for message in hook.channel.heads]
    assert texts == ["incident 1 open; incident 2 open", "incident 1 resolved", "test"]


def test_the_request_to_the_letter(hook: Hook) -> None:
    hook.receiver.deliver(parcel(item(1, OPENED)))
    (call,) = hook.slack.calls
    block = {"type": "section", "text": {"type": "mrkdwn", "text": "*incident 1 open*", "verbatim": True}}
    assert call.arguments == {
        "text": "incident 1 open",
        "blocks": [block],
        "unfurl_links": False,
        "unfurl_media": False,
    }
    assert call.headers["content-type"].startswith("application/json")


@pytest.mark.parametrize(
    ("status", "said", "permanent", "remedy"),
    [
        (400, "invalid_payload", True, ""),
        (400, "no_text", True, ""),
        (400, "invalid_token", False, "url_file"),
        (403, "action_prohibited", False, "setting of the workspace"),
        (404, "no_service", False, "create a new one"),
        (404, "no_active_hooks", False, "enable it"),
        (404, "channel_not_found", False, "channel was deleted"),
        (410, "channel_is_archived", False, "archived"),
        (500, "rollup_error", False, ""),
        (418, "<html>\x1b[31m\u202e" + "x" * 9000, False, ""),
    ],
)
def test_what_slack_says_is_told_with_a_remedy(
    hook: Hook, status: int, said: str, permanent: bool, remedy: str
) -> None:
    hook.slack.fail("webhook", Answer(status, said.encode()), times=None)
    failure = hook.fails()
    assert failure.permanent is permanent
    assert str(status) in str(failure)
    assert remedy in str(failure)
    assert len(str(failure)) < 300


def test_a_limit_says_when_to_come_back(hook: Hook) -> None:
    hook.slack.fail("webhook", limited(30))
    assert hook.fails().retry_after == 30
    hook.receiver.deliver(parcel(item(1, OPENED)))
    assert len(hook.channel.messages) == 1


@pytest.mark.parametrize(
    "answer",
    [
        Answer(200, b"<html>Log in to the network of your hotel</html>"),
        Answer(202, b"\xef\xbb\xbf\r\n<!doctype html>"),
        Answer(302, b"", (("Location", "http://127.0.0.1:1/"),)),
        Answer(400, b"\xff" * 50_000),
        Cut.CLOSE,
        Cut.HALF,
        Cut.ENDLESS,
    ],
    ids=repr,
)
def test_an_answer_that_is_none_is_a_failure_of_now(hook: Hook, answer: Answer | Cut) -> None:
    hook.slack.fail("webhook", answer, times=None)
    assert not hook.fails().permanent
    assert len(hook.slack.calls) == 1


@pytest.mark.parametrize("answer", [Answer(200, b""), Answer(204, b""), Answer(202, b'{"posted": true}')], ids=repr)
def test_a_yes_in_other_words_is_taken_and_said_once(
    hook: Hook, answer: Answer, caplog: pytest.LogCaptureFixture
) -> None:
    """Of a program that takes what Slack takes; else it would get the message again and again."""
    hook.slack.fail("webhook", answer, times=None)
    with caplog.at_level(logging.INFO):
        for _ in range(2):
            hook.receiver.deliver(parcel(item(1, OPENED)))
    assert [record.message for record in caplog.records] == [
        f"hook: the webhook accepts ({answer.status}), but not as Slack does: taken as accepted"
    ]


@pytest.mark.parametrize("cut", [Cut.HANG, Cut.DRIP])
def test_an_answer_that_does_not_come_ends_with_the_time_out(hook: Hook, cut: Cut) -> None:
    hook.receiver = hook.make(timeout=0.3)
    hook.slack.fail("webhook", cut)
    assert "within 0.3 s" in str(hook.fails())


def test_what_echoes_the_address_shows_it_not(hook: Hook) -> None:
    path = "/" + hook.url.split("/", 3)[3]
    hook.slack.fail("webhook", Answer(404, ("x" * 85 + path + hook.url).encode()))
    assert "B0000" not in str(hook.fails())


def test_nobody_listens(hook: Hook) -> None:
    hook.url_file.write_text("http://127.0.0.1:9/services/secretOfThis")
    hook.fails()


def test_where_slack_refuses_the_blocks_the_text_is_said(hook: Hook, caplog: pytest.LogCaptureFixture) -> None:
    hook.composer.extra = ({"type": "divider"},) * 51
    with caplog.at_level(logging.WARNING):
        hook.receiver.deliver(parcel(item(1, OPENED)))
    assert [message["text"] for message in hook.channel.heads] == ["incident 1 open"]
    assert "fix the template" in caplog.text
    assert "secretOf" not in caplog.text


def test_the_address_is_read_anew_for_each_message(hook: Hook) -> None:
    hook.slack.remove_webhook(hook.url)
    assert "no_service" in str(hook.fails())
    hook.url_file.write_text(hook.slack.webhook(hook.channel))
    hook.receiver.deliver(parcel(item(1, OPENED)))
    assert len(hook.channel.messages) == 1


@pytest.mark.parametrize(
    "content",
    [
        None,
        "",
        "hooks.slack.com/secretOf",
        "file:///secretOf",
        "http://a/secretOf b",
        "http://é/secretOf",
        "http://[/secretOf",
        "http:///secretOf",
        "http://user:secretOf@a/",
        "http://hooks.slack.com/services/secretOf",
    ],
)
def test_a_file_that_holds_no_address_says_so_and_does_not_show_it(hook: Hook, content: str | None) -> None:
    hook.url_file.unlink() if content is None else hook.url_file.write_text(content)
    with pytest.raises(DeliveryError, match="url_file") as caught:
        hook.receiver.deliver(parcel(item(1, OPENED)))
    assert "secretOf" not in str(caught.value)
    assert not caught.value.permanent


def test_an_address_that_cannot_be_asked_is_not_shown(hook: Hook) -> None:
    hook.url_file.write_text("http://a:99999/secretOf")
    hook.fails()
