"""What Slack's errors mean: whether trying again is of use, and what somebody has to do."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from dutycycle_alerter.credentials import hidden
from dutycycle_alerter.errors import DeliveryError
from dutycycle_alerter.notify.receivers.posting import retry_after
from dutycycle_alerter.printable import NAME_LIMIT, printable

# Of one message or of one person: the next attempt would end like this one. Everything else is tried again, for as
# long as the outbox does: what is wrong with a token or a channel an operator mends within the day.
_PERMANENT = {
    "msg_too_long": "the message is too long: shorten the site's template",
    "no_text": "the message is empty: fix the site's template",
    "invalid_arguments": "fix the site's template",
    "markdown_text_conflict": "fix the site's template",
    "too_many_attachments": "fix the site's template",
    "user_disabled": "their account in Slack is deactivated",
    "user_not_found": "their account in Slack is gone",
    "user_not_visible": "the app may not see their account in Slack",
    "cannot_dm_bot": "the account is a bot's",
}
_REMEDIES = {
    "invalid_auth": "Slack does not know the token: put the bot's token (xoxb-...) into token_file",
    "not_authed": "Slack does not know the token: put the bot's token (xoxb-...) into token_file",
    "token_revoked": "the token was revoked: install the app again and put its token into token_file",
    "token_expired": "the token has expired: put one that does not expire into token_file",
    "account_inactive": "the app was removed from the workspace: install it again and put its token into token_file",
    "not_allowed_token_type": "the token is not a bot's (xoxb-...): put that into token_file",
    "channel_not_found": "there is no such channel, or it is private and the bot is not in it: "
    "fix slack.channel, or invite the bot to it",
    "not_in_channel": "the bot is not in the channel: invite it (/invite @dutycycle)",
    "is_archived": "the channel is archived: unarchive it, or set another in slack.channel",
    "is_inactive": "the channel is archived: unarchive it, or set another in slack.channel",
    "restricted_action": "a setting of the workspace does not let the bot post there",
    "org_login_required": "the workspace is being moved to an organization",
    "team_access_not_granted": "the app is not approved for the workspace: ask its administrators",
    "ekm_access_denied": "administrators have suspended posting",
    "accesslimited": "the workspace does not allow this machine's network",
}


class SlackError(DeliveryError):
    """Slack said no: `code` is its error."""

    def __init__(self, message: str, code: str, *, permanent: bool = False, retry_after: float | None = None) -> None:
        super().__init__(message, permanent=permanent, retry_after=retry_after)
        self.code = code


def refusal(method: str, said: Mapping[str, Any], headers: Mapping[str, str], secrets: Sequence[str]) -> SlackError:
    """The error of an answer with `ok: false`. Names of headers are in lower case."""
    # Hidden first: what is cut may be half a secret.
    code = hidden(str(said.get("error") or "no error named"), secrets)
    remedy = _PERMANENT.get(code, _REMEDIES.get(code, ""))
    if code == "missing_scope":
        # What is needed may be several, as `channels:history,groups:history`.
        needed = printable(hidden(str(said.get("needed") or "it does not say which"), secrets), NAME_LIMIT)
        remedy = f"give the app the scope {needed}, and install it again"
    elif code in ("invalid_blocks", "invalid_blocks_format"):
        remedy = printable(hidden("; ".join(_reasons(said)), secrets), 300)
    text = f"{method}: {printable(code, NAME_LIMIT)}" + (f": {remedy}" if remedy else "")
    return SlackError(
        text,
        code,
        permanent=code in _PERMANENT,
        retry_after=retry_after(headers, time.time()) if code in ("ratelimited", "rate_limited") else None,
    )


def limited(method: str, headers: Mapping[str, str]) -> SlackError:
    """The error of an answer 429."""
    return SlackError(
        f"{method}: too many messages for Slack", "ratelimited", retry_after=retry_after(headers, time.time())
    )


def _reasons(said: Mapping[str, Any]) -> list[str]:
    metadata = said.get("response_metadata")
    messages = metadata.get("messages") if isinstance(metadata, Mapping) else None
    return [str(message) for message in messages] if isinstance(messages, list) else []
