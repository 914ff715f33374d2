"""What machines without a package index are given: an extra's part of the lock, and a list of its wheels."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from tools import gather_wheels, locked_extra

LOCK = """\
# a comment
alpha==1.0 \\
    --hash=sha256:aa \\
    --hash=sha256:ab
beta==2.0 ; python_full_version < '3.12' \\
    --hash=sha256:ba
beta==2.1 ; python_full_version >= '3.12' \\
    --hash=sha256:bb
"""


def test_a_lock_is_read_entry_by_entry_with_all_of_its_hashes() -> None:
    found = locked_extra.locked(LOCK)
    assert {name: [entry.count("--hash") for entry in entries] for name, entries in found.items()} == {
        "alpha": [2],
        "beta": [1, 1],
    }


def test_an_extra_brings_what_its_packages_need_and_nothing_of_other_extras() -> None:
    lock = locked_extra.locked(locked_extra.LOCK.read_text())
    exporter, alerter = (locked_extra.needed([extra], lock) for extra in ("exporter", "alerter"))
    assert {"h2", "hpack", "hyperframe", "pyyaml"} <= exporter
    assert {"uvicorn", "starlette", "psycopg-binary"} <= alerter
    assert not exporter & {"numpy", "pytest", "sqlalchemy"}
    assert not alerter & {"h2", "pytest", "apprise"}


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("PyYAML-6.0.3-cp311-cp311-manylinux_2_28_x86_64.whl", "pyyaml==6.0.3"),
        ("dutycycle-0.1.0-py3-none-any.whl", "dutycycle[alerter,apprise]==0.1.0"),
    ],
)
def test_a_wheel_is_listed_by_name_version_and_hash(tmp_path: Path, name: str, line: str) -> None:
    (tmp_path / name).write_bytes(b"wheel")
    digest = hashlib.sha256(b"wheel").hexdigest()
    assert gather_wheels.entry(tmp_path / name, "alerter") == f"{line} --hash=sha256:{digest}"


def test_wheels_that_no_list_names_go(tmp_path: Path) -> None:
    for name in ("alpha-1-py3-none-any.whl", "beta-1-py3-none-any.whl"):
        (tmp_path / name).write_bytes(name.encode())
    kept = tmp_path / "alpha-1-py3-none-any.whl"
    (tmp_path / "alerter.txt").write_text(f"{gather_wheels.entry(kept, 'alerter')}\n")
    gather_wheels.prune(tmp_path)
    assert list(tmp_path.glob("*.whl")) == [kept]
