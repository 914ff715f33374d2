"""What each message says, to the byte: read the files in golden/ when one changes.

To write them anew: `DUTYCYCLE_REWRITE_GOLDEN=1 pytest tests/alerter/notify/composing/test_golden.py`, and look at the
difference before it is committed.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.alerter.notify.composing.parcels import UNSUBSCRIBE, composition, parcels, weekly

GOLDEN = Path(__file__).with_name("golden")
CASES = parcels()
COMPOSER = composition(weekly=weekly)


def messages(case: str) -> dict[str, str]:
    """Every format of a case: file name -> content."""
    parcel = CASES[case]
    mail = COMPOSER.mail(parcel, unsubscribe=UNSUBSCRIBE if case == "hesitation" else "")
    brief, slack = COMPOSER.brief(parcel), COMPOSER.slack(parcel)
    made = {
        "mail.txt": f"Subject: {mail.subject}\n\n{mail.text}",
        "html": mail.html,
        "slack.json": _json({"text": slack.text, "blocks": list(slack.blocks)}),
        "brief.txt": f"{brief.title}\n\n{brief.text}\n\n{brief.url}".rstrip() + "\n",
        "document.json": _json(COMPOSER.document(parcel)),
    }
    if len(parcel.items) == 1:
        item = parcel.items[0]
        made["reply.txt"] = COMPOSER.slack_reply(item, parcel.to) + "\n"
        made["annotations.json"] = _json(COMPOSER.annotations(item.incident))
    return {f"{case}.{kind}": text for kind, text in made.items()}


def _json(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


@pytest.mark.parametrize("case", CASES)
def test_messages_are_as_committed(case: str) -> None:
    for name, text in messages(case).items():
        path = GOLDEN / name
        if os.environ.get("DUTYCYCLE_REWRITE_GOLDEN"):
            path.write_text(text, encoding="utf-8")
        assert text == path.read_text(encoding="utf-8"), f"{name} is not as committed"


def test_no_golden_message_is_of_no_case() -> None:
    assert {path.name for path in GOLDEN.iterdir()} == {name for case in CASES for name in messages(case)}
