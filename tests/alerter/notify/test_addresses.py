"""From users to addresses: the site's map, the template, and names and files that are no use."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutycycle_alerter.errors import ConfigError, DeliveryError
from dutycycle_alerter.notify.addresses import Addresses, read_map
from dutycycle_alerter.settings.notify.address import is_address
from dutycycle_alerter.settings.notify.people import People

TEMPLATE = "{user}@example.org"


def addresses(path: Path | None = None, template: str = "") -> Addresses:
    return Addresses(People(address=template, map_file=path))


def written(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize("user", ["alice", "a", "a.b-c_d", "u123", "_service", "x" * 64, "Alice"])
def test_the_template_makes_addresses(user: str) -> None:
    assert addresses(template=TEMPLATE).of(user) == f"{user}@example.org"
    assert addresses().of(user) is None


def test_who_needs_an_address_is_told_what_to_do_where_there_is_none() -> None:
    assert addresses(template=TEMPLATE).needed("alice") == "alice@example.org"
    for user, name in (("bob\n", "bob"), ("", "nobody")):
        with pytest.raises(DeliveryError, match=f"no email address of {name}.* is known: add them to") as error:
            addresses().needed(user)
        assert error.value.permanent
        assert str(error.value).isprintable()


@pytest.mark.parametrize(
    "user",
    [
        *("", " ", "a b", "a@b", "a@evil.org,alice", "a,b", "a;b", "a:b", "a<b", "a>", '"a"', "a'b", "(a)", "a\\b"),
        *(
            "a\r\nBcc: x@evil.org",
            "a\n",
            "\na",
            "a\t",
            "a\0",
            "a\x7f",
            "../alice",
            "a/b",
            "/a",
            "..",
            ".a",
            "a.",
            "a..b",
        ),
        *("-a", "a-", "a+folder", "a%evil.org", "a!b", "a|b", "a$", "ä", "аlice", "a\u202eb", "a\ud800", "x" * 65),
        *("{user}", "system:serviceaccount:ns:sa", "CORP\\alice", "x" * 2**20),
    ],
)
def test_a_name_that_is_no_local_part_has_no_address(user: str) -> None:
    assert addresses(template=TEMPLATE).of(user) is None


@given(st.text() | st.text(alphabet="ab.@<>,;:\"'\\ \r\n\t-+%!{}"))
def test_whatever_the_name_is_an_address_is_one_and_of_that_user(user: str) -> None:
    for template in (TEMPLATE, "gpu+{user}@example.org", "gpus@{user}.example.org"):
        address = addresses(template=template).of(user)
        assert address is None or (is_address(address) and address == template.replace("{user}", user))


def test_the_map_goes_before_the_template_and_a_user_without_address_has_none(tmp_path: Path) -> None:
    path = written(
        tmp_path / "people",
        "\ufeff# people\n\nalice  alice.liddell@cs.example.edu   # moved\nrobot\r\nCORP\\bob\tbob@example.org\n"
        "jürgen j@example.org\nhash#tag tag@example.org\n#carol carol@example.com\nlast last@example.org",
    )
    people = addresses(path, TEMPLATE)
    assert [people.of(user) for user in ("alice", "robot", "CORP\\bob", "jürgen", "hash#tag", "last")] == [
        *("alice.liddell@cs.example.edu", None, "bob@example.org", "j@example.org"),
        *("tag@example.org", "last@example.org"),
    ]
    assert people.of("carol") == "carol@example.org"
    assert people.of("Alice") == "Alice@example.org"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            "a a@example.org\nb b@example.org c@example.org\n",
            "line 2: expected `user address`, found b b@example.org c@",
        ),
        ("a a@example.org\n\n\na other@example.org\n", "line 4: a is in line 1 already"),
        ("a a@example.org\na a@example.org\n", "line 2: a is in line 1 already"),
        ("a nowhere\n", "line 1: not an email address in ASCII: nowhere"),
        ("a a@\n", "line 1: not an email address"),
        ("a jürgen@example.org\n", "line 1: not an email address in ASCII"),
        ("a <a@example.org>\n", "line 1: not an email address"),
        ("a a@example.org,b@example.org\n", "line 1: not an email address"),
        ("a@example.org\x00 a@example.org\n", "line 1: expected `user address`, found a@example.org␀"),
        ("a\u202e a@example.org\n", "line 1: expected `user address`"),
        (b"a a@example.org\nm\xfcller m@example.org\n", "line 2: not UTF-8"),
        ("a a@example.org\n".encode("utf-16"), "line 1: not UTF-8"),
        (b"x" * 2**20, "line 1: longer than 1000 bytes"),
        (b"a a@example.org\n" + b"\xff" * 2**20, "line 2: longer than 1000 bytes"),
        (b"#\n" * 2**19 + b"\x1b[2J", "line 524289: "),
        (b"#" * (16 * 2**20 + 1), "larger than 16 MiB"),
    ],
    ids=lambda value: "" if isinstance(value, bytes) else None,
)
def test_a_map_that_is_none_says_where(content: str | bytes, said: str, tmp_path: Path) -> None:
    path = written(tmp_path / "people", content)
    with pytest.raises(ConfigError) as caught:
        addresses(path, TEMPLATE)
    assert str(caught.value).startswith(str(path))
    assert said in str(caught.value)
    assert len(str(caught.value)) < 400 + len(str(path))
    assert str(caught.value).isprintable()


def test_what_is_not_a_file_is_said_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name, said in (("pipe", "not a file"), (".", "not a file"), ("none", "cannot be read")):
        with pytest.raises(ConfigError, match=said):
            addresses(tmp_path / name)
    with pytest.raises(ConfigError, match="not a file"):
        addresses(Path("/dev/zero"))


def test_a_map_that_changes_is_read_anew_and_a_broken_one_leaves_the_last(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = written(tmp_path / "people", "a first@example.org\n")
    people = addresses(path)
    assert people.of("a") == "first@example.org"

    with caplog.at_level(logging.WARNING):
        for content in ("a second@example.org\na\n", "nonsense nonsense\n"):
            written(path, content)
            assert [people.of("a") for _ in range(5)] == ["first@example.org"] * 5
        path.unlink()
        assert [people.of("a") for _ in range(5)] == ["first@example.org"] * 5
        assert [record.getMessage().split(";")[0] for record in caplog.records] == [
            f"{path}, line 2: a is in line 1 already: remove one",
            f"{path}, line 1: not an email address in ASCII: nonsense",
            f"{path}: notify.people.map_file cannot be read: [Errno 2] No such file or directory: '{path}'",
        ]
        caplog.clear()
        written(path, "b third@example.org\n")
        assert people.of("a") is None
        assert people.of("b") == "third@example.org"
        assert not caplog.records


def test_each_time_that_a_map_breaks_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = written(tmp_path / "people", "a first@example.org\n")
    people = addresses(path)
    for _ in range(2):
        path.rename(tmp_path / "elsewhere")
        assert people.of("a") == "first@example.org"
        (tmp_path / "elsewhere").rename(path)
        assert people.of("a") == "first@example.org"
    assert len(caplog.records) == 2
    for content in ("a first\n", "a first@example.org # again\n", "a first\n"):
        written(path, content)
        assert people.of("a") == "first@example.org"
    assert len(caplog.records) == 4


def test_a_map_that_has_not_changed_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "people", "a first@example.org\n")
    people = addresses(path)
    monkeypatch.setattr("dutycycle_alerter.notify.addresses.read_map", lambda path: pytest.fail("read again"))
    assert people.of("a") == "first@example.org"


@given(st.binary(max_size=200))
def test_whatever_a_map_holds_it_is_read_or_refused(content: bytes) -> None:
    path = Path(f"/proc/self/fd/{os.memfd_create('people')}")
    try:
        path.write_bytes(content)
        found = read_map(path)
        assert all(address is None or is_address(address) for address in found.values())
    except ConfigError:
        pass
    finally:
        os.close(int(path.name))


@pytest.mark.parametrize(
    "template",
    ["{user}", "x@example.org", "{user}@{user}.org", "{user} @example.org", "{user}@example.org,b@c", "{user}@"],
)
def test_a_template_that_makes_no_addresses_is_refused(template: str) -> None:
    with pytest.raises(ValueError, match="expected an address with"):
        People(address=template)


@pytest.mark.parametrize(
    ("text", "right"),
    [
        *(("a@b", True), ("a.b+c@d-e.org", True), ("x" * 64 + "@e.org", True), ("a@xn--mnchen-3ya.de", True)),
        *(("a@b.", False), ("a@.b", False), ("a@-b", False), (".a@b", False), ("a@b@c", False), ("a b@c", False)),
        *(("x" * 65 + "@e.org", False), ("a@" + "b" * 64, False), ("a@" + "b." * 130 + "org", False)),
        *(("a@münchen.de", False), ("ä@b", False), ("a@[127.0.0.1]", False), ('"a"@b', False), ("a(b)@c", False)),
        *(("a@b\n", False), ("a@b\r\nBcc: c@d", False), ("", False), ("@", False)),
    ],
)
def test_what_an_address_is(text: str, right: bool) -> None:
    assert is_address(text) is right
