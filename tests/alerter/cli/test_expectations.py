"""`dutycycle incidents intend` and `dutycycle expectations` over the real store."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import pytest

from dutycycle_alerter.errors import AlerterError, ExpectationError, ExpectationNotFoundError, TransitionError
from dutycycle_alerter.settings.policies import JOB_RULES
from dutycycle_alerter.store.reader import open_reader
from tests.alerter.cli.test_tables import Shell, shell, squeezed

__all__ = ["shell"]

REASON = "waits for <b>data</b> & more"


def intend(shell: Shell, user: str = "alice", *arguments: str) -> str:
    return shell("incidents", "intend", shell.incident_of(user), "--reason", REASON, "--as", "Olga", *arguments)


def test_to_say_it_to_see_it_and_to_take_it_back(shell: Shell) -> None:
    assert "Nothing was marked as intended." in shell("expectations")
    number = shell.incident_of("alice")
    said = squeezed(intend(shell, "alice", "--for", "2d"))
    assert "Intended until " in said
    assert said.endswith(f": incident {number} is resolved (intended).")
    answer = shell.json("incidents", "show", number)
    assert [(event["kind"], event["actor"]) for event in answer["events"]][-2:] == [
        ("intended", "Olga"),
        ("resolved", "Olga"),
    ]
    assert f"intended by Olga: {REASON}" in squeezed(shell("incidents", "show", number))
    (known,) = shell.json("expectations")["expectations"]
    assert (known["scope"], known["subject"], known["rules"]) == ("job", "slurm/41207", ["idle"])
    assert (known["reason"], known["actor"], known["incident_id"]) == (REASON, "Olga", int(number))
    listed = squeezed(shell("expectations"))
    assert "slurm/41207 idle Olga" in listed
    assert "withdrawn" not in listed
    assert "Expectation 1 is withdrawn." in shell("expectations", "withdraw", "1", "--as", "Bob")
    assert "Nothing was marked as intended." in shell("expectations")
    assert shell.json("expectations")["expectations"] == []
    assert "withdrawn by Bob" in squeezed(shell("expectations", "--all"))
    assert shell.json("expectations", "--all")["expectations"][0]["withdrawn_by"] == "Bob"


def test_of_a_user_until_a_day(shell: Shell) -> None:
    reader = open_reader(shell.url)
    until = reader.status().now + 30 * 86400
    reader.close()
    intend(shell, "bob", "--scope", "user", "--for", "30d")
    (known,) = shell.json("expectations")["expectations"]
    assert (known["scope"], known["subject"]) == ("user", "bob")
    assert "bob partially idle Olga" in squeezed(shell("expectations"))
    assert abs(_timestamp(known["expires_at"]) - until) < 600


def test_of_all_rules(shell: Shell) -> None:
    intend(shell, "alice", "--rules", "all")
    (known,) = shell.json("expectations")["expectations"]
    assert set(known["rules"]) == set(JOB_RULES)


def test_of_a_resolved_one_it_tells_that_it_stays_as_it_was(shell: Shell) -> None:
    said = squeezed(shell("incidents", "intend", "1", "--reason", "read too late"))
    assert said.endswith("incident 1 is resolved (ended).")


def test_the_table_fits_80_columns_whatever_is_said(shell: Shell) -> None:
    number = shell.incident_of("alice")
    shell(
        "incidents",
        "intend",
        number,
        "--reason",
        "x" * 500,
        "--as",
        "y\x1b[31m\n" * 50,
        *("--scope", "user", "--rules", "all"),
    )
    lines = shell("expectations", "--all").splitlines()
    assert max(len(line) for line in lines) <= 80
    assert not [line for line in lines if "\x1b" in line]


def test_json_is_ascii_and_has_what_was_said_as_it_is(shell: Shell) -> None:
    """Other characters may steer a terminal."""
    shell("incidents", "intend", shell.incident_of("alice"), "--reason", "für später", "--as", "Olga")
    said = shell("expectations", "--json")
    assert said.isascii()
    assert json.loads(said)["expectations"][0]["reason"] == "für später"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("incidents", "intend", "5", "--reason", "x"), ExpectationError),
        (("incidents", "intend", "5", "--reason", "two\nlines"), ExpectationError),
        (("incidents", "intend", "5", "--reason", "long ago", "--until", "2001-01-01"), ExpectationError),
        (("incidents", "intend", "5", "--reason", "for good", "--for", "91d"), ExpectationError),
        (("expectations", "withdraw", "9"), ExpectationNotFoundError),
    ],
)
def test_what_cannot_be_done_is_an_error(shell: Shell, arguments: tuple[str, ...], error: type[AlerterError]) -> None:
    with pytest.raises(error):
        shell(*arguments)
    assert shell.json("expectations", "--all")["expectations"] == []


def test_what_is_over_is_not_withdrawn(shell: Shell) -> None:
    intend(shell)
    shell("expectations", "withdraw", "1")
    with pytest.raises(TransitionError, match="was withdrawn already"):
        shell("expectations", "withdraw", "1")


def test_the_configurations_limits_count(shell: Shell, tmp_path: Path) -> None:
    config = tmp_path / "alerter.yaml"
    config.write_text("policies: {expectations: {longest: 1d, of_users: false}}\n")
    with pytest.raises(ExpectationError, match="of the job"):
        intend(shell, "alice", "--scope", "user", "--for", "1h", "--config", str(config))
    with pytest.raises(ExpectationError, match="lasts 24 h at most"):
        intend(shell, "alice", "--for", "25h", "--config", str(config))


@pytest.mark.parametrize(
    "arguments",
    [
        ("incidents", "intend", "5"),
        ("incidents", "intend", "5", "--reason", "abc", "--scope", "all"),
        ("incidents", "intend", "5", "--reason", "abc", "--for", "0s"),
        ("expectations", "withdraw", "x"),
    ],
)
def test_wrong_usage(shell: Shell, arguments: tuple[str, ...]) -> None:
    assert shell.run(*arguments).exit_code == 2


def _timestamp(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
