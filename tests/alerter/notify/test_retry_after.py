"""When an answer wants to be asked again: seconds, dates and nonsense."""

from email.utils import formatdate

import pytest

from dutycycle_alerter.notify.receivers.posting import retry_after

NOW = 1_790_000_000.0


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("0", 0),
        ("17", 17),
        (" 17 ", 17),
        (formatdate(NOW + 90, usegmt=True), 90),
        (formatdate(NOW - 90, usegmt=True), 0),
        ("999999999", 3600),
        (formatdate(NOW + 9e8, usegmt=True), 3600),
        ("-1", None),
        ("1.5", None),
        ("²", None),
        ("soon", None),
        ("", None),
        ("Mon, 99 Foo 99999 99:99:99 GMT", None),
        ("9" * 5000, 3600),
    ],
)
def test_retry_after(value: str, seconds: float | None) -> None:
    assert retry_after({"retry-after": value}, NOW) == seconds
    assert retry_after({}, NOW) is None
