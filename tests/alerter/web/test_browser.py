"""The page in headless Chromium, without and with JavaScript: what a person does and sees."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, expect, sync_playwright

from dutycycle_alerter.notify.links import Action, Links
from dutycycle_alerter.notify.model import Recipient, To
from tests.alerter.web.conftest import KEY, Client, Live
from tests.alerter.web.doubles import FixedReader, full_reader
from tests.alerter.web.people import AUTH, SECRETS
from tests.alerter.web.test_hostile_text import HOSTILE

pytestmark = pytest.mark.browser

PHONE = {"width": 360, "height": 740}
DESK = {"width": 1200, "height": 800}
PATIENCE = 60_000
"""Milliseconds; a noisy machine is not a failure."""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        executable = shutil.which("chromium") or playwright.chromium.executable_path
        if not Path(executable).exists():
            if os.environ.get("CI") == "true":
                pytest.fail("Chromium is missing, and CI has to have it")
            pytest.skip("Chromium is not installed (make test installs it)")
        # The container's root has no user namespaces for the sandbox; the pages are our own.
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        yield browser
        browser.close()


def failure(request: Request) -> list[str]:
    """What went wrong; not what the browser itself gave up because it went on to another page."""
    return [] if request.failure == "net::ERR_ABORTED" else [f"{request.url}: {request.failure}"]


def said(message: ConsoleMessage) -> list[str]:
    """What the console says; not that a page itself is an error, which its test looks at."""
    refused = message.text.startswith("Failed to load resource: the server responded with a status of 4")
    return [] if refused and "/static/" not in message.location["url"] else [message.text]


def elsewhere(request: Request, url: str) -> list[str]:
    """The request's address, where it is not on the site of `url`."""
    return [] if urlsplit(request.url)[:2] == urlsplit(url)[:2] else [request.url]


@pytest.fixture
def visit(chromium: Browser) -> Iterator[Callable[..., Page]]:
    """Opens a page; at the end nothing may have been said on the console, and nothing have been asked elsewhere."""
    contexts: list[BrowserContext] = []
    complaints: list[str] = []

    def open_page(url: str, **options: object) -> Page:
        settings = {"viewport": DESK, "java_script_enabled": False, **options}
        context = chromium.new_context(**settings)  # type: ignore[arg-type]
        contexts.append(context)
        context.set_default_timeout(PATIENCE)
        page = context.new_page()
        page.on("console", lambda message: complaints.extend(said(message)))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("requestfailed", lambda request: complaints.extend(failure(request)))
        page.on("request", lambda request: complaints.extend(elsewhere(request, url)))
        page.goto(url)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []


