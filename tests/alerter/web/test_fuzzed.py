"""The API as its own description has it, asked by Schemathesis: every answer is described, and no nonsense is taken."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from dutycycle_alerter.settings.web import Auth
from dutycycle_alerter.web.access import attempts
from tests.alerter.web.conftest import Live
from tests.alerter.web.people import AUTH, SECRETS

CONFIG = """
[[operations]]
# Which characters of a reason can be seen is beyond what a pattern says.
include-path = "/api/v1/incidents/{incident_id}/intend"
checks.positive_data_acceptance.expected-statuses = ["2xx", 401, 403, 404, 409, 422]
"""
OPEN = Auth.model_validate({"anonymous": "operator"})


@pytest.mark.parametrize(
    ("auth", "header", "more"),
    [
        (AUTH, f"Authorization: Bearer {SECRETS['olga']}", ("--max-examples", "1", "--phases", "coverage,fuzzing")),
        (AUTH, f"Authorization: Bearer {SECRETS['alice']}", ("--max-examples", "1", "--phases", "fuzzing")),
        (OPEN, "X-Requested-With: dutycycle", ("--max-examples", "1", "--phases", "fuzzing,stateful")),
    ],
    ids=["operator", "own", "not logged in"],
)
def test_nothing_is_found(
    live_site: Callable[..., Live],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    auth: Auth,
    header: str,
    more: tuple[str, ...],
) -> None:
    # Wrong tokens are sent on purpose.
    monkeypatch.setattr(attempts, "AT_ONCE", 10**9)
    live = live_site(auth=auth)
    config = tmp_path / "schemathesis.toml"
    config.write_text(CONFIG)
    command = [str(Path(sys.executable).with_name("schemathesis")), "--config-file", str(config), "run"]
    target = f"{live.client.url}api/v1/openapi.json"
    plain = ("--checks", "all", "--header", header, "--seed", "1", "--generation-database", "none", "--no-color")
    found = subprocess.run(
        [*command, target, *plain, *more], check=False, cwd=tmp_path, capture_output=True, text=True, timeout=280
    )
    assert found.returncode == 0, found.stdout[-20_000:] + found.stderr[-2000:]
    assert re.search(r"(\d+) selected / \1 total", found.stdout)
