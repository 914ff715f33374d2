"""The section on Slurm: defaults, and wrong combinations as errors that name the key."""

from typing import Any

import pytest
from pydantic import ValidationError

from dutycycle_alerter.settings.slurm import Slurm


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"command_directory": "/opt/slurm/bin"},
        {"url": "http://127.0.0.1:6820"},
        {"url": "http://[::1]:6820/"},
        {"url": "https://slurm.example.org/rest", "ca_file": "/etc/ssl/ca.pem", "token_file": "/run/token"},
        {"url": "unix:///run/slurmrestd/slurmrestd.socket", "user": "dutycycle", "token": "eyJ.x.y"},
        {"timeout": "5s", "full_interval": "1m", "nodes_interval": "10s", "accounting": False},
    ],
)
def test_what_is_taken(given: dict[str, Any]) -> None:
    assert Slurm(**given).url in (None, given.get("url", "").rstrip("/"))


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"url": "slurm:6820"}, "expected a URL"),
        ({"url": "ftp://slurm:6820"}, "expected a URL"),
        ({"url": "http://"}, "expected a URL"),
        ({"url": "http://slurm:port"}, "expected a URL"),
        ({"url": "http://slurm:0"}, "expected a URL"),
        ({"url": "unix://run/x"}, "expected a URL"),
        ({"url": "unix:///"}, "expected a URL"),
        ({"url": "unix:///" + "x" * 200}, "expected a URL"),
        ({"url": "http://root:secret@slurm:6820"}, "user and token_file"),
        ({"url": "http://slurm:6820/slurm/v0.0.38"}, "ends before /slurm"),
        ({"url": "http://slurm:6820/?x=1"}, "ends before /slurm"),
        ({"url": "http://slurm:6820", "token": "a", "token_file": "/b"}, "token and token_file"),
        ({"token": "a"}, "token is given, but no url"),
        ({"token_file": "/a"}, "token_file is given, but no url"),
        ({"user": "root"}, "user is given, but no url"),
        ({"ca_file": "/a"}, "ca_file is given, but no url"),
        ({"url": "http://slurm:6820", "ca_file": "/a"}, "ca_file means nothing"),
        ({"url": "http://slurm:6820", "command_directory": "/usr/bin"}, "url and command_directory"),
        ({"url": "http://slurm:6820", "token": ""}, "is empty"),
        ({"url": "http://slurm:6820", "token": "a\nX-Header: b"}, "cannot have"),
        ({"url": "http://slurm:6820", "user": "a\r\nb"}, "user"),
        ({"timeout": 0}, "duration"),
        ({"max_bytes": 5}, "max_bytes"),
        ({"urll": "x"}, "urll"),
    ],
)
def test_what_is_refused_says_why(given: dict[str, Any], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        Slurm(**given)


def test_a_token_is_not_shown() -> None:
    made = Slurm.model_validate({"url": "http://slurm:6820", "token": "eyJhbGciOi.secret"})
    assert "secret" not in f"{made!r}{made}{made.model_dump_json()}"
