"""Exporters found by name: whatever becomes of the name, what is known of a node does not end with an address."""

import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.alerter.exporters import FakeExporter
from tests.alerter.named_exporters import NAME, NamedRig, Place, named
from tests.alerter.rig import INTERVAL, TIMEOUT
from tests.exporter.certificates import Authority
from tests.required import lacking


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.sqlite3"


def exporter(node: str = "gpu01") -> FakeExporter:
    made = FakeExporter(node, 2)
    made.allocate(f"slurm/{node}", 0, start=1.0)
    return made


def visible(rig: NamedRig) -> dict[str, bool]:
    found = rig.evidence()
    assert all(item.ended is None for item in found.values()), "nothing has ended here"
    return {name: item.visible for name, item in found.items()}


def test_every_address_is_a_target_that_is_asked_for_the_name(path: Path) -> None:
    with named(path, exporter("gpu01"), exporter("gpu02")) as rig:
        rig.step(3)
        assert rig.told() == {
            rig.place.url("127.0.0.1"): ("gpu01", "", ""),
            rig.place.url("127.0.0.2"): ("gpu02", "", ""),
            rig.place.target: ("", "", ""),
        }
        assert {one.last_success for one in rig.source.targets()} == {rig.clock()}
        assert set(rig.place.hosts) == {f"exporters.test:{rig.place.port}"}
        assert visible(rig) == {"slurm/gpu01": True, "slurm/gpu02": True}


def test_before_the_name_was_resolved_nothing_is_known_but_the_name(path: Path) -> None:
    with named(path, exporter()) as rig:
        (target,) = rig.source.targets()
        assert (target.url, target.last_success, target.error) == (rig.place.target, None, "")
        assert not rig.source.replaying()


def test_a_node_that_comes_is_read_in_the_round_that_finds_it(path: Path) -> None:
    with named(path, exporter("gpu01")) as rig:
        rig.step(2)
        late = exporter("gpu02")
        rig.exporters.append(late)
        rig.place.start("127.0.0.2", late.page)
        rig.step()
        assert visible(rig) == {"slurm/gpu01": True, "slurm/gpu02": True}


def test_a_pod_that_comes_back_under_another_address_goes_on(path: Path) -> None:
    node = exporter()
    with named(path, node) as rig:
        rig.step(8, 1.0)
        rig.place.stop("127.0.0.1")
        rig.place.told = ["127.0.0.9"]
        rig.step(10)
        assert visible(rig) == {"slurm/gpu01": False}, "unknown is not ended, for as long as it may be"
        node.restart()
        rig.place.start("127.0.0.9", node.page)
        rig.step(2, 1.0)
        assert visible(rig) == {"slurm/gpu01": True}
        assert rig.told() == {rig.place.url("127.0.0.9"): ("gpu01", "", ""), rig.place.target: ("", "", "")}
        (found,) = rig.evidence().values()
        # 7 intervals before, one from the restarted exporter's 0 up to its first answer, one more.
        assert found.window(900).gpus[0].busy == pytest.approx(9 * INTERVAL)


def test_an_old_address_that_lingers_in_the_name_is_replaced_by_the_new_one(path: Path) -> None:
    node = exporter()
    with named(path, node) as rig:
        rig.step(4)
        rig.place.told = ["127.0.0.1", "127.0.0.9"]
        rig.place.stop("127.0.0.1")
        rig.place.start("127.0.0.9", node.page)
        rig.step(2)
        assert visible(rig) == {"slurm/gpu01": True}
        told = rig.told()
        assert "refused" in told[rig.place.url("127.0.0.1")][1]
        assert told[rig.place.url("127.0.0.9")] == ("gpu01", "", "")


@pytest.mark.parametrize(
    "failure", [socket.gaierror(socket.EAI_AGAIN, "Temporary failure"), ()], ids=["failure", "empty"]
)
def test_an_outage_of_dns_blinds_nobody_and_is_told(path: Path, failure: Exception | tuple[str, ...]) -> None:
    with named(path, exporter("gpu01"), exporter("gpu02")) as rig:
        rig.step(2)
        resolved = rig.clock()
        rig.place.told = failure
        rig.step(10)
        assert visible(rig) == {"slurm/gpu01": True, "slurm/gpu02": True}
        *exporters, name = rig.source.targets()
        assert all((one.error, one.last_success) == ("", rig.clock()) for one in exporters)
        assert "what is known is read for 60 min more: 2 addresses" in name.error
        assert name.last_success == resolved
        rig.place.monotonic.advance(3601)
        rig.step(5)
        assert visible(rig) == {"slurm/gpu01": False, "slurm/gpu02": False}
        rig.place.told = None
        rig.step()
        assert visible(rig) == {"slurm/gpu01": True, "slurm/gpu02": True}


