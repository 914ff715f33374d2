"""Run in a mount and a network namespace of its own: a name server, exporters at its addresses, and the real source.

Its loopback is up before it starts: urllib3 looks for IPv6 when it is imported. The name has two A records and one
AAAA record; then the server fails, then the name has another address.
"""

from __future__ import annotations

import socket
import subprocess
import tempfile
from pathlib import Path

from dutycycle_alerter.settings import Settings
from dutycycle_alerter.sources.scrape import ScrapeSource
from dutycycle_alerter.store.database import open_database
from tests.alerter.exporters import FakeExporter
from tests.alerter.named_exporters import Place
from tests.fakes.clock import FakeClock
from tests.fakes.dns import FailingError, NameServer

NAME = "dutycycle-exporter.dutycycle.svc"
TARGET = f"dns+http://{NAME}:9836/metrics"


class Answers:
    """What the name server says of the name: its addresses, or that it fails where that is None."""

    def __init__(self) -> None:
        self.addresses: list[str] | None = []

    def __call__(self, name: str) -> list[str] | None:
        if self.addresses is None:
            raise FailingError
        return self.addresses if name == NAME else None


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        configuration = Path(folder) / "resolv.conf"
        configuration.write_text("nameserver 127.0.0.53\nsearch dutycycle.svc.cluster.local\noptions ndots:5\n")
        subprocess.run(["mount", "--bind", configuration, "/etc/resolv.conf"], check=True)
        try:
            _follow(Path(folder) / "store.sqlite3")
        finally:
            subprocess.run(["umount", "/etc/resolv.conf"], check=True)


def _follow(store: Path) -> None:
    place = Place()
    place.port = 9836
    answers, listening = Answers(), socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    listening.bind(("127.0.0.53", 53))
    try:
        with NameServer(listening, answers) as dns:
            _read(store, place, answers)
        assert f"{NAME}.dutycycle.svc.cluster.local" in dns.asked, dns.asked
    finally:
        place.stop_all()


def _read(store: Path, place: Place, answers: Answers) -> None:
    clock = FakeClock()
    for address, node in (("127.0.1.1", "gpu01"), ("127.0.1.2", "gpu02"), ("::1", "gpu03"), ("127.0.1.4", "gpu04")):
        place.start(address, FakeExporter(node, 1).page)
    settings = Settings.model_validate({"source": {"targets": [TARGET]}}).scaled()
    database = open_database(f"sqlite:///{store}")
    source = ScrapeSource(settings, database, clock)
    source.restore()

    def told() -> list[tuple[str, str, bool]]:
        clock.advance(15)
        source.scrape()
        return sorted((one.url, one.node, bool(one.error)) for one in source.targets())

    three = [
        (TARGET, "", False),
        ("http://127.0.1.1:9836/metrics", "gpu01", False),
        ("http://127.0.1.2:9836/metrics", "gpu02", False),
        ("http://[::1]:9836/metrics", "gpu03", False),
    ]
    answers.addresses = ["127.0.1.1", "127.0.1.2", "::1"]
    assert told() == three, source.targets()
    assert set(place.hosts) == {f"{NAME}:9836"}, place.hosts
    answers.addresses = None
    assert told() == [(TARGET, "", True), *three[1:]], source.targets()
    answers.addresses = []
    assert told() == [(TARGET, "", True), *three[1:]], source.targets()
    answers.addresses = ["127.0.1.4"]
    assert told() == [(TARGET, "", False), ("http://127.0.1.4:9836/metrics", "gpu04", False)], source.targets()
    source.close()
    database.close()
    print("resolved, lost, kept, found again")


if __name__ == "__main__":
    main()
