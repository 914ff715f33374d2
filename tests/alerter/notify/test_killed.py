"""kill -9 between every two steps of a delivery, on both databases: everything is told, and told twice only where no
acknowledgement had arrived in the store, with the same key.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dutycycle_alerter.incidents.model import EventKind
from dutycycle_alerter.notify.delivering import STEPS
from dutycycle_alerter.store.database import Database
from tests.alerter.notify.outbox import MINUTE, Office, configured, idle, route

RECEIVED = "received"
"""The other side has it, and its acknowledgement is on its way."""

ALERTER = """
import json, os, signal, sys
from dutycycle_alerter.errors import DeliveryError
from dutycycle_alerter.notify.announcing import Announcer
from dutycycle_alerter.notify.delivering import Courier
from dutycycle_alerter.notify.model import Receipt
from dutycycle_alerter.settings import Settings
from dutycycle_alerter.store.database import open_database
from dutycycle_alerter.store.lease import Lease

url, configuration, letters, addresses = sys.argv[1:]
settings = Settings.model_validate_json(configuration).scaled()

def turn(now, step):
    def reached(now_at):
        if now_at == step:
            os.kill(os.getpid(), signal.SIGKILL)

    class Letterbox:
        def deliver(self, parcel):
            left = [address for address in addresses if address not in parcel.settled]
            with open(letters, "a") as file:
                print(json.dumps([parcel.key, parcel.attempt, [i.incident.id for i in parcel.items], left]), file=file)
            reached("received")
            if len(left) == 3:
                raise DeliveryError("not yet for c", addresses=("a",), refused={"b": "550 gone"})
            return Receipt({i.incident.id: {"ts": "1"} for i in parcel.items}, tuple(left))

    database = open_database(url)
    store = Lease(database, "a", 3600.0, alone=True).take()
    courier = Courier(settings, settings.notify.receivers[0], Letterbox(), Announcer(settings, store), store,
                      lambda: now, reached=reached)
    courier.turn()

for line in sys.stdin:
    now, step = line.split()
    child = os.fork()
    if child == 0:
        turn(float(now), step)
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@contextmanager
def alerters(url: str, configuration: str, letters: Path, addresses: str = "a") -> Iterator[Any]:
    """Says how a turn ended of an alerter that is started for it: (wall time, step at which it kills itself). Of three
    addresses the first takes a message at once, the second never, and the third at the next attempt.
    """
    command = [sys.executable, "-c", ALERTER, url, configuration, str(letters), addresses]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def turn(now: float, step: str = "none") -> int:
            assert process.stdin is not None
            assert process.stdout is not None
            print(now, step, file=process.stdin, flush=True)
            return int(process.stdout.readline())

        yield turn
        process.stdin.close()


def test_killed_between_any_two_steps_of_a_delivery_nothing_is_lost(
    url: str, database: Database, tmp_path: Path
) -> None:
    settings, letters = configured(route("slack")), tmp_path / "letters"
    at = Office(database, settings)
    told = {}
    with alerters(url, settings.model_dump_json(exclude_unset=True), letters) as turn:
        for number, step in enumerate((*STEPS[:4], RECEIVED, *STEPS[4:])):
            (item,) = at.open(idle(number))
            now = at.clock.advance(2 * MINUTE)
            assert turn(now, step) == -signal.SIGKILL
            now = at.clock.advance(2 * MINUTE)
            assert turn(now) == 0
            told[step] = item
        assert turn(at.clock.advance(2 * MINUTE)) == 0
    lines = [json.loads(line) for line in letters.read_text().splitlines()]
    times = Counter(number for _, _, numbers, _ in lines for number in numbers)
    twice = {RECEIVED, "delivered", "recording"}
    assert {step: times[item.id] for step, item in told.items()} == {step: 2 if step in twice else 1 for step in told}
    for step, item in told.items():
        attempts = [(key, attempt) for key, attempt, numbers, _ in lines if numbers == [item.id]]
        assert len({key for key, _ in attempts}) == 1, "who gets it twice can tell"
        assert [attempt for _, attempt in attempts][1:] == ([2] if step in twice else [])
        assert len(at.events(item, EventKind.TOLD)) == 1
        assert at.events(item, EventKind.NOT_TOLD) == []
    assert at.reader.outbox() == {}


def test_killed_between_any_two_steps_of_a_delivery_to_some_each_address_has_its_word(
    url: str, database: Database, tmp_path: Path
) -> None:
    settings, letters = configured(route("email", group_interval="1s")), tmp_path / "letters"
    at = Office(database, settings)
    told = {}
    with alerters(url, settings.model_dump_json(exclude_unset=True), letters, "abc") as turn:
        for number, step in enumerate(("begun", RECEIVED, "recording", "recorded")):
            (told[step],) = at.open(idle(number))
            assert turn(at.clock.advance(2 * MINUTE), step) == -signal.SIGKILL
            for _ in range(2):
                assert turn(at.clock.advance(2 * MINUTE)) == 0
    lines = [json.loads(line) for line in letters.read_text().splitlines()]
    for step, item in told.items():
        first = 2 if step in {RECEIVED, "recording"} else 1
        asked = [left for _, _, numbers, left in lines if numbers == [item.id]]
        assert asked == [["a", "b", "c"]] * first + [["c"]], step
        events = at.events(item, EventKind.TOLD, EventKind.NOT_TOLD)
        assert [event.data["addresses"] for event in events] == [["a"], ["b"], ["c"]], step
    assert at.reader.outbox() == {}
