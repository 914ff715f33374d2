"""The records that are published: each can be judged again, by today's checker, and says whose figures it has."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from benchmarks.chaos import kept
from benchmarks.chaos.promises import check, violations

EVIDENCE = Path(__file__).resolve().parents[3] / "benchmarks" / "evidence" / "chaos"
FILES = sorted(EVIDENCE.glob("*.json.gz"))
_MOST = 8 * 2**20
"""Bytes of one: a repository is no place for more."""


def test_a_record_counts_and_no_promise_is_broken_in_it() -> None:
    for path in FILES:
        record = kept.read(path)
        assert violations(check(record)) == [], path
        assert record.broke == "", path
        assert record.made.counts, path
        assert record.made.machine, path
        assert record.made.day, path
        assert not record.made.commit.endswith("-dirty"), path


def test_a_record_is_small_and_names_no_place_of_the_machine_that_made_it() -> None:
    for path in FILES:
        assert path.stat().st_size < _MOST, path
        kept_logs = json.loads(gzip.decompress(path.read_bytes()))["logs"]
        assert all(log == Path(log).name for log in kept_logs), path
