"""A process group keeps one name while it lives, and hands it to nobody."""

import pytest

from dutycycle_exporter.attribution.errors import UnusableError
from dutycycle_exporter.attribution.local import LocalWorkloads
from dutycycle_exporter.attribution.processes import ProcessReader
from tests.fakes.proc import FakeProcess, ProcTree

NOW = 1_700_001_000.0


class Shell:
    def __init__(self, tmp_path):
        self.proc = ProcTree(tmp_path / "proc")
        self.reader = ProcessReader(self.proc.root)
        self.local = LocalWorkloads(self.reader, lambda uid: f"user{uid}")
        self.now = NOW

    def run(self, pid, pgid=None, *, start=None, uid=1000):
        self.proc.add(FakeProcess(pid, self.now if start is None else start, pgid=pgid, uid=uid))

    def names(self, *pids):
        self.now += 5
        self.reader.begin(self.now)
        found = []
        for pid in pids:
            try:
                found.append(self.reader.read(pid))
            except UnusableError:
                continue
        return {pid: workload.id for pid, workload in self.local.name(found).items()}


@pytest.fixture
def shell(tmp_path):
    return Shell(tmp_path)


def test_a_job_is_named_by_its_leaders_start(shell):
    shell.run(40, start=NOW - 100.75)
    shell.run(50, 40)
    shell.run(51, 40)
    name = f"local/40-{int(NOW) - 101}"
    assert shell.names(50, 51) == {50: name, 51: name}


def test_without_a_leader_it_is_named_by_its_oldest_known_member(shell):
    shell.run(51, 40, start=NOW - 10)
    shell.run(50, 40, start=NOW - 20)
    name = f"local/40-{int(NOW) - 20}"
    assert shell.names(51, 50) == {50: name, 51: name}


def test_the_name_stays_when_those_who_gave_it_end(shell):
    shell.run(40, start=NOW - 100)
    shell.run(50, 40)
    name = f"local/40-{int(NOW) - 100}"
    assert shell.names(50) == {50: name}
    shell.proc.remove(40)
    shell.run(51, 40)
    assert shell.names(50, 51) == {50: name, 51: name}
    shell.proc.remove(50)
    assert shell.names(51) == {51: name}


def test_a_member_that_leaves_the_gpu_keeps_the_name_as_long_as_it_lives(shell):
    shell.run(50, 40, start=NOW - 100)
    name = f"local/40-{int(NOW) - 100}"
    assert shell.names(50) == {50: name}
    assert shell.names() == {}
    shell.run(51, 40)
    assert shell.names(51) == {51: name}


def test_the_next_group_of_the_same_number_has_another_name(shell):
    shell.run(40, start=NOW - 100)
    assert shell.names(40) == {40: f"local/40-{int(NOW) - 100}"}
    shell.proc.remove(40)
    shell.run(40, start=NOW)
    assert shell.names(40) == {40: f"local/40-{int(NOW)}"}


def test_a_process_that_has_the_groups_number_but_another_group_does_not_lead_it(shell):
    shell.run(40, 39, start=NOW - 500)
    shell.run(50, 40, start=NOW - 100)
    assert shell.names(50) == {50: f"local/40-{int(NOW) - 100}"}


def test_a_member_that_moves_to_another_group_is_of_that_one(shell):
    shell.run(50, 40, start=NOW - 100)
    shell.names(50)
    shell.proc.remove(50)
    shell.run(50, 50, start=NOW - 100)
    assert shell.names(50) == {50: f"local/50-{int(NOW) - 100}"}


def test_the_user_is_the_processes_own_not_the_leaders(shell):
    shell.run(40, uid=0)
    shell.run(50, 40, uid=1000)
    shell.names(50)
    shell.reader.begin(shell.now)
    assert shell.local.name([shell.reader.read(50)])[50].user == "user1000"
