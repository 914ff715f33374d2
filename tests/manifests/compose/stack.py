"""The services of the compose file as processes in containers of our own, each by what docker-compose makes of it.

Commands, variables, mounts, users and rights are the file's, and so are the names by which services call each other.
Two things stand in: of Prometheus and Alertmanager there are the programs alone, put into another image's root, and
Grafana, of which there is no program, is left out.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.fakes.pods.container import BindMount, Running
from tests.fakes.pods.network import DNS_ADDRESS, Namespace, Network
from tests.fakes.pods.spec import Container
from tests.manifests.compose.composed import Service


@dataclass(frozen=True)
class Image:
    """What an engine takes from one. `given` are files that stand in the root though they are not of it."""

    root: Path
    env: Mapping[str, str]
    user: tuple[int, int]
    workdir: str
    entrypoint: tuple[str, ...]
    cmd: tuple[str, ...]
    given: Mapping[str, Path]


class Stack:
    """A context manager: all services run within. `images` are by service."""

    def __init__(self, services: Mapping[str, Service], images: Mapping[str, Image], directory: Path) -> None:
        self._services, self._images, self._directory = services, images, directory
        self._addresses: dict[str, str] = {}
        self._running: dict[str, Running] = {}
        self._open = ExitStack()

    def __enter__(self) -> Self:
        try:
            self._network = self._open.enter_context(Network(self._resolve))
            joined: dict[str, Namespace] = {}
            for name in self._services:
                joined[name], self._addresses[name] = self._network.join()
                self._open.callback(joined[name].close)
            for name, service in self._services.items():
                self._start(name, service, joined[name])
        except BaseException:
            self._open.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    def reach(self, name: str, port: int) -> str:
        """A URL on this machine's loopback that leads to a service, as a published port does."""
        return f"http://127.0.0.1:{self._network.reach(lambda: (self._addresses[name], port))}"

    def check(self) -> None:
        """None has ended."""
        for name, running in self._running.items():
            assert running.alive, f"{name} ended:\n{running.log.read_text(errors='replace')[-4000:]}"

    def logs(self) -> str:
        """What they said last."""
        said = {name: running.log.read_text(errors="replace")[-3000:] for name, running in self._running.items()}
        return "\n".join(f"--- {name}\n{text}" for name, text in said.items())

    def healthy(self, name: str) -> bool:
        """What its check says, run in its container."""
        test = self._services[name]["healthcheck"]["test"]
        environment = [f"{key}={value}" for key, value in self._images[name].env.items()]
        command = ["nsenter", f"--target={self._running[name].pid}", "--mount", "--net", "--pid", "--root", "--wd"]
        done = subprocess.run(
            [*command, "--", "env", "-i", *environment, *test[1:]], capture_output=True, check=False, timeout=60
        )
        return done.returncode == 0

    def _resolve(self, name: str) -> list[str] | None:
        return [self._addresses[name]] if name in self._addresses else None

    def _start(self, name: str, service: Service, joined: Namespace) -> None:
        image, directory = self._images[name], self._directory / name
        directory.mkdir()
        own, command = service["entrypoint"], service["command"]
        container = Container(
            name=name,
            image=service["image"],
            # An entrypoint of its own takes the image's arguments away, too.
            argv=(*(own or image.entrypoint), *(command or (() if own else image.cmd))),
            environment={**image.env, **service.get("environment", {})},
            workdir=image.workdir,
            uid=image.user[0],
            gid=image.user[1],
            groups=(),
            capabilities=frozenset(),
            no_new_privileges="no-new-privileges:true" in service["security_opt"],
            read_only=service["read_only"],
            mounts=(),
            ports={},
            memory=None,
            probes={},
        )
        assert service["cap_drop"] == ["ALL"]
        running = Running(
            container, image.root, joined, self._mounts(name, service, directory), directory, hostname=name
        )
        self._running[name] = running
        self._open.callback(running.stop, 10)

    def _mounts(self, name: str, service: Service, directory: Path) -> list[BindMount]:
        image = self._images[name]
        resolving = directory / "resolv.conf"
        resolving.write_text(f"nameserver {DNS_ADDRESS}\noptions ndots:0\n")
        mounts = [
            BindMount(resolving, "/etc/resolv.conf", read_only=False),
            BindMount(Path("/sys"), "/sys", read_only=True),
        ]
        mounts += [BindMount(path, target, read_only=True) for target, path in image.given.items()]
        for mount in service["volumes"]:
            if mount["type"] == "bind":
                mounts.append(BindMount(Path(mount["source"]), mount["target"], read_only=mount["read_only"]))
            else:
                mounts.append(BindMount(self._volume(image, mount["target"], directory), mount["target"], False))
        for number, target in enumerate(service.get("tmpfs", ())):
            memory = directory / f"tmpfs-{number}"
            memory.mkdir()
            memory.chmod(0o1777)
            mounts.append(BindMount(memory, target, read_only=False))
        return mounts

    def _volume(self, image: Image, target: str, directory: Path) -> Path:
        """A new one, whose owner and mode are those of the image's directory, as an engine makes it."""
        volume = directory / "volume"
        volume.mkdir()
        there = Path(f"{image.root}{target}")
        owner, mode = image.user, 0o755
        if there.is_dir():
            found = there.stat()
            owner, mode = (found.st_uid, found.st_gid), found.st_mode & 0o7777
        os.chown(volume, *owner)
        volume.chmod(mode)
        return volume
