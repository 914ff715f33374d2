"""Links of what is read in the repository itself, not on the site alone, lead to files and headings that are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT, documents

_LINK = re.compile(r"\]\(([^)\s]+)\)")
_FENCED = re.compile(r"^( *)```.*?^\1```", re.MULTILINE | re.DOTALL)


def broken(path: Path, text: str) -> list[str]:
    """Links of a document that lead nowhere; those to other hosts are not asked."""
    found = []
    for link in _LINK.findall(_FENCED.sub("", text)):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (path.parent / name).resolve() if name else path
        if not target.exists() or not target.is_relative_to(ROOT):
            found.append(link)
        elif anchor and target.suffix == ".md":
            found += [link] if anchor not in anchors(text if target == path else target.read_text()) else []
    return found


def anchors(text: str) -> set[str]:
    """What a repository's page makes of headings."""
    heads = re.findall(r"^#+ (.*)$", _FENCED.sub("", text), re.MULTILINE)
    return {
        re.sub(r"[^\w\- ]", "", re.sub(r"\[(.*?)\]\(.*?\)", r"\1", head)).strip().lower().replace(" ", "-")
        for head in heads
    }


@pytest.mark.parametrize("path", [*documents(), ROOT / "CHANGELOG.md"], ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path: Path) -> None:
    assert broken(path, path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("link", ["nowhere.md", "docs/rules.md#nowhere", "#nowhere", "../../outside"])
def test_a_link_that_leads_nowhere_is_noticed(link: str) -> None:
    assert broken(ROOT / "README.md", f"# A\n\n[x]({link})\n") == [link]


def test_the_readme_is_short() -> None:
    """What belongs into documents goes there."""
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) < 120
