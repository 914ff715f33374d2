"""Run in a mount and a network namespace of its own: a name server, exporters at its addresses, and the real source.

Its loopback is up before it starts: urllib3 looks for IPv6 when it is imported. The name has two A records and one
AAAA record; then the server fails, then the name has another address.
"""

from __future__ import annotations

import socket
import struct
import subprocess
import tempfile
import threading
from pathlib import Path

from dutycycle_alerter.settings import Settings
from dutycycle_alerter.sources.scrape import ScrapeSource
from dutycycle_alerter.store.database import open_database
from tests.alerter.exporters import FakeExporter
from tests.alerter.named_exporters import Place
from tests.fakes.clock import FakeClock

TARGET = "dns+http://dutycycle-exporter.dutycycle.svc:9836/metrics"
_A, _AAAA, _SERVFAIL = 1, 28, 2


class NameServer:
    """Answers every question over UDP with `addresses`, or with SERVFAIL where that is None; `asked` are the names."""

    def __init__(self, address: str) -> None:
        self.addresses: list[str] | None = []
        self.asked: set[str] = set()
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind((address, 53))
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            query, sender = self._socket.recvfrom(4096)
            self._socket.sendto(self._answer(query), sender)

    def _answer(self, query: bytes) -> bytes:
        labels, at = [], 12
        while length := query[at]:
            labels.append(query[at + 1 : at + 1 + length].decode())
            at += 1 + length
        question = query[12 : at + 5]
        (kind,) = struct.unpack(">H", question[-4:-2])
        self.asked.add(".".join(labels))
        if self.addresses is None:
            return query[:2] + struct.pack(">HHHHH", 0x8180 | _SERVFAIL, 1, 0, 0, 0) + question
        family = {_A: socket.AF_INET, _AAAA: socket.AF_INET6}.get(kind)
        found = [
            socket.inet_pton(family, address)
            for address in self.addresses
            if family is not None and (":" in address) == (kind == _AAAA)
        ]
        records = [struct.pack(">HHHIH", 0xC00C, kind, 1, 5, len(packed)) + packed for packed in found]
        return query[:2] + struct.pack(">HHHHH", 0x8180, 1, len(found), 0, 0) + question + b"".join(records)


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
    try:
        _read(store, place)
    finally:
        place.stop_all()


def _read(store: Path, place: Place) -> None:
    dns, clock = NameServer("127.0.0.53"), FakeClock()
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
    dns.addresses = ["127.0.1.1", "127.0.1.2", "::1"]
    assert told() == three, source.targets()
    assert "dutycycle-exporter.dutycycle.svc.dutycycle.svc.cluster.local" in dns.asked, dns.asked
    assert set(place.hosts) == {"dutycycle-exporter.dutycycle.svc:9836"}, place.hosts
    dns.addresses = None
    assert told() == [(TARGET, "", True), *three[1:]], source.targets()
    dns.addresses = []
    assert told() == [(TARGET, "", True), *three[1:]], source.targets()
    dns.addresses = ["127.0.1.4"]
    assert told() == [(TARGET, "", False), ("http://127.0.1.4:9836/metrics", "gpu04", False)], source.targets()
    source.close()
    database.close()
    print("resolved, lost, kept, found again")


if __name__ == "__main__":
    main()
