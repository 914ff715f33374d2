"""What a command in a root may do, and what is left of it."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.exporter.daemon import eventually
from tests.images.base import base
from tests.images.container import Confinement, Mount, Running, command
from tests.images.fixtures import TIMEOUT
from tests.images.store import Store

pytestmark = pytest.mark.timeout(TIMEOUT)


@pytest.fixture
def debian(image_store: Store) -> Path:
    return base("debian:trixie-slim", image_store)


def said(root: Path, script: str, confinement: Confinement) -> str:
    argv = command(root, ["/bin/sh", "-c", script], confinement, environment={"PATH": "/usr/bin"}, workdir="/tmp")
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    ("script", "confinement", "expected"),
    [
        ("echo $$ $(pwd) $(id -u):$(id -g)", Confinement(), "1 /tmp 10001:10001"),
        ("echo $(id -u):$(id -G)", Confinement(user=(0, 0)), "0:0"),
        ("grep CapEff /proc/self/status", Confinement(user=(0, 0)), "0000000000000000"),
        ("grep NoNewPrivs /proc/self/status", Confinement(user=(0, 0)), "1"),
        ("touch /etc/new", Confinement(user=(0, 0)), "Read-only file system"),
        ("touch /tmp/new && echo done", Confinement(), "done"),
        ("touch /etc/new && echo done", Confinement(user=(0, 0), read_only=False), "done"),
        ("chown 5:5 /etc", Confinement(user=(0, 0), read_only=False), "not permitted"),
        ("touch /state/new && echo done", Confinement(memory=("/tmp", "/state")), "done"),
        ("cat /deep/in/it", Confinement(mounts=[Mount(Path(__file__), "/deep/in/it")]), "is left of it"),
        (
            "touch /in/new",
            Confinement(user=(0, 0), mounts=[Mount(Path(__file__).parent, "/in")]),
            "Read-only file system",
        ),
        ("uname -n", Confinement(host="elsewhere"), "elsewhere"),
        ("echo $HOME$USER$LD_LIBRARY_PATH.", Confinement(), "."),
        ("echo processes: /proc/[0-9]*", Confinement(), "processes: /proc/1\n"),
    ],
)
def test_a_command_is_confined(debian: Path, script: str, confinement: Confinement, expected: str) -> None:
    assert expected in said(debian, script, confinement)


def test_what_is_mounted_and_written_is_gone_afterwards(debian: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out").chmod(0o777)
    mounts = [Mount(tmp_path / "out", "/new/place", writable=True)]
    script = "touch /new/place/kept /etc/lost && echo done"
    assert said(debian, script, Confinement(user=(0, 0), read_only=False, mounts=mounts)) == "done\n"
    assert (tmp_path / "out/kept").exists()
    assert not (debian / "new").exists()
    assert not (debian / "etc/lost").exists()
    assert str(debian) not in Path("/proc/self/mountinfo").read_text()


def test_all_of_it_ends_with_the_test(debian: Path, tmp_path: Path) -> None:
    argv = command(
        debian,
        ["/bin/sh", "-c", "sleep 1000 & sleep 1000"],
        Confinement(),
        environment={"PATH": "/usr/bin"},
        workdir="/",
    )
    with Running(argv, tmp_path / "log") as running:
        path = Path(f"/proc/{running.pid}/root/proc")
        assert eventually(lambda: len([each for each in path.iterdir() if each.name.isdigit()]) == 3)
        first = Path(f"/proc/{running.pid}")
    eventually(lambda: not first.exists())


def test_a_signal_reaches_the_first_process(debian: Path, tmp_path: Path) -> None:
    """As there is no handler, SIGTERM is nothing to it: what must end by it has to say so."""
    script = "trap 'echo got it; exit 7' USR1; echo ready; while :; do sleep 0.05; done"
    argv = command(debian, ["/bin/sh", "-c", script], Confinement(), environment={"PATH": "/usr/bin"}, workdir="/")
    with Running(argv, tmp_path / "log") as running:
        eventually(lambda: "ready" in running.log)
        running.signal(signal.SIGTERM)
        time.sleep(0.2)
        assert running.process.poll() is None
        running.signal(signal.SIGUSR1)
        assert running.process.wait(60) == 7
        assert "got it" in running.log
