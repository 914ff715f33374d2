"""What a receiver of Slack makes of refusals, limits and answers that are none, and of owners who cannot be reached."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from dutycycle_alerter.errors import DeliveryError
from dutycycle_alerter.notify.addresses import Addresses
from dutycycle_alerter.notify.receivers.slack_api import SlackApi
from dutycycle_alerter.notify.receivers.slack_people import SlackPeople
from dutycycle_alerter.settings.notify import People, Slack
from dutycycle_alerter.settings.notify.routes import News
from tests.alerter.notify.slack_site import OWNER, Site, item
from tests.fakes.slack.server import Answer, Cut, SlackServer, limited, refused

OPENED, RESOLVED = News.OPENED, News.RESOLVED


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with SlackServer() as slack:
        made = Site(slack, tmp_path / "token")
        yield made
        made.receiver.close()


@pytest.mark.parametrize(
    ("error", "permanent", "remedy"),
    [
        ("invalid_auth", False, "token_file"),
        ("not_authed", False, "token_file"),
        ("account_inactive", False, "install it again"),
        ("token_revoked", False, "install the app again"),
        ("channel_not_found", False, "invite the bot"),
        ("not_in_channel", False, "invite it"),
        ("is_archived", False, "unarchive"),
        ("restricted_action", False, "setting of the workspace"),
        ("ratelimited", False, ""),
        ("internal_error", False, ""),
        ("fatal_error", False, ""),
        ("service_unavailable", False, ""),
        ("request_timeout", False, ""),
        ("an_error_of_next_year", False, ""),
        ("msg_too_long", True, "shorten"),
        ("no_text", True, "template"),
        ("user_disabled", True, "deactivated"),
        ("invalid_arguments", True, "template"),
    ],
)
def test_what_an_operator_or_slack_can_mend_is_tried_again(
    site: Site, error: str, permanent: bool, remedy: str
) -> None:
    site.slack.fail("chat.postMessage", refused(error))
    failure = site.fails(item(1, OPENED))
    assert failure.permanent is permanent
    assert f"chat.postMessage: {error}" in str(failure)
    assert remedy in str(failure)


def test_a_missing_scope_is_named(site: Site) -> None:
    site.workspace.scopes.remove("chat:write")
    failure = site.fails(item(1, OPENED))
    assert not failure.permanent
    assert "scope chat:write, and install it again" in str(failure)


def test_a_channel_that_the_bot_is_not_in_says_so(site: Site) -> None:
    site.channel.member = False
    assert "/invite" in str(site.fails(item(1, OPENED)))


def test_operators_need_a_channel(site: Site) -> None:
    site.receiver = site.make(channel="")
    assert "slack.channel" in str(site.fails(item(1, OPENED)))


@pytest.mark.parametrize(
    ("said", "understood"),
    [("30", 30), ("0", 0), (None, None), ("soon", None), ("-1", None), ("nan", None), ("9" * 9, 3600)],
)
@pytest.mark.parametrize("status", [429, 200])
def test_a_limit_says_when_to_come_back(site: Site, said: str | None, understood: float | None, status: int) -> None:
    site.slack.fail("chat.postMessage", limited(said, status=status))
    failure = site.fails(item(1, OPENED))
    assert failure.retry_after == understood
    assert not failure.permanent


@pytest.mark.parametrize(
    "answer",
    [
        Answer(500, b"<html>Server error</html>"),
        Answer(503, b'{"ok": true, "ts": "1.0", "channel": "C1"}'),
        Answer(503, refused("msg_too_long").body),
        Answer(200, b"<html>Log in to the network of your hotel</html>"),
        Answer(200, b""),
        Answer(200, b"null"),
        Answer(200, b"[1]"),
        Answer(200, b'"ok"'),
        Answer(200, b'{"ok": tr'),
        Answer(200, b"\xff\xfe{}"),
        Answer(200, b"[" * 100_000),
        Answer(200, b'{"ok": true}'),
        Answer(200, b'{"ok": true, "ts": 1, "channel": ["C1"]}'),
        Answer(200, b'{"ok": false}'),
        Answer(200, b'{"ok": false, "error": {"a": 1}}'),
        Answer(200, b'{"ok": false, "error": "invalid_blocks", "response_metadata": 3}'),
        Answer(302, b"", (("Location", "http://127.0.0.1:1/"),)),
        Answer(404, b"not found"),
        Answer(200, b'{"ok": true}', (("Content-Encoding", "gzip"),)),
        Cut.HALF,
        Cut.CLOSE,
        Cut.ENDLESS,
    ],
    ids=repr,
)
def test_an_answer_that_is_none_is_a_failure_of_now(site: Site, answer: Answer | Cut) -> None:
    site.slack.fail("chat.postMessage", answer, times=None)
    failure = site.fails(item(1, OPENED))
    assert not failure.permanent
    assert len(str(failure)) < 500


@pytest.mark.parametrize("cut", [Cut.HANG, Cut.DRIP])
def test_an_answer_that_does_not_come_ends_with_the_time_out(site: Site, cut: Cut) -> None:
    site.receiver = site.make(timeout=0.3)
    site.slack.fail("chat.postMessage", cut)
    assert "within 0.3 s" in str(site.fails(item(1, OPENED)))


def test_nobody_listens(site: Site) -> None:
    site.receiver = site.make(url="http://127.0.0.1:9/api/")
    assert not site.fails(item(1, OPENED)).permanent


def test_what_slack_says_shows_neither_token_nor_control_characters(site: Site) -> None:
    site.slack.fail("chat.postMessage", refused(f"\x1b[31mno\n{'x' * 80}{site.slack.token}\u202e" + "x" * 10_000))
    text = str(site.fails(item(1, OPENED)))
    assert text.isprintable()
    assert len(text) < 300


def test_all_calls_of_one_delivery_end(site: Site) -> None:
    now = 0.0
    api = SlackApi(Slack.model_validate({"token": site.slack.token, "url": site.slack.url}), clock=lambda: now)
    session = api.session()
    session.read("auth.test", {})
    now = 61.0
    with pytest.raises(DeliveryError, match="too slow"):
        session.read("auth.test", {})
    api.close()


def test_every_call_has_a_connection_of_its_own(site: Site) -> None:
    site.deliver(item(1, OPENED), item(2, OPENED))
    assert (site.slack.connections, len(site.slack.calls)) == (2, 2)


def test_the_token_is_read_anew_for_each_delivery(site: Site) -> None:
    site.token_file.write_text("xoxb-old\n")
    assert "invalid_auth" in str(site.fails(item(1, OPENED)))
    site.token_file.write_text(site.slack.token)
    site.deliver(item(1, OPENED))


@pytest.mark.parametrize("content", [None, b"", b"xoxb-\xff", b"xoxb-1\nxoxb-2\n", "xoxb-é".encode()])
def test_a_token_file_that_holds_no_token_fails_before_a_call(site: Site, content: bytes | None) -> None:
    site.token_file.unlink() if content is None else site.token_file.write_bytes(content)
    assert not site.fails(item(1, OPENED)).permanent
    assert site.slack.calls == []


def test_the_owner_is_told_directly_and_looked_up_once(site: Site) -> None:
    site.workspace.add_user("Alice@example.org")
    receipt = site.deliver(item(1, OPENED), to=OWNER)
    site.deliver(item(1, RESOLVED, thread=receipt.threads[1]), to=OWNER, key="p2")
    direct = site.workspace.direct("Alice@example.org")
    assert receipt.threads[1]["channel"] == direct.id
    assert receipt.addresses == ("alice@example.org",)
    assert [message["text"] for message in direct.messages] == ["incident 1 resolved", "owner: resolved"]
    assert site.channel.messages == []
    assert site.slack.methods() == [
        "users.lookupByEmail",
        "conversations.open",
        "chat.postMessage",
        "chat.update",
        "chat.postMessage",
    ]


def test_a_direct_message_whose_acknowledgement_was_lost_is_found_again(site: Site) -> None:
    site.workspace.add_user("alice@example.org")
    site.slack.fail("chat.postMessage", Cut.CLOSE, performed=True)
    site.fails(item(1, OPENED), to=OWNER)
    site.receiver = site.make()
    site.deliver(item(1, OPENED), to=OWNER, attempt=2)
    assert len(site.workspace.direct("alice@example.org").messages) == 1


def test_an_owner_who_is_not_in_slack_is_told_by_nobody(site: Site) -> None:
    failure = site.fails(item(1, OPENED), to=OWNER)
    assert failure.permanent
    assert "alice@example.org" in str(failure)
    assert "notify.people.map_file" in str(failure)
    assert site.fails(item(1, OPENED), to=OWNER).permanent
    assert site.slack.methods() == ["users.lookupByEmail"]


@pytest.mark.parametrize("deleted_later", [False, True])
def test_an_owner_whose_account_is_deactivated_is_told_by_nobody(site: Site, deleted_later: bool) -> None:
    user = site.workspace.add_user("alice@example.org", deleted=not deleted_later)
    if deleted_later:
        site.deliver(item(1, OPENED), to=OWNER)
        user.deleted = True
        site.slack.fail("chat.postMessage", refused("user_disabled"))
        assert site.fails(item(2, OPENED), to=OWNER).permanent
    failure = site.fails(item(1, OPENED), to=OWNER)
    assert failure.permanent
    assert "deactivated" in str(failure)
    calls = len(site.slack.calls)
    assert "deactivated" in str(site.fails(item(1, OPENED), to=OWNER))
    assert len(site.slack.calls) == calls


def test_an_owner_without_an_address_costs_no_call(site: Site) -> None:
    site.receiver = site.make(people=People())
    failure = site.fails(item(1, OPENED), to=OWNER)
    assert failure.permanent
    assert "no email address of alice is known: add them to notify.people.map_file" in str(failure)
    assert site.slack.calls == []


@pytest.mark.parametrize("method", ["users.lookupByEmail", "conversations.open"])
@pytest.mark.parametrize(
    "answer",
    [limited(9), refused("missing_scope", needed="im:write"), Answer(500), Answer(body=b'{"ok": true, "user": 3}')],
    ids=["limited", "scope", "500", "nonsense"],
)
def test_an_owner_who_cannot_be_looked_up_now_is_told_later(site: Site, method: str, answer: Answer) -> None:
    site.workspace.add_user("alice@example.org")
    site.slack.fail(method, answer)
    assert not site.fails(item(1, OPENED), to=OWNER).permanent
    site.deliver(item(1, OPENED), to=OWNER, attempt=2)
    assert len(site.workspace.direct("alice@example.org").messages) == 1


def test_what_was_found_of_people_is_bounded_in_number_and_time(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dutycycle_alerter.notify.receivers.slack_people._MOST", 2)
    now = 0.0
    people = SlackPeople(Addresses(People(address="{user}@example.org")), clock=lambda: now)
    api = SlackApi(Slack.model_validate({"token": site.slack.token, "url": site.slack.url}))
    for name in "abc":
        site.workspace.add_user(f"{name}@example.org")

    def looked_up(*addresses: str) -> int:
        before = site.slack.methods().count("users.lookupByEmail")
        for address in addresses:
            with suppress(DeliveryError):
                people.channel(f"{address}@example.org", api.session())
        return site.slack.methods().count("users.lookupByEmail") - before

    assert looked_up("a", "b", "a", "b") == 2
    assert looked_up("c", "b", "c") == 1
    assert looked_up("a") == 1
    assert looked_up("nobody", "nobody") == 1
    now = 3700.0
    assert looked_up("nobody", "a") == 1
    now = 90_000.0
    assert looked_up("a") == 1
    api.close()


def test_the_proxy_of_the_environment_is_used(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "")
    monkeypatch.setenv("no_proxy", "")
    monkeypatch.setenv("http_proxy", site.slack.url.replace("http://", "http://me:pass%21word@"))
    site.receiver = site.make(url="http://127.77.0.1/api/")
    site.deliver(item(1, OPENED))
    assert site.slack.calls[0].headers["host"] == "127.77.0.1"
    assert site.slack.calls[0].headers["proxy-authorization"] == "Basic bWU6cGFzcyF3b3Jk"


@pytest.mark.parametrize("proxy", ["http://me:pass-word@127.0.0.1:9", "socks5://me:pass-word@127.0.0.1:9"])
def test_a_proxy_that_cannot_be_used_shows_no_password(site: Site, monkeypatch: pytest.MonkeyPatch, proxy: str) -> None:
    monkeypatch.setenv("NO_PROXY", "")
    monkeypatch.setenv("no_proxy", "")
    monkeypatch.setenv("http_proxy", proxy)
    site.receiver = site.make(url="http://127.77.0.1/api/")
    assert "pass-word" not in str(site.fails(item(1, OPENED)))


def test_metadata_is_what_slack_takes(site: Site) -> None:
    site.deliver(item(1, OPENED), key="é" * 50)
    assert json.dumps(site.channel.messages[0]["metadata"])
