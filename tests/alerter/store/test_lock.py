"""One alerter per store."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dutycycle_alerter.errors import StoreError
from dutycycle_alerter.store.lock import StoreLock


def test_a_second_alerter_is_refused_and_told_who_has_the_store(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'a.sqlite3'}"
    lock = StoreLock(url)
    with pytest.raises(StoreError, match=rf"another alerter \(process {os.getpid()}\)"):
        StoreLock(url)
    lock.release()
    StoreLock(url).release()


def test_a_killed_alerter_leaves_no_lock_behind(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'a.sqlite3'}"
    code = "from dutycycle_alerter.store.lock import StoreLock\n"
    code += f"held = StoreLock({url!r}); print('held', flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(StoreError, match=f"process {holder.pid}"):
            StoreLock(url)
        holder.kill()
    StoreLock(url).release()


def test_a_place_that_cannot_be_written_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"missing/a\.sqlite3\.lock"):
        StoreLock(f"sqlite:///{tmp_path / 'missing' / 'a.sqlite3'}")


def test_on_a_full_disk_the_lock_is_held_by_whom_is_not_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    url = f"sqlite:///{tmp_path / 'a.sqlite3'}"
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        lock = StoreLock(url)
    assert lock.held
    with pytest.raises(StoreError, match=r"another alerter \(process unknown\)"):
        StoreLock(url)
    lock.release()
    StoreLock(url).release()


@pytest.mark.parametrize(
    "url",
    [
        *("postgresql://u:s3cret", "postgresql://u:s3@cret@h/n", "s3cret", ""),
        *("postgresql://u@h/n?password_file=/s3cret%00", "postgresql://u:s3cret%00@h/n", "sqlite:///s3cret\0"),
    ],
)
def test_an_address_that_cannot_be_read_is_an_error_that_does_not_show_it(url: str) -> None:
    with pytest.raises(StoreError, match="cannot be read: write it like") as error:
        StoreLock(url)
    assert "cret@" not in str(error.value)
    assert "s3" not in str(error.value)


def test_other_databases_have_no_lock_file() -> None:
    StoreLock("postgresql://host/name").release()
