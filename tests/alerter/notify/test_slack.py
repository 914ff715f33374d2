"""Slack by a bot's token: a thread for each incident, changed in place, each said once whatever fails."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from dutycycle_alerter.errors import ConfigError
from dutycycle_alerter.notify.model import ParcelKind
from dutycycle_alerter.settings.notify.routes import News
from tests.alerter.notify.slack_site import Site, item
from tests.fakes.slack.rendering import seen
from tests.fakes.slack.server import Answer, Cut, SlackServer, limited, refused

OPENED, REOPENED, ESCALATED, UPDATED, RESOLVED = News


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with SlackServer() as slack:
        made = Site(slack, tmp_path / "token")
        yield made
        made.receiver.close()


def texts(messages: list[dict[str, Any]]) -> list[str]:
    return [message["text"] for message in messages]


def test_an_incident_from_its_opening_to_its_end_is_one_message_with_a_thread(site: Site) -> None:
    thread: Mapping[str, str] = {}
    for number, (news, actor) in enumerate(
        [(OPENED, ""), (ESCALATED, ""), (UPDATED, ""), (UPDATED, "bob"), (RESOLVED, ""), (REOPENED, "")]
    ):
        receipt = site.deliver(item(7, news, thread=thread, actor=actor), key=f"p{number}")
        thread = receipt.threads[7]
        assert thread == {"channel": site.channel.id, "ts": site.channel.heads[0]["ts"], "told": f"p{number}"}
    assert texts(site.channel.heads) == ["incident 7 open"]
    assert seen(site.channel.heads[0]) == "*incident 7 open*"
    replies = site.channel.replies(thread["ts"])
    assert texts(replies) == [f"operators: {news}" for news in ("escalated", "updated", "resolved", "reopened")]
    post, change = "chat.postMessage", "chat.update"
    assert site.slack.methods() == [post, change, post, change, change, post, change, post, change, post]


def test_the_requests_to_slack_to_the_letter(site: Site) -> None:
    thread = site.deliver(item(7, OPENED)).threads[7]
    site.deliver(item(7, RESOLVED, thread=thread), key="p2")
    block = {"type": "section", "text": {"type": "mrkdwn", "text": "*incident 7 open*", "verbatim": True}}
    closed = {"type": "section", "text": {"type": "mrkdwn", "text": "*incident 7 resolved*", "verbatim": True}}
    plain = {"parse": "none", "link_names": False}
    no_preview = {"unfurl_links": False, "unfurl_media": False, "mrkdwn": True}

    def key(text: str) -> dict[str, Any]:
        return {"metadata": {"event_type": "dutycycle_message", "event_payload": {"key": text}}}

    here = {"channel": site.channel.id}
    assert [(call.method, call.arguments) for call in site.slack.calls] == [
        ("chat.postMessage", here | plain | no_preview | key("p1/7") | {"text": "incident 7 open", "blocks": [block]}),
        ("chat.update", here | plain | {"ts": thread["ts"], "text": "incident 7 resolved", "blocks": [closed]}),
        (
            "chat.postMessage",
            here | plain | no_preview | key("p2/7") | {"thread_ts": thread["ts"], "text": "operators: resolved"},
        ),
    ]
    assert site.slack.calls[0].headers["authorization"] == f"Bearer {site.slack.token}"
    assert texts(site.channel.heads) == ["incident 7 resolved"]


def test_several_incidents_are_threads_of_their_own(site: Site) -> None:
    receipt = site.deliver(item(1, OPENED), item(2, OPENED), item(3, OPENED))
    assert texts(site.channel.heads) == ["incident 1 open", "incident 2 open", "incident 3 open"]
    assert [thread["ts"] for thread in receipt.threads.values()] == [head["ts"] for head in site.channel.heads]
    assert receipt.addresses == (site.channel.id,)


def test_an_incident_that_was_over_before_it_was_told_has_no_replies(site: Site) -> None:
    site.deliver(item(1, OPENED, RESOLVED))
    assert site.slack.methods() == ["chat.postMessage"]


@pytest.mark.parametrize("kind", [ParcelKind.DIGEST, ParcelKind.REPORT, ParcelKind.TEST])
def test_all_else_is_one_message(site: Site, kind: ParcelKind) -> None:
    items = (item(1, OPENED), item(2, OPENED)) if kind is ParcelKind.DIGEST else ()
    assert site.deliver(*items, kind=kind).threads == {}
    assert len(site.channel.messages) == 1


def test_a_head_that_can_be_edited_no_more_keeps_its_thread(site: Site) -> None:
    """What is worth a line is said there, and what is not is dropped: a new head for each would be a stream of them."""
    receipt = site.deliver(item(1, OPENED))
    site.slack.fail("chat.update", refused("edit_window_closed"), times=None)
    for number, news in enumerate((UPDATED, ESCALATED, UPDATED, RESOLVED)):
        again = site.deliver(item(1, news, thread=receipt.threads[1]), key=f"later{number}")
        assert again.threads[1]["ts"] == receipt.threads[1]["ts"]
    [head] = site.channel.heads
    assert [reply["text"] for reply in site.channel.replies(head["ts"])] == [
        "operators: escalated",
        "operators: resolved",
    ]


@pytest.mark.parametrize("gone", ["message_not_found", "cant_update_message", "channel_not_found", "is_archived"])
def test_a_message_that_cannot_be_changed_is_said_anew(site: Site, gone: str) -> None:
    old = site.deliver(item(7, OPENED)).threads[7]
    site.slack.fail("chat.update", refused(gone))
    new = site.deliver(item(7, ESCALATED, thread=old), key="p2").threads[7]
    assert new["ts"] != old["ts"]
    assert len(site.channel.heads) == 2
    assert site.channel.replies(old["ts"]) == site.channel.replies(new["ts"]) == []


def test_the_thread_goes_to_the_channel_that_is_configured_now_when_the_old_is_archived(site: Site) -> None:
    old = site.deliver(item(7, OPENED)).threads[7]
    site.channel.archived = True
    site.channel = site.workspace.add_channel("gpus2")
    site.receiver = site.make()
    assert site.deliver(item(7, RESOLVED, thread=old), key="p2").threads[7]["channel"] == site.channel.id
    assert texts(site.channel.heads) == ["incident 7 resolved"]


def test_a_thread_that_takes_no_replies_is_changed_all_the_same(site: Site) -> None:
    thread = site.deliver(item(7, OPENED)).threads[7]
    site.slack.fail("chat.postMessage", refused("restricted_action_thread_locked"))
    site.deliver(item(7, RESOLVED, thread=thread), key="p2")
    assert texts(site.channel.heads) == ["incident 7 resolved"]


def test_a_failure_in_the_middle_says_who_was_told_and_nobody_is_told_twice(site: Site) -> None:
    site.slack.fail("chat.postMessage", refused("internal_error"), skip=1)
    items = [item(1, OPENED), item(2, OPENED), item(3, OPENED)]
    error = site.fails(*items)
    assert not error.permanent
    assert set(error.threads) == {1}
    kept = [item(one.incident.id, OPENED, thread=error.threads.get(one.incident.id)) for one in items]
    receipt = site.deliver(*kept, attempt=2)
    assert texts(site.channel.heads) == ["incident 1 open", "incident 2 open", "incident 3 open"]
    assert set(receipt.threads) == {1, 2, 3}


def test_replies_before_a_failure_are_not_said_again_where_the_past_may_not_be_read(site: Site) -> None:
    site.workspace.scopes.remove("channels:history")
    threads = site.deliver(item(1, OPENED), item(2, OPENED)).threads
    site.slack.fail("chat.postMessage", limited(1), skip=1)
    error = site.fails(*(item(n, RESOLVED, thread=threads[n]) for n in (1, 2)), key="p2")
    kept = {**threads, **error.threads}
    site.deliver(*(item(n, RESOLVED, thread=kept[n]) for n in (1, 2)), key="p2", attempt=2)
    for thread in threads.values():
        assert texts(site.channel.replies(thread["ts"])) == ["operators: resolved"]


def test_a_reply_that_failed_is_said_at_the_next_attempt(site: Site) -> None:
    thread = site.deliver(item(7, OPENED)).threads[7]
    site.slack.fail("chat.postMessage", limited(1))
    assert site.fails(item(7, RESOLVED, thread=thread), key="p2").threads == {}
    site.deliver(item(7, RESOLVED, thread=thread), key="p2", attempt=2)
    assert texts(site.channel.replies(thread["ts"])) == ["operators: resolved"]


def test_one_message_that_slack_never_takes_does_not_hold_up_the_others(site: Site) -> None:
    site.slack.fail("chat.postMessage", refused("msg_too_long"), skip=1)
    error = site.fails(item(1, OPENED), item(2, OPENED), item(3, OPENED))
    assert error.permanent
    assert set(error.threads) == {1, 3}
    assert str(error).startswith("incident 2: chat.postMessage: msg_too_long: ")


@pytest.mark.parametrize("cut", [Cut.CLOSE, Cut.HALF, Cut.HANG])
def test_a_message_whose_acknowledgement_was_lost_is_found_again(site: Site, cut: Cut) -> None:
    if cut is Cut.HANG:
        site.receiver = site.make(timeout=5)
    site.slack.fail("chat.postMessage", cut, performed=True)
    error = site.fails(item(7, OPENED))
    assert not error.permanent
    assert error.threads == {}
    posted = site.channel.heads[0]["ts"]
    site.receiver = site.make()
    assert site.deliver(item(7, OPENED), attempt=2).threads[7]["ts"] == posted
    assert texts(site.channel.heads) == ["incident 7 open"]


def test_a_request_whose_answer_was_lost_is_not_sent_again_at_once(site: Site) -> None:
    site.slack.fail("chat.postMessage", Cut.CLOSE)
    site.fails(item(7, OPENED))
    assert site.slack.methods() == ["chat.postMessage"]


def test_a_reply_whose_acknowledgement_was_lost_is_found_again(site: Site) -> None:
    thread = site.deliver(item(7, OPENED)).threads[7]
    site.slack.fail("chat.postMessage", Cut.CLOSE, performed=True)
    site.fails(item(7, RESOLVED, thread=thread), key="p2")
    site.deliver(item(7, RESOLVED, thread=thread), key="p2", attempt=2)
    assert texts(site.channel.replies(thread["ts"])) == ["operators: resolved"]


def test_a_digest_whose_acknowledgement_was_lost_is_found_again(site: Site) -> None:
    site.slack.fail("chat.postMessage", Cut.CLOSE, performed=True)
    site.fails(item(1, OPENED), kind=ParcelKind.DIGEST)
    site.deliver(item(1, OPENED), kind=ParcelKind.DIGEST, attempt=2)
    assert len(site.channel.messages) == 1


def test_what_was_said_is_found_behind_what_others_said_since(site: Site) -> None:
    site.slack.fail("chat.postMessage", Cut.CLOSE, performed=True)
    site.fails(item(7, OPENED))
    for number in range(250):
        site.workspace.call("chat.postMessage", {"channel": site.channel.id, "text": f"chatter {number}"})
    site.deliver(item(7, OPENED), attempt=2)
    assert texts(site.channel.heads).count("incident 7 open") == 1
    assert site.slack.methods().count("conversations.history") == 3


def test_what_was_said_is_found_where_our_clock_is_ahead_of_slacks(site: Site) -> None:
    ahead = time.time() + 300
    site.slack.fail("chat.postMessage", Cut.CLOSE, performed=True)
    site.fails(item(7, OPENED), at=ahead)
    site.deliver(item(7, OPENED), at=ahead, attempt=2)
    assert len(site.channel.messages) == 1


def test_looking_back_ends(site: Site) -> None:
    for number in range(700):
        site.workspace.call("chat.postMessage", {"channel": site.channel.id, "text": f"chatter {number}"})
    site.deliver(item(7, OPENED), item(8, OPENED), attempt=2)
    assert site.slack.methods().count("conversations.history") == 5


def test_a_channel_given_by_name_is_looked_through_once_its_number_is_known(site: Site) -> None:
    site.receiver = site.make(channel="#gpus")
    site.deliver(item(1, OPENED), attempt=2)
    assert "conversations.history" not in site.slack.methods()
    site.slack.fail("chat.postMessage", Cut.CLOSE, performed=True)
    site.fails(item(2, OPENED), key="p2")
    site.deliver(item(2, OPENED), key="p2", attempt=2)
    assert len(site.channel.heads) == 2


@pytest.mark.parametrize("error", ["missing_scope", "not_in_channel", "method_not_supported_for_channel_type"])
def test_where_the_past_may_not_be_read_it_is_said_once_more(site: Site, error: str) -> None:
    site.slack.fail("conversations.history", refused(error), times=None)
    site.deliver(item(7, OPENED), attempt=2)
    assert texts(site.channel.heads) == ["incident 7 open"]


def test_where_the_past_cannot_be_read_now_it_is_said_later(site: Site) -> None:
    site.slack.fail("conversations.history", limited(40))
    assert site.fails(item(7, OPENED), attempt=2).retry_after == 40
    assert site.channel.messages == []


def test_other_metadata_in_the_channel_is_nobodys(site: Site) -> None:
    strange: list[Any] = [
        {"ts": "1"},
        {"ts": 1, "metadata": {"event_type": "dutycycle_message", "event_payload": {"key": "p1/7"}}},
        {"ts": "1", "metadata": {"event_type": "other", "event_payload": {"key": "p1/7"}}},
        {"ts": "1", "metadata": {"event_type": "dutycycle_message", "event_payload": {"key": ["p1/7"]}}},
        {"ts": "1", "metadata": "x"},
        "x",
        None,
    ]
    site.slack.fail("conversations.history", Answer(body=json.dumps({"ok": True, "messages": strange}).encode()))
    site.slack.fail("conversations.history", Answer(body=b'{"ok": true, "messages": 3, "response_metadata": []}'))
    site.deliver(item(7, OPENED), attempt=2)
    site.deliver(item(8, OPENED), attempt=2)
    assert len(site.channel.messages) == 2


def test_what_cannot_be_composed_breaks_a_parcel_before_anything_is_said(site: Site) -> None:
    site.composer.broken = ConfigError("templates/incident.slack, line 3: no filter named 'x'")
    with pytest.raises(ConfigError):
        site.deliver(item(1, OPENED), item(2, OPENED))
    assert site.slack.calls == []


@pytest.mark.parametrize("error", ["invalid_blocks", "msg_blocks_too_long"])
def test_where_slack_refuses_the_blocks_the_text_is_said(site: Site, error: str) -> None:
    block = {"type": "section", "text": {"type": "mrkdwn", "text": "x" * (3001 if error == "invalid_blocks" else 2900)}}
    thread = site.deliver(item(7, OPENED)).threads[7]
    site.composer.extra = (block,) * 5
    site.deliver(item(8, OPENED))
    site.deliver(item(7, RESOLVED, thread=thread), key="p2")
    assert [(head["text"], head["blocks"]) for head in site.channel.heads] == [
        ("incident 7 resolved", []),
        ("incident 8 open", []),
    ]
