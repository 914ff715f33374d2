"""Log lines on stderr: one event is one line, whatever its text holds."""

from __future__ import annotations

import json
import logging
import sys


class _Logfmt(logging.Formatter):
    """key=value pairs. Text is quoted and escaped: names of jobs and files come from others."""

    def format(self, record: logging.LogRecord) -> str:
        text = record.getMessage()
        if record.exc_info:
            text += "\n" + self.formatException(record.exc_info)
        quoted = json.dumps(text, ensure_ascii=not text.isprintable())
        return f"time={self.formatTime(record)} level={record.levelname} logger={record.name} msg={quoted}"


def set_up(level: str) -> None:
    """Log from `level` on (debug, info, warning, error)."""
    handler = logging.StreamHandler(sys.stderr)
    formatter = _Logfmt()
    formatter.default_time_format = "%Y-%m-%dT%H:%M:%S"
    formatter.default_msec_format = "%s.%03d"
    handler.setFormatter(formatter)
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
