"""What the page about Slack tells people to paste can be used as it is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from dutycycle_alerter.settings.notify import Notify
from tests.fakes.slack.workspace import SCOPES

PAGE = (Path(__file__).parents[3] / "docs" / "slack.md").read_text(encoding="utf-8")
SNIPPETS: list[dict[str, Any]] = [yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)]


def test_the_manifest_asks_for_what_the_receiver_needs() -> None:
    (manifest,) = (snippet for snippet in SNIPPETS if "oauth_config" in snippet)
    assert set(manifest["oauth_config"]["scopes"]["bot"]) == SCOPES


@pytest.mark.parametrize("snippet", [snippet["notify"] for snippet in SNIPPETS if "notify" in snippet])
def test_the_configurations_are_valid(snippet: dict[str, Any]) -> None:
    assert Notify.model_validate(snippet).routes