def fits(page: Page) -> bool:
    """Whether nothing has to be scrolled sideways."""
    return bool(page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"))


def test_list_filter_incident_acknowledge(live: Live, visit: Callable[..., Page]) -> None:
    page = visit(live.client.url)
    expect(page.locator("tbody tr")).to_have_count(5)
    page.get_by_label("Problem").select_option("partially idle")
    page.get_by_role("button", name="Filter").click()
    expect(page.locator("tbody tr")).to_have_count(1)
    page.get_by_role("link", name="2 of 4 GPUs are idle").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("2 of 4 GPUs are idle")
    expect(page.locator(".plot-row.concerned")).to_have_count(2)
    page.get_by_label("Your name").first.fill("Olga")
    page.get_by_label("Note").first.fill("asked bob")
    page.get_by_role("button", name="Acknowledge").click()
    expect(page.get_by_role("status")).to_have_text("This incident is now acknowledged.")
    expect(page.locator(".timeline")).to_contain_text("acknowledged by Olga")
    expect(page.get_by_role("button", name="Acknowledge")).to_have_count(0)
    expect(page.get_by_label("Your name").first).to_have_value("Olga")


def test_snooze_then_resolve(live: Live, visit: Callable[..., Page]) -> None:
    page = visit(f"{live.client.url}incidents/{live.incident_of('carol')}")
    form = page.locator("form[action$=snooze]")
    page.get_by_text("Snooze", exact=True).first.click()
    form.get_by_label("Your name").fill("Olga")
    form.locator("select[name=snooze]").select_option("1 day")
    form.get_by_label("Note").press("Enter")
    expect(page.get_by_role("status")).to_have_text("This incident is now snoozed.")
    page.get_by_text("Resolve", exact=True).first.click()
    page.get_by_role("button", name="Resolve").click()
    expect(page.get_by_role("status")).to_have_text("This incident is now resolved.")
    # What is over may still have been intended.
    expect(page.locator("form")).to_have_count(1)
    expect(page.get_by_text("This was intended")).to_be_visible()


def test_the_keyboard_suffices(live: Live, visit: Callable[..., Page]) -> None:
    page = visit(f"{live.client.url}incidents/{live.incident_of('alice')}")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.get_by_label("Your name").first.focus()
    page.keyboard.type("Olga")
    page.keyboard.press("Enter")
    expect(page.get_by_role("status")).to_have_text("This incident is now acknowledged.")


def test_intended_then_withdrawn(live: Live, visit: Callable[..., Page]) -> None:
    page = visit(f"{live.client.url}incidents/{live.incident_of('bob')}")
    page.get_by_text("This was intended").click()
    form = page.locator("form[action$=intended]")
    form.get_by_label("Your name").fill("Olga")
    form.get_by_label("Why").fill("a benchmark of two GPUs")
    form.locator("select[name=scope]").select_option("all jobs of bob")
    form.locator("select[name=lasting]").select_option("30 days")
    form.get_by_role("button", name="It was intended").click()
    expect(page.get_by_role("status")).to_have_text("This incident is now resolved: it was intended.")
    expect(page.locator(".timeline")).to_contain_text("intended by Olga")
    page.get_by_role("link", name="Intended", exact=True).click()
    row = page.locator("tbody tr")
    expect(row).to_contain_text("All jobs of bob")
    expect(row).to_contain_text("a benchmark of two GPUs")
    expect(row.get_by_label("Your name")).to_have_value("Olga")
    row.get_by_role("button", name="Withdraw").click()
    expect(page.get_by_role("status")).to_contain_text("It was withdrawn")
    expect(page.locator("tbody tr")).to_have_count(0)
    page.get_by_role("link", name="All", exact=True).click()
    expect(page.locator("tbody tr")).to_contain_text("by Olga")


def test_by_the_keyboard_alone_log_in_act_and_log_out(
    live_site: Callable[..., Live], visit: Callable[..., Page]
) -> None:
    live = live_site(auth=AUTH)
    number = live.incident_of("alice")
    page = visit(f"{live.client.url}incidents/{number}", viewport=PHONE, color_scheme="dark")
    expect(page.get_by_label("Your token")).to_be_focused()
    assert fits(page)
    page.keyboard.type("wrong")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("That did not work")
    page.keyboard.type(SECRETS["alice"])
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("All 4 GPUs are idle")
    assert fits(page)
    page.get_by_label("Note").first.focus()
    page.keyboard.type("on it")
    page.keyboard.press("Enter")
    expect(page.locator(".timeline")).to_contain_text("acknowledged by alice on it")
    page.get_by_text("This was intended").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(page.get_by_label("Why")).to_be_focused()
    page.keyboard.type("a course")
    page.keyboard.press("Enter")
    expect(page.get_by_role("status")).to_contain_text("it was intended")
    page.goto(f"{live.client.url}expectations")
    assert fits(page)
    page.get_by_role("button", name="Withdraw").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("status")).to_contain_text("It was withdrawn")
    page.get_by_role("button", name="Log out").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Log in")
    page.goto(f"{live.client.url}incidents/{number}")
    expect(page.get_by_role("heading", level=1)).to_have_text("Log in")


def test_the_link_of_a_message_and_unsubscribing(live_site: Callable[..., Live], visit: Callable[..., Page]) -> None:
    """Without log-in, on a phone."""
    live = live_site(public_url="http://127.0.0.1", auth=AUTH)
    links = Links(live.client.url, KEY)
    number = live.incident_of("alice")
    page = visit(links.action(number, Action.SNOOZE, Recipient(To.OWNER, "alice"), now=live.now), viewport=PHONE)
    assert fits(page)
    expect(page.get_by_role("heading", level=1)).to_have_text("All 4 GPUs are idle")
    page.get_by_label("For").select_option("1 hour")
    page.get_by_role("button", name="Snooze").click()
    expect(page.get_by_role("status")).to_have_text("This incident is now snoozed by alice.")
    found = live.store.incident(number)
    assert found is not None
    assert found.snoozed_until == live.now + 3600
    page.goto(links.unsubscribe("mail", "alice", now=live.now))
    assert fits(page)
    page.get_by_role("button", name="Unsubscribe").click()
    expect(page.get_by_role("status")).to_contain_text("You are unsubscribed")
    page.get_by_role("button", name="Send me messages again").click()
    expect(page.get_by_role("button", name="Unsubscribe")).to_be_visible()
    page.goto(links.action(number, Action.RESOLVE, Recipient(To.OWNER, "alice"), now=live.now - 1e7))
    assert fits(page)
    expect(page.get_by_role("heading", level=1)).to_have_text("This link is expired")


