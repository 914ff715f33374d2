"""The rendering of Slack's messages finds whatever a client would make a mention or a link of."""

from __future__ import annotations

import pytest

from dutycycle_alerter.notify.model import SlackMessage

from .slack.rendering import Mention, links, mentions, seen


@pytest.mark.parametrize(
    ("mrkdwn", "found"),
    [
        ("<!channel> look", (Mention("special", "channel"),)),
        ("<@U123>", (Mention("user", "U123"),)),
        ("<#C1|general>", (Mention("channel", "C1", "general"),)),
        ("<!subteam^S1>", (Mention("special", "subteam^S1"),)),
        (
            "<https://evil.example/x|https://bank.example>",
            (Mention("link", "https://evil.example/x", "https://bank.example"),),
        ),
        ("in `code <!here>`", (Mention("special", "here"),)),
        ("over\nlines <!here\n>", (Mention("special", "here\n"),)),
        ("&lt;!channel&gt; @channel #general https://evil.example", ()),
        ("a < b, c &amp; d", ()),
    ],
)
def test_what_a_text_mentions(mrkdwn: str, found: tuple[Mention, ...]) -> None:
    assert mentions(mrkdwn) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ({"text": "@channel"}, (Mention("special", "channel"),)),
        ({"text": "by @bob in #ops"}, (Mention("user", "bob"), Mention("channel", "ops"))),
        ({"text": "see https://evil.example/a?b"}, (Mention("link", "https://evil.example/a?b"),)),
        ({"text": "@channel #ops https://evil.example", "verbatim": True}, ()),
        ({"text": "<!channel>", "verbatim": True}, (Mention("special", "channel"),)),
        ({"text": "<!channel> @here https://evil.example", "type": "plain_text"}, ()),
        ({"text": "&#64;channel", "verbatim": False}, ()),
    ],
)
def test_text_objects_without_verbatim_are_searched_for_names_and_addresses(
    text: dict[str, object], found: tuple[Mention, ...]
) -> None:
    for block in (
        {"type": "section", "text": {"type": "mrkdwn"} | text},
        {"type": "section", "fields": [{"type": "mrkdwn"} | text]},
        {"type": "context", "elements": [{"type": "mrkdwn"} | text]},
    ):
        assert mentions({"text": "", "blocks": [block]}) == found
        assert mentions(SlackMessage("", (block,))) == found


def test_what_is_read_and_where_links_lead() -> None:
    message = SlackMessage(
        "4 of 8 GPUs are idle",
        (
            {"type": "header", "text": {"type": "plain_text", "text": "4 of 8 &amp; more"}},
            {"type": "section", "text": {"type": "mrkdwn", "text": "a &lt;b&gt; <https://x.example|there>"}},
            {
                "type": "actions",
                "elements": [
                    {"type": "button", "text": {"type": "plain_text", "text": "Snooze"}, "url": "https://x.example/s"}
                ],
            },
        ),
    )
    assert seen(message) == "4 of 8 &amp; more\na <b> there\nSnooze"
    assert links(message) == {"there": "https://x.example"}
    assert seen("&lt;!channel&gt; &amp;") == "<!channel> &"
