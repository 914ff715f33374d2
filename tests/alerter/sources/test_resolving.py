"""What a name of exporters stands for, by a resolver that says what the test wants."""

import socket
import threading
from collections.abc import Iterable

import pytest

from dutycycle_alerter.sources import resolving
from dutycycle_alerter.sources.resolving import KEPT, Name, Resolved
from tests.fakes.clock import FakeClock

TARGET = "dns+http://exporters.example.org:9836/metrics"


class Resolver:
    """Says `answer`: addresses, or an error."""

    def __init__(self, *answer: str) -> None:
        self.answer: Iterable[str] | Exception = answer
        self.asked: list[tuple[str, int | None]] = []

    def __call__(self, host: str, port: int | None) -> Iterable[str]:
        self.asked.append((host, port))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class Resolving:
    """A name, its resolver and the clock that its addresses are kept by."""

    def __init__(self, target: str = TARGET, *addresses: str) -> None:
        self.resolver, self.clock = Resolver(*addresses), FakeClock()
        self.name = Name(target, 5, self.resolver, self.clock)

    def round(self) -> Resolved:
        """Resolve once, to the end."""
        answered, said = threading.Event(), []

        def answer(resolved: Resolved) -> None:
            said.append(resolved)
            answered.set()

        self.name.expire()
        self.name.ask(answer)
        assert answered.wait(60)
        self.name.take(said[0])
        return said[0]


@pytest.mark.parametrize(
    ("target", "address", "url", "host"),
    [
        (TARGET, "10.0.0.5", "http://10.0.0.5:9836/metrics", "exporters.example.org:9836"),
        (TARGET, "2001:db8::5", "http://[2001:db8::5]:9836/metrics", "exporters.example.org:9836"),
        (TARGET, "fe80::5%eth0", "http://[fe80::5%25eth0]:9836/metrics", "exporters.example.org:9836"),
        ("dns+https://a.example.org/m?x=1", "10.0.0.5", "https://10.0.0.5/m?x=1", "a.example.org"),
        ("dns+http://a.svc.:9836/m", "10.0.0.5", "http://10.0.0.5:9836/m", "a.svc:9836"),
    ],
    ids=["IPv4", "IPv6", "link-local", "no port", "absolute"],
)
def test_an_address_is_asked_for_the_name(target: str, address: str, url: str, host: str) -> None:
    rig = Resolving(target, address)
    rig.round()
    assert [rig.name.url(found) for found in rig.name.addresses] == [url]
    assert rig.name.host_header == host


def test_an_absolute_name_is_resolved_as_it_is() -> None:
    rig = Resolving("dns+http://a.svc.:9836/m", "10.0.0.5")
    rig.round()
    assert rig.resolver.asked == [("a.svc.", 9836)]


def test_each_address_counts_once() -> None:
    rig = Resolving(TARGET, "10.0.0.2", "10.0.0.1", "10.0.0.2")
    rig.round()
    assert rig.name.addresses == ("10.0.0.1", "10.0.0.2")
    assert rig.name.error == ""


@pytest.mark.parametrize(
    ("failure", "why"),
    [
        (
            socket.gaierror(socket.EAI_NONAME, "Name or service not known"),
            "does not resolve: Name or service not known",
        ),
        (OSError(24, "Too many open files"), "does not resolve: [Errno 24] Too many open files"),
        (UnicodeError("label too long"), "does not resolve: label too long"),
        ((), "it has no address"),
    ],
    ids=["no such name", "no descriptor", "no DNS name", "empty"],
)
def test_a_name_that_no_longer_resolves_keeps_its_addresses_for_an_hour(failure: object, why: str) -> None:
    rig = Resolving(TARGET, "10.0.0.1", "10.0.0.2")
    rig.round()
    rig.resolver.answer = failure  # type: ignore[assignment]
    rig.clock.advance(KEPT - 600)
    rig.round()
    assert rig.name.addresses == ("10.0.0.1", "10.0.0.2")
    assert rig.name.error == f"{why}; what is known is read for 10 min more: 2 addresses"
    rig.clock.advance(601)
    rig.round()
    assert rig.name.addresses == ()
    assert rig.name.error == why
    rig.resolver.answer = ("10.0.0.3",)
    rig.round()
    assert (rig.name.addresses, rig.name.error) == (("10.0.0.3",), "")


def test_an_address_that_is_gone_is_let_go_at_once_and_may_come_back() -> None:
    rig = Resolving(TARGET)
    for addresses in [("10.0.0.1", "10.0.0.2"), ("10.0.0.2",), ("10.0.0.1", "10.0.0.2"), ("10.0.0.3",)]:
        rig.resolver.answer = addresses
        rig.round()
        assert rig.name.addresses == addresses


def test_a_name_that_never_resolved_says_why() -> None:
    rig = Resolving(TARGET)
    rig.resolver.answer = socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
    rig.round()
    assert rig.name.error == "does not resolve: Temporary failure in name resolution"


def test_a_huge_answer_is_read_up_to_a_bound_and_says_so() -> None:
    rig = Resolving(TARGET, *(f"10.{n // 65536}.{n // 256 % 256}.{n % 256}" for n in range(70_000)))
    rig.round()
    assert len(rig.name.addresses) == resolving.MOST_ADDRESSES
    assert rig.name.error == "65000 of its addresses are not read, 5000 are"
    rig.resolver.answer = ("10.0.0.1",)
    rig.round()
    assert rig.name.error == ""


def test_a_silent_resolver_is_asked_once_and_told_after_a_time_out() -> None:
    rig, release = Resolving(TARGET, "10.0.0.1"), threading.Event()
    rig.round()
    name, answered, asked = rig.name, threading.Event(), []

    def hang(host: str, port: int | None) -> Iterable[str]:
        asked.append(host)
        assert release.wait(60)
        return ("10.0.0.2",)

    name._resolve = hang
    said: list[Resolved] = []

    def answer(resolved: Resolved) -> None:
        said.append(resolved)
        answered.set()

    for _ in range(3):
        name.ask(answer)
    assert name.asked
    assert name.error == ""
    rig.clock.advance(7)
    assert name.error.startswith("the resolver is silent for 7 s; what is known is read for 60 min more")
    rig.clock.advance(KEPT)
    name.expire()
    assert name.addresses == (), "also while the resolver is silent"
    release.set()
    assert answered.wait(60)
    name.take(said[0])
    assert (len(asked), name.addresses, name.error, name.asked) == (1, ("10.0.0.2",), "", False)
