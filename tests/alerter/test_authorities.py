"""What is one and the same host to a browser, however it is written."""

from __future__ import annotations

import pytest

from dutycycle_alerter.authorities import authority, spellings


@pytest.mark.parametrize(
    ("text", "written", "name"),
    [
        ("GPUs.example.org", "GPUs.example.org", "GPUs.example.org"),
        ("gpus.example.org.", "gpus.example.org", "gpus.example.org"),
        ("gpus.example.org.:08443", "gpus.example.org:8443", "gpus.example.org"),
        ("[::1]:80", "[::1]:80", "::1"),
        ("gpus:65535", "gpus:65535", "gpus"),
    ],
)
def test_an_authority_has_one_form(text: str, written: str, name: str) -> None:
    found = authority(text)
    assert found is not None
    assert (str(found), found.name) == (written, name)


@pytest.mark.parametrize(
    "text", ["", ".", "a..", "a..b", ".a", "a:", "a:65536", "a:-1", "[::1].", "[]", "::1", "u@a", "a b", "ä", "a\n"]
)
def test_what_is_no_authority_is_none(text: str) -> None:
    assert authority(text) is None
    assert spellings(text.replace("\n", "/"), "https") == frozenset()


@pytest.mark.parametrize(
    ("text", "scheme", "ways"),
    [
        ("GPUs.example.org", "https", {"gpus.example.org", "gpus.example.org:443"}),
        ("gpus.example.org.:443", "https", {"gpus.example.org", "gpus.example.org:443"}),
        ("gpus.example.org:80", "https", {"gpus.example.org:80"}),
        ("gpus.example.org:80", "http", {"gpus.example.org", "gpus.example.org:80"}),
        ("gpus.example.org:443", "http", {"gpus.example.org:443"}),
        ("[::1]", "http", {"[::1]", "[::1]:80"}),
        ("gpus.example.org", "ftp", {"gpus.example.org"}),
    ],
)
def test_the_port_that_a_scheme_has_anyway_may_be_written_or_not(text: str, scheme: str, ways: set[str]) -> None:
    assert spellings(text, scheme) == ways
