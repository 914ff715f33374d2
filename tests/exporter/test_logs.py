"""A line of the log is one event, whatever text it repeats."""

from __future__ import annotations

import json
import logging
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutycycle_exporter.logs import _Logfmt, set_up

LINE = re.compile(r'time=\S+ level=(\w+) logger=(\S+) msg=("(?:[^"\\]|\\.)*")\n')


@pytest.fixture
def root():
    """The root logger, put back as it was."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield root
    root.handlers[:], root.level = handlers, level


HOSTILE = [
    "job\nlevel=ERROR msg=forged",
    "a\r\nb",
    'quoted "text" and \\',
    "\x1b[31mred\x1b[0m \x07",
    "\u2028line\u2029 \x85",
    "\udcff lone surrogate",
    "\x00",
    "ünïcode is left as it is",
    "x" * 10_000,
]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_one_line_and_comes_back_as_it_was(root, capsys, text):
    set_up("info")
    logging.getLogger("dutycycle_exporter.test").warning("job %s", text)
    written = capsys.readouterr().err
    match = LINE.fullmatch(written)
    assert match, written
    assert (match[1], match[2]) == ("WARNING", "dutycycle_exporter.test")
    assert json.loads(match[3]) == f"job {text}"
    assert written[:-1].isprintable()


@given(st.text())
def test_any_text_is_one_line(text):
    line = _Logfmt().format(logging.LogRecord("name", logging.INFO, "path", 1, "%s", (text,), None))
    assert len(line.splitlines()) == 1
    assert line.isprintable()


def _fail(text):
    raise ValueError(text)


def test_a_trace_is_on_the_same_line(root, capsys):
    set_up("info")
    try:
        _fail("bad\nlevel=INFO msg=forged")
    except ValueError:
        logging.getLogger("x").exception("it broke")
    written = capsys.readouterr().err
    assert written.count("\n") == 1
    assert "Traceback" in written


def test_the_level_can_be_set_again(root, capsys):
    set_up("error")
    logging.getLogger("x").warning("quiet")
    set_up("warning")
    logging.getLogger("x").warning("loud")
    assert capsys.readouterr().err.count("\n") == 1
