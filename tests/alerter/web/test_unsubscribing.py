"""Being told no more by mail, and again."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.alerter.web.conftest import Live
from tests.alerter.web.html import parse
from tests.alerter.web.linking import LINKS, PUBLIC, path
from tests.alerter.web.people import AUTH, Browser

Site = Callable[..., Live]


@pytest.fixture
def guarded(live_site: Site) -> Live:
    return live_site(public_url=PUBLIC, auth=AUTH)


def test_unsubscribe_and_again(guarded: Live) -> None:
    address = path(LINKS.unsubscribe("mail", "alice", now=guarded.now))
    browser = Browser(guarded.client)
    assert browser.send("HEAD", address).status == 200
    page = parse(browser.get(address).data.decode())
    assert "To alice, by mail." in page.words
    assert not guarded.store.muted("mail", "alice")
    for _ in range(2):
        assert browser.post(address, wanted="nothing").status == 303
        assert guarded.store.muted("mail", "alice")
    assert "You are unsubscribed" in browser.get(address).data.decode()
    assert not guarded.store.muted("mail", "bob")
    assert not guarded.store.muted("chat", "alice")
    assert browser.post(address, wanted="messages").status == 303
    assert not guarded.store.muted("mail", "alice")


@pytest.mark.parametrize("multipart", [True, False])
def test_a_mail_program_unsubscribes_at_one_click(guarded: Live, multipart: bool) -> None:
    """RFC 8058: a POST without cookies, Origin or log-in."""
    address = path(LINKS.unsubscribe("mail", "alice", now=guarded.now))
    send = guarded.client.request
    answer = send("POST", address, fields={"List-Unsubscribe": "One-Click"}, encode_multipart=multipart)
    assert answer.status == 200
    assert guarded.store.muted("mail", "alice")
    # Only that: nobody else takes it back, and anything else is a form.
    for fields in ({"wanted": "messages"}, {"List-Unsubscribe": "Two-Clicks"}, {}):
        assert send("POST", address, fields=fields, encode_multipart=False).status == 403
    assert guarded.store.muted("mail", "alice")
