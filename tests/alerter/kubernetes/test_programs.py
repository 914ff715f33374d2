"""Programs that make credentials, as cloud providers have them: they fail, hang, talk, and their tokens end."""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from dutycycle_alerter.kubernetes import loading
from dutycycle_alerter.kubernetes.access import Access
from dutycycle_alerter.kubernetes.client import Client
from dutycycle_alerter.kubernetes.failures import ApiError, Failure
from dutycycle_alerter.settings.kubernetes import KubernetesCluster
from tests.alerter.kubernetes.watched import PATIENT, agrees, kubeconfig, until, watched
from tests.fakes.kubernetes import KubernetesServer, builders

SECRET = "s3cret-t0ken"
VERSION = "client.authentication.k8s.io/v1"
FAILS = f"echo no access for {SECRET} >&2; exit 3"
HANGS = "echo $$ > pid; sleep 600; true"
SHORT = 5.0
"""Seconds after which one that hangs is given up; one that does not must have ended by then on a busy machine, too."""


def gives(token: str = "admin", **status: Any) -> str:
    told = {"apiVersion": VERSION, "kind": "ExecCredential", "status": {"token": token, **status}}
    return f"echo '{json.dumps(told)}'"


def ending(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


class Program:
    """A script, beside a kubeconfig that has it run."""

    def __init__(self, directory: Path, url: str) -> None:
        self.directory = directory
        command = {"apiVersion": VERSION, "command": str(directory / "plugin"), "interactiveMode": "Never"}
        self.kubeconfig = kubeconfig(directory, url, {"exec": command})

    def does(self, script: str) -> None:
        new = self.directory / "new"
        new.write_text(f"#!/bin/sh\ncd {self.directory}\necho >> runs\n{script}\n")
        new.chmod(0o755)
        new.replace(self.directory / "plugin")

    def runs(self) -> int:
        return len((self.directory / "runs").read_text().splitlines())

    def hangs(self) -> bool:
        """Whether the one that hangs is there."""
        with suppress(OSError, ValueError):
            os.kill(int((self.directory / "pid").read_text()), 0)
            return True
        return False

    def access(self, timeout: float = 30.0) -> Access:
        return Access(KubernetesCluster(kubeconfig=self.kubeconfig, cluster="prod", timeout=timeout))


@pytest.fixture
def server() -> Iterator[KubernetesServer]:
    with KubernetesServer() as found:
        yield found


@pytest.fixture
def program(tmp_path: Path, server: KubernetesServer) -> Program:
    return Program(tmp_path, server.url)


def listed(found: Access) -> bytes:
    return Client(found, 30.0).get("/api/v1/pods")


def refused(found: Access) -> str:
    with pytest.raises(ApiError) as caught:
        listed(found)
    assert caught.value.failure is Failure.CREDENTIALS
    return str(caught.value)


def test_its_token_is_used_until_it_ends(program: Program, server: KubernetesServer) -> None:
    program.does(gives())
    found = program.access()
    for _ in range(3):
        assert b"PodList" in listed(found)
    assert program.runs() == 1
    found.close()
    server.add_user("old", "old", *server.users["admin"].rules)
    program.does(gives("old", expirationTimestamp=ending(30)))
    found = program.access()
    program.does(gives(expirationTimestamp=ending(3600)))
    for _ in range(3):
        assert b"PodList" in listed(found)
    assert (server.requests[-1].user, program.runs()) == ("admin", 3)
    found.close()


def test_where_it_cannot_be_renewed_the_old_token_does_while_it_does(program: Program) -> None:
    """And the program is not run at each request."""
    program.does(gives(expirationTimestamp=ending(30)))
    found = program.access()
    program.does(FAILS)
    for _ in range(3):
        assert b"PodList" in listed(found)
    assert program.runs() == 2
    found.close()


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (FAILS, "no credentials by the exec of its user: exec: process returned 3"),
        (f"echo {SECRET}", "exec: failed to decode process output"),
        ("echo '{}'", "exec: malformed response"),
        (gives().replace("token", "nothing"), "exec: missing token or client"),
        (gives("").replace('""', "null"), "no credentials by the exec of its user"),
    ],
)
def test_one_that_fails_makes_nobody_of_us(
    program: Program, server: KubernetesServer, script: str, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody may see nothing: that would be taken for the end of jobs. What the program writes is in no log."""
    program.does(script)
    found = program.access()
    assert words in refused(found)
    with pytest.raises(ApiError, match="no credentials") as caught:
        found.renew()
    assert caught.value.failure is Failure.CREDENTIALS
    assert not server.requests
    program.does(gives())
    found.renew()
    assert b"PodList" in listed(found)
    program.does(script)
    with pytest.raises(ApiError, match="no credentials"):
        found.renew()
    assert b"PodList" in listed(found), "the old one stays"
    assert SECRET not in caplog.text + str(caught.value)
    found.close()


def test_one_that_is_not_there(program: Program) -> None:
    assert "[Errno 2] No such file or directory" in refused(program.access())


def test_one_that_hangs_is_killed(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "_KILLED", PATIENT)
    program.does(HANGS)
    found = program.access(timeout=SHORT)
    until(lambda: not program.hangs())
    assert f"did not end within {SHORT:g} s" in refused(found)
    program.does(gives())
    found.renew()
    assert b"PodList" in listed(found)
    found.close()


def test_one_that_cannot_be_killed_is_not_run_again(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be run once more at each request for a watch."""
    program.does(gives())
    found = program.access(timeout=SHORT)
    program.does(HANGS)
    kill = loading._kill_programs
    monkeypatch.setattr(loading, "_KILLED", 0.1)
    killed: list[int | None] = []
    monkeypatch.setattr(loading, "_kill_programs", killed.append)
    for words in (f"not read within {SHORT:g} s", "still being read", "still being read"):
        with pytest.raises(ApiError, match=words):
            found.renew()
        until(program.hangs)
    assert program.runs() == 2
    kill(killed[0])
    until(lambda: not program.hangs())
    program.does(gives())
    until(lambda: not [one for one in threading.enumerate() if one.name.startswith("kubernetes-configuration")])
    found.renew()
    found.close()


def test_one_that_hangs_holds_up_no_request_no_log_and_no_end(
    program: Program, caplog: pytest.LogCaptureFixture
) -> None:
    program.does(gives())
    found = program.access(timeout=300.0)
    program.does(HANGS)
    errors: list[str] = []

    def renew() -> None:
        try:
            found.renew()
        except ApiError as error:
            errors.append(str(error))

    thread = threading.Thread(target=renew)
    thread.start()
    until(program.hangs)
    assert b"PodList" in listed(found)
    logging.getLogger().error("others log meanwhile")
    assert "others log meanwhile" in caplog.text
    found.close()
    thread.join(30)
    assert not thread.is_alive()
    assert errors
    until(lambda: not program.hangs())


def test_several_who_need_it_run_it_once(program: Program) -> None:
    program.does(gives())
    found = program.access()
    program.does(f"until test -e go; do sleep 0.05; done; {gives()}")
    threads = [threading.Thread(target=found.renew) for _ in range(4)]
    for thread in threads:
        thread.start()
    until(lambda: program.runs() == 2)
    time.sleep(0.1)
    (program.directory / "go").touch()
    for thread in threads:
        thread.join(30)
    assert program.runs() == 2
    found.close()


def test_a_watch_outlives_a_program_that_fails_for_a_while(
    program: Program, server: KubernetesServer, tmp_path: Path
) -> None:
    """The token ends, and no other comes: what is known stays, the status says why, and nobody's jobs are cut short."""
    made = server.put(builders.workload("Job", "train", uid="train", annotations={"dutycycle.io/user": "ada"}))
    server.put(builders.pod("train-0", uid="train-0", owners=(builders.owner(made),)))
    server.add_user("old", "old", *server.users["admin"].rules)
    program.does(gives("old"))
    with watched(tmp_path, server, kubeconfig=program.kubeconfig) as cluster:
        until(lambda: agrees(cluster, server))
        program.does(FAILS)
        server.remove_user("old")
        with server.inject("cut", times=1):
            server.put(builders.pod("train-1", uid="train-1", owners=(builders.owner(made),)))
            until(lambda: "process returned 3" in cluster.snapshot().error)
        assert set(cluster.snapshot().pods) == {"train-0"}
        program.does(gives())
        until(lambda: agrees(cluster, server))
        assert cluster.wait_synced(30)
        assert cluster.snapshot().owners["train-1"].annotations == {"dutycycle.io/user": "ada"}
    assert not [request for request in server.requests if request.user == "system:anonymous"]


def test_a_watch_ends_while_the_program_hangs(program: Program, server: KubernetesServer, tmp_path: Path) -> None:
    server.add_user("old", "old", *server.users["admin"].rules)
    program.does(gives("old"))
    with watched(tmp_path, server, kubeconfig=program.kubeconfig, nodes=True, timeout=300.0) as cluster:
        until(lambda: agrees(cluster, server))
        program.does(HANGS)
        server.remove_user("old")
        with server.inject("cut"):
            server.put(builders.pod("train-1"))
            until(program.hangs)
            assert not cluster.snapshot().fresh
            cluster.close()
    until(lambda: not [one for one in threading.enumerate() if one.name.startswith("kubernetes-")])
    until(lambda: not program.hangs())