def test_an_address_that_flaps_loses_rounds_and_nothing_else(path: Path) -> None:
    with named(path, exporter("gpu01"), exporter("gpu02")) as rig:
        for number in range(12):
            rig.place.told = ["127.0.0.1"] if number % 2 else ["127.0.0.2", "127.0.0.1"]
            rig.step(1, 1.0)
            assert visible(rig) == {"slurm/gpu01": True, "slurm/gpu02": True}
        busy = {name: found.window(900).gpus[0].busy for name, found in rig.evidence().items()}
        assert busy == {
            "slurm/gpu01": pytest.approx(11 * INTERVAL),
            "slurm/gpu02": pytest.approx(10 * INTERVAL),  # in the last round it was not among the addresses
        }


def test_two_addresses_of_one_exporter_are_read_once(path: Path) -> None:
    node = exporter()
    with named(path, node, node) as rig:
        rig.exporters.pop()
        rig.step(5, 1.0)
        told = rig.told()
        read = [url for url, (_, _, note) in told.items() if not note and url != rig.place.target]
        noted = [url for url, (_, _, note) in told.items() if note]
        assert (len(read), len(noted)) == (1, 1)
        assert told[noted[0]] == ("gpu01", "", f"is gpu01, which is read at {read[0]}")
        (found,) = rig.evidence().values()
        assert found.window(900).gpus[0].busy == pytest.approx(4 * INTERVAL)
        # Three answers without it end an allocation, and they are not given twice as fast.
        node.end("slurm/gpu01")
        ends = []
        for _ in range(3):
            rig.step()
            ends.append(next(iter(rig.evidence().values())).ended is not None)
        assert ends == [False, False, True]


def test_two_exporters_that_say_they_are_one_node_are_told_and_never_mixed(path: Path) -> None:
    first, second = exporter(), FakeExporter("gpu01", 4)
    second.allocate("slurm/gpu01", 0, start=1.0)
    with named(path, first) as rig:
        rig.step(3, 1.0)
        second.run(7777, 1.0)
        rig.exporters.append(second)
        rig.place.start("127.0.0.2", second.page)
        rig.step(5, 1.0)
        told = rig.told()
        assert told[rig.place.url("127.0.0.1")] == ("gpu01", "", "")
        why = f"says that it is gpu01, as {rig.place.url('127.0.0.1')} does with other GPUs: it is not read"
        assert told[rig.place.url("127.0.0.2")] == ("gpu01", why, "")
        (found,) = rig.evidence().values()
        assert found.window(900).gpus[0].busy == pytest.approx(7 * INTERVAL)


def test_a_resolver_that_hangs_holds_up_no_exporter_and_no_end(path: Path) -> None:
    release = threading.Event()
    with named(path, exporter(), interval=1) as rig:
        rig.step(2)

        def hang(host: str, port: int | None) -> Iterable[str]:
            assert release.wait(60)
            return ["127.0.0.1"]

        rig.source._targets.names[0]._resolve = hang
        try:
            for _ in range(3):
                rig.step()
                assert rig.told()[rig.place.url("127.0.0.1")] == ("gpu01", "", "")
                assert visible(rig) == {"slurm/gpu01": True}
            rig.place.monotonic.advance(TIMEOUT + 1)
            assert f"the resolver is silent for {TIMEOUT + 1:g} s" in rig.told()[rig.place.target][1]
            rig.source.close()
            rig.source = rig.started()
        finally:
            release.set()


def test_beside_targets_given_by_address(path: Path) -> None:
    place, one, other = Place(), exporter("gpu01"), exporter("gpu02")
    place.start("127.0.0.1", one.page)
    place.start("127.0.0.2", other.page)
    place.told = ["127.0.0.2"]
    rig = NamedRig(path, place, place.url("127.0.0.1"), place.target)
    try:
        rig.step(2)
        assert [(target.url, target.node) for target in rig.source.targets()] == [
            (place.url("127.0.0.1"), "gpu01"),
            (place.url("127.0.0.2"), "gpu02"),
            (place.target, ""),
        ]
    finally:
        place.stop_all()
        rig.close()


@pytest.mark.parametrize(("issued_to", "why"), [(NAME, ""), ("127.0.0.1", "certificate verify failed")])
def test_a_certificate_is_judged_by_the_name(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, issued_to: str, why: str
) -> None:
    authority = Authority(tmp_path)
    sans = "IP:127.0.0.1" if issued_to == "127.0.0.1" else f"DNS:{issued_to}"
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.pair.cert))
    place = Place(authority.issue("exporter", sans))
    place.start("127.0.0.1", exporter().page)
    rig = NamedRig(path, place)
    try:
        rig.step()
        assert why in rig.told()[place.url("127.0.0.1")][1]
        assert bool(why) == bool(rig.told()[place.url("127.0.0.1")][1])
    finally:
        place.stop_all()
        rig.close()


def test_a_real_name_of_real_dns() -> None:
    """In a network of its own, with a name server on its loopback: glibc resolves, A and AAAA."""
    if missing := [program for program in ("unshare", "ip", "mount") if shutil.which(program) is None]:
        lacking(missing[0])
    if os.geteuid() != 0:
        lacking("root")
    inside = f"ip link set lo up && exec {sys.executable} -m tests.alerter.sources.in_its_own_dns"
    command = ["unshare", "--mount", "--net", "sh", "-c", inside]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "resolved, lost, kept, found again"
