"""What `serve` says of who may act, and that the page does as it says."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
import urllib3

from dutycycle_alerter.cli.serve import running
from dutycycle_alerter.config_file import parse


@pytest.mark.parametrize(
    ("listen", "auth", "says", "acts"),
    [
        ("127.0.0.1:0", None, "", 404),
        (":0", None, "nobody may act: configure web.auth", 403),
        (":0", {"anonymous": "operator"}, "whoever reaches the page at :0 may act", 404),
        (":0", {"tokens": [{"name": "olga", "token": "o" * 24}]}, "", 401),
        ("127.0.0.1:0", {"tokens": [{"name": "olga", "token_file": "/nowhere"}]}, "olga cannot log in", 401),
    ],
)
def test_who_may_act(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    listen: str,
    auth: dict[str, object] | None,
    says: str,
    acts: int,
) -> None:
    caplog.set_level(logging.WARNING)
    web = {"listen_address": listen, "health_listen_address": "127.0.0.1:0"} | ({} if auth is None else {"auth": auth})
    settings = parse({"database": f"sqlite:///{tmp_path / 'store.sqlite3'}", "web": web}, origin="test")
    headers = {"X-Requested-With": "dutycycle", "Content-Type": "application/json"}
    with running(settings) as (_, server, _), urllib3.PoolManager(retries=False, timeout=60) as pool:
        url = f"{server.url}api/v1/incidents/1/resolve"
        assert pool.request("POST", url, body="{}", headers=headers).status == acts
        pool.clear()
    assert says in caplog.text
    if not says:
        assert "web.auth" not in caplog.text
        assert "may act" not in caplog.text
