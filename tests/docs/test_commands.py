"""What the documents say to type does something and succeeds, where what it needs is there."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.alerter.cluster import simulate
from tests.docs.blocks import Block, typed
from tests.docs.commands import commands
from tests.docs.places import PLACES, Place
from tests.fakes.smtp.server import MailServer

RUN = [block for block in typed() if block.how == "run"]


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store of a cluster of which there are incidents."""
    path = tmp_path_factory.mktemp("cluster") / "store.sqlite3"
    simulate(path, time.time())
    return path


@pytest.fixture
def mail_server() -> Iterator[MailServer]:
    with MailServer() as server:
        yield server


@pytest.mark.parametrize("block", RUN, ids=str)
def test_what_is_said_to_be_typed_works(block: Block, tmp_path: Path, simulated: Path, mail_server: MailServer) -> None:
    place = Place(tmp_path, mail_server.port)
    PLACES[block.what](place, simulated)
    try:
        for command in commands(block):
            place.run(command)
    finally:
        place.close()


def test_every_place_is_used() -> None:
    assert {block.what for block in RUN} == set(PLACES)


def test_a_command_that_fails_is_noticed(tmp_path: Path) -> None:
    place = Place(tmp_path, 0)
    with pytest.raises(AssertionError, match="no-such-file"):
        place.run("dutycycle analyze no-such-file.csv | cat")


def test_a_program_that_ends_instead_of_answering_is_noticed(tmp_path: Path) -> None:
    place = Place(tmp_path, 0, answers={"dutycycle": "http://127.0.0.1:9/"})
    with pytest.raises(AssertionError, match="ended"):
        place.run("dutycycle serve --config no-such-file.yaml")
    place.running.clear()
