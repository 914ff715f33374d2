"""What the command line says instead of the configuration, and that it says no more than that."""

from __future__ import annotations

import logging
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from dutycycle_alerter import cli
from dutycycle_alerter.cli.serve import overridden
from dutycycle_alerter.errors import ConfigError
from dutycycle_alerter.settings import Prometheus, Settings
from tests.ports import AlerterAddresses

ANY_PORTS = AlerterAddresses("127.0.0.1:0", "127.0.0.1:0").options


def test_nothing_said_changes_nothing_whatever_the_source_is() -> None:
    for settings in (Settings(), Settings(prometheus=Prometheus(url="http://p:9090")), Settings(time_scale=60)):
        assert overridden(settings) == settings


def test_what_is_said_counts() -> None:
    targets = ("http://n/metrics",)
    said = overridden(
        Settings(),
        listen="127.0.0.1:1",
        health_listen=":2",
        database="sqlite:///x",
        targets=targets,
        time_scale=3,
        replica="a",
    )
    assert (said.web.listen_address, said.web.health_listen_address) == ("127.0.0.1:1", ":2")
    assert said.database == "sqlite:///x"
    assert (said.source.targets, said.time_scale, said.replica) == (targets, 3, "a")


def test_targets_beside_a_prometheus_are_a_mistake() -> None:
    with pytest.raises(ConfigError, match="exclude each other"):
        overridden(Settings(prometheus=Prometheus()), targets=("http://n/metrics",))


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("postgresql://u:s3cret", "cannot be read"),
        ("postgresql://u:s3@s3cret@h/n", "cannot be read"),
        ("postgresql://u:s3cret@[::1/n", "cannot be read"),
        ("postgresql://u:pa#s3cret@h:54x/n", "cannot be read"),
        ("u:s3cret@h", "cannot be read"),
        ("mysql://u:s3cret@h/n", "SQLite or PostgreSQL"),
        ("postgresql+asyncpg://u:s3cret@h/n", "psycopg 3"),
        ("postgresql://u:s3cret@h/n?password_file=/f", "names another"),
        ("postgresql://u:s3cret@h/n?prepare_threshold=0", "no option prepare_threshold"),
        ("postgresql://u@h/n?passwort=s3cret", "no option passwort"),
        ("postgresql://u:s3cret@h/n?autocommit=true", "no option autocommit"),
        ("postgresql://u@h/n?password=s3cret&password=s3cret2", "password is given more than once"),
        ("sqlite:///s3cret?password_file=/s3cret", "no password"),
        ("sqlite://", "needs a file"),
    ],
)
def test_a_database_that_cannot_be_meant_is_wrong_usage_and_its_password_is_nowhere(
    url: str, said: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["dutycycle", "serve", *ANY_PORTS, "--database", url])
    handlers = logging.getLogger().handlers[:]
    try:
        with pytest.raises(SystemExit) as ended:
            cli.main()
    finally:
        logging.getLogger().handlers[:] = handlers
    output = "".join(capfd.readouterr())
    assert ended.value.code == 2
    assert said in output
    assert "s3cret" not in output.replace("sqlite:///s3cret", "")


def test_where_nothing_can_be_written_any_more_the_store_says_so_in_a_line(tmp_path: Path) -> None:
    """As on a full disk: files can be made, and hold nothing."""
    store = tmp_path / "store.sqlite3"
    command = [sys.executable, "-c", "from dutycycle_alerter import cli; cli.main()", "serve"]
    ended = subprocess.run(
        [*command, *ANY_PORTS, "--database", f"sqlite:///{store}"],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (1, "")
    (line,) = ended.stderr.splitlines()
    assert line.startswith(f"dutycycle: database sqlite:///{store}: ")