def test_users_and_gpus(live: Live, visit: Callable[..., Page]) -> None:
    page = visit(live.client.url)
    page.get_by_role("link", name="Users", exact=True).click()
    expect(page.get_by_role("img", name="Users by mean utilization")).to_be_visible()
    page.get_by_role("link", name="Last day").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Users")
    page.get_by_role("link", name="GPUs", exact=True).click()
    expect(page.locator("section.node")).to_have_count(3)
    expect(page.locator("section.node").nth(2)).to_contain_text("unknown")


@pytest.mark.parametrize("script", [False, True])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
def test_every_page_fits_in_either_scheme_with_and_without_scripts(
    live: Live, visit: Callable[..., Page], size: dict[str, int], scheme: str, script: bool
) -> None:
    page = visit(live.client.url, viewport=size, color_scheme=scheme, java_script_enabled=script)
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == ("rgb(15, 20, 26)" if scheme == "dark" else "rgb(245, 246, 248)")
    for path in (
        "",
        "users",
        "gpus",
        "expectations",
        *(f"incidents/{live.incident_of(user)}" for user in ("bob", "heidi")),
        "?user=x",
    ):
        page.goto(live.client.url + path)
        expect(page.get_by_role("heading", level=1)).to_have_count(1)
        assert fits(page), path


def test_on_a_phone_the_filter_is_folded_and_text_stays_large(live: Live, visit: Callable[..., Page]) -> None:
    page = visit(live.client.url, viewport=PHONE)
    expect(page.get_by_label("User")).to_be_hidden()
    page.get_by_text("Filter", exact=True).first.click()
    expect(page.get_by_label("User")).to_be_visible()
    page.goto(f"{live.client.url}incidents/{live.incident_of('bob')}")
    label = page.locator(".plot-axis text").first
    assert label.evaluate("element => element.getBoundingClientRect().height") >= 11


@pytest.mark.parametrize("number", range(len(HOSTILE)))
def test_hostile_names_do_nothing_and_break_no_layout(
    serve: Callable[..., Client], visit: Callable[..., Page], number: int
) -> None:
    client = serve(full_reader(HOSTILE[number]))
    page = visit(client.url, viewport=PHONE, java_script_enabled=True)
    dialogs: list[str] = []
    page.on("dialog", lambda dialog: dialogs.append(dialog.message))
    for path in ("?state=all", "incidents/7", "expectations", "users", "gpus"):
        page.goto(client.url + path)
        assert fits(page), path
    assert dialogs == []


def test_another_site_can_neither_post_nor_frame(live: Live, chromium: Browser) -> None:
    """With a real browser's cookies, from a page of another origin."""
    number = live.incident_of("alice")
    context = chromium.new_context()
    page = context.new_page()
    page.goto(f"{live.client.url}incidents/{number}")
    token = page.locator("input[name=token]").first.get_attribute("value")
    other = live.client.url.replace("127.0.0.1", "localhost")
    page.goto(other)
    # The policy of our own page forbids the post too: an empty document of that origin has none.
    page.route("**/evil", lambda route: route.fulfill(body="<p>evil</p>", content_type="text/html"))
    page.goto(other + "evil")
    page.set_content(
        f'<form method="post" action="{live.client.url}incidents/{number}/resolve">'
        f'<input name="token" value="{token}"><input name="name" value="Eve"><button>go</button></form>'
        f'<iframe src="{live.client.url}"></iframe>'
    )
    page.get_by_role("button").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("The change was not made")
    context.close()
    assert live.store.events(number)[-1].actor == ""


def test_an_empty_site(serve: Callable[..., Client], visit: Callable[..., Page]) -> None:
    client = serve(FixedReader())
    page = visit(client.url, viewport=PHONE)
    for path in ("", "expectations", "users", "gpus"):
        page.goto(client.url + path)
        assert fits(page)
