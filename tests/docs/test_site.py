"""The site of the documents is built without a warning, has every document, and needs nothing from elsewhere."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright

from tests.docs.blocks import ROOT
from tests.required import lacking

MKDOCS = ROOT / ".venv" / "docs" / "bin" / "mkdocs"


def build(to: Path, config: Path = ROOT / "mkdocs.yml") -> subprocess.CompletedProcess[str]:
    if not MKDOCS.exists():
        lacking("MkDocs (make docs)")
    command = [str(MKDOCS), "build", "--strict", "--config-file", str(config), "--site-dir", str(to)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("site")
    done = build(directory)
    assert done.returncode == 0, done.stdout + done.stderr
    return directory


def test_every_document_is_in_it(site: Path) -> None:
    made = {path.relative_to(site).with_suffix(".md") for path in site.rglob("*.html")}
    written = {path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")}
    # A folder's README is its index.
    expected = {path.with_name("index.md") if path.name == "README.md" else path for path in written}
    assert expected - made == set()


class _Loads(HTMLParser):
    """What a browser fetches to show a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag in ("script", "img", "iframe", "source", "video"):
            self.found += [values.get("src") or "", values.get("srcset") or ""]
        if tag == "link" and values.get("rel") not in ("canonical", "prev", "next"):
            self.found.append(values.get("href") or "")


def test_a_page_loads_nothing_from_elsewhere(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 30
    for page in pages:
        loads = _Loads()
        loads.feed(page.read_text(encoding="utf-8"))
        assert loads.found
        assert [url for url in loads.found if re.match(r"(https?:)?//", url)] == [], page.name


def test_styles_load_nothing_from_elsewhere(site: Path) -> None:
    for style in site.rglob("*.css"):
        assert re.findall(r"url\(['\"]?(?:https?:)?//|@import", style.read_text(encoding="utf-8")) == [], style.name


def test_the_search_needs_no_server(site: Path) -> None:
    index = (site / "search" / "search_index.js").read_text(encoding="utf-8")
    assert "leaked_memory" in index


@pytest.mark.browser
def test_opened_from_a_disk_it_finds_words_and_asks_nobody(site: Path) -> None:
    """Where a browser lets no page start a worker."""
    asked: list[str] = []
    with sync_playwright() as playwright:
        executable = shutil.which("chromium") or playwright.chromium.executable_path
        chromium = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        page = chromium.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.goto((site / "repository" / "CHANGELOG.html").as_uri())
        page.click("input.md-search__input")
        page.keyboard.type("leaked memory")
        page.wait_for_selector(".md-search-result__item a[href*='rules.html']", timeout=30_000)
        chromium.close()
    assert [url for url in asked if not url.startswith("file:")] == []


def test_what_documents_link_to_outside_is_taken_along(site: Path) -> None:
    page = (site / "exporter.html").read_text(encoding="utf-8")
    (link,) = set(re.findall(r'href="([^"]*config\.example\.yaml[^"]*)"', page))
    assert "sample-interval" in (site / link).read_text(encoding="utf-8")


def test_marks_are_not_shown(site: Path) -> None:
    text = re.sub(r"<!--.*?-->", "", (site / "operating.html").read_text(encoding="utf-8"), flags=re.DOTALL)
    assert "dutycycle analyze" in re.sub(r"<[^>]+>", "", text)
    assert "run: analyze" not in text


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[x](nowhere.md)", "nowhere.md"),
        ("[x](index.md#nowhere)", "nowhere"),
        ("[x](/absolute.md)", "absolute"),
    ],
)
def test_a_broken_link_fails(text: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text(f"# A\n\n{text}\n")
    config = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").split("\nnav:")[0]
    (tmp_path / "mkdocs.yml").write_text(config.replace("tools/site_pages.py", str(ROOT / "tools/site_pages.py")))
    (tmp_path / "docs" / "assets").mkdir()
    (tmp_path / "docs" / "assets" / "site.css").write_text("")
    done = build(tmp_path / "site", tmp_path / "mkdocs.yml")
    assert done.returncode != 0
    assert says in done.stderr + done.stdout
