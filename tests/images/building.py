"""Does what a Dockerfile says, without a container engine: each stage in a root of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from tests.images import machine
from tests.images.container import Confinement, Mount, command
from tests.images.context import Context
from tests.images.dockerfile import DockerfileError, Instruction, parse

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass
class Stage:
    """One stage, as far as it has come."""

    root: Path
    env: dict[str, str]
    arguments: dict[str, str] = field(default_factory=dict)
    user: tuple[int, int] = (0, 0)
    workdir: str = "/"
    entrypoint: tuple[str, ...] = ()
    cmd: tuple[str, ...] = ()
    labels: dict[str, str] = field(default_factory=dict)
    exposed: tuple[int, ...] = ()
    stop_signal: str = "SIGTERM"

    @property
    def variables(self) -> dict[str, str]:
        """What instructions may name: the environment comes before arguments."""
        return self.arguments | self.env


@dataclass(frozen=True)
class Surroundings:
    """What of the machine commands of a build can see: two machines differ in it."""

    host: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)


class Build:
    """One build: `bases` gives the root of an image by its name, stages are made in `scratch`. `secrets` are files by
    the ids that instructions mount them by.
    """

    def __init__(
        self,
        context: Context,
        bases: Callable[[str], Path],
        scratch: Path,
        surroundings: Surroundings | None = None,
        secrets: Mapping[str, Path] | None = None,
    ) -> None:
        self._context = context
        self._secrets = secrets or {}
        self._surroundings = surroundings or Surroundings()
        self._bases = bases
        self._scratch = scratch
        self._stages: dict[str, Stage] = {}
        self._global: dict[str, str] = {}
        self._given: dict[str, str] = {}

    def run(self, text: str, arguments: Mapping[str, str]) -> Stage:
        """The last stage. Raises DockerfileError, also for an argument that nothing takes."""
        self._given = dict(arguments)
        taken: set[str] = set()
        stage: Stage | None = None
        for instruction in parse(text):
            if instruction.name == "ARG":
                taken |= {word.partition("=")[0] for word in instruction.words}
            if instruction.name == "FROM":
                stage = self._from(instruction)
            elif stage is None:
                self._global |= self._argument(instruction, {})
            else:
                self._do(stage, instruction)
        if untaken := arguments.keys() - taken:
            raise DockerfileError(f"no ARG takes {', '.join(sorted(untaken))}")
        assert stage is not None, "parse() wants a FROM"
        return stage

    def _from(self, instruction: Instruction) -> Stage:
        if len(instruction.words) not in {1, 3} or instruction.words[1:2] not in {(), ("AS",)}:
            raise instruction.error("it is IMAGE, or IMAGE AS NAME")
        image = instruction.expanded(instruction.words[0], self._global)
        name = instruction.words[2] if len(instruction.words) == 3 else str(len(self._stages))
        if name in self._stages:
            raise instruction.error(f"{name} is there already")
        root = self._scratch / f"stage-{name}"
        earlier = self._stages.get(image)
        _copied(earlier.root if earlier else self._bases(image), root)
        stage = Stage(root, dict(earlier.env) if earlier else {"PATH": PATH})
        if earlier:
            stage.user, stage.workdir, stage.labels = earlier.user, earlier.workdir, dict(earlier.labels)
        self._stages[name] = stage
        return stage

    def _do(self, stage: Stage, instruction: Instruction) -> None:
        words = instruction.words
        match instruction.name:
            case "ARG":
                stage.arguments |= self._argument(instruction, stage.variables)
            case "ENV":
                stage.env |= instruction.pairs(stage.variables)
            case "LABEL":
                stage.labels |= instruction.pairs(stage.variables)
            case "RUN":
                self._run(stage, instruction)
            case "COPY":
                self._copy(stage, instruction)
            case "WORKDIR":
                stage.workdir = str(
                    PurePosixPath(stage.workdir) / instruction.expanded(_one(instruction), stage.variables)
                )
                _inside(stage.root, stage.workdir).mkdir(parents=True, exist_ok=True)
            case "USER":
                stage.user = _owner(instruction, instruction.expanded(_one(instruction), stage.variables))
            case "EXPOSE":
                stage.exposed += tuple(_port(instruction, word) for word in words)
            case "STOPSIGNAL":
                stage.stop_signal = _one(instruction)
            case "ENTRYPOINT":
                stage.entrypoint, stage.cmd = words, ()
            case "CMD":
                stage.cmd = words

    def _argument(self, instruction: Instruction, variables: Mapping[str, str]) -> dict[str, str]:
        """What was given, else the global one of that name, else the default."""
        name, equals, default = _one(instruction).partition("=")
        if name in self._given:
            return {name: self._given[name]}
        if equals:
            return {name: instruction.expanded(default, variables)}
        return {name: self._global[name]} if name in self._global else {}

    def _run(self, stage: Stage, instruction: Instruction) -> None:
        argv = ("/bin/sh", "-c", *instruction.words) if instruction.shell else instruction.words
        access = machine.access()
        confinement = Confinement(
            user=stage.user,
            read_only=False,
            kept=True,
            capabilities=True,
            memory=(),
            mounts=[
                *(Mount(path, f"{machine.BELOW}{path}") for path in access.files),
                *(Mount(self._secrets[name], at) for name, at in instruction.secrets.items() if name in self._secrets),
            ],
            host=self._surroundings.host,
        )
        home = {"HOME": "/root" if stage.user[0] == 0 else "/"}
        environment = home | {**self._surroundings.environment} | stage.variables | access.environment
        done = subprocess.run(
            command(stage.root, argv, confinement, environment=environment, workdir=stage.workdir),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
        if done.returncode:
            raise instruction.error(f"ended with {done.returncode}\n{done.stdout[-8000:]}")

    def _copy(self, stage: Stage, instruction: Instruction) -> None:
        words = [instruction.expanded(word, stage.variables) for word in instruction.words]
        if len(words) < 2:
            raise instruction.error("from where to where?")
        *sources, destination = words
        if any(set(source) & set("*?[") for source in sources):
            raise instruction.error("wildcards are not understood here")
        if len(sources) > 1 and not destination.endswith("/"):
            raise instruction.error(f"several files go into a directory: {destination}/")
        owner = _owner(instruction, instruction.flags.get("chown", "0:0"))
        target = _inside(stage.root, str(PurePosixPath(stage.workdir) / destination))
        for source in sources:
            if "from" in instruction.flags:
                self._copy_from_stage(stage, instruction, source, target)
                continue
            path = self._context.directory / source
            try:
                into = target / path.name if path.is_file() and destination.endswith("/") else target
                self._context.copy(source, into, owner)
            except FileNotFoundError as error:
                raise instruction.error(str(error)) from error

    def _copy_from_stage(self, stage: Stage, instruction: Instruction, source: str, target: Path) -> None:
        """A directory's contents with owners and times as they are, as `COPY --from` of an engine keeps them."""
        name = instruction.flags["from"]
        if name not in self._stages or self._stages[name] is stage:
            raise instruction.error(f"there is no earlier stage {name}")
        origin = _inside(self._stages[name].root, source)
        if not origin.is_dir() or "chown" in instruction.flags:
            raise instruction.error("from a stage, only directories as they are")
        target.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cp", "--archive", "--one-file-system", "-T", str(origin), str(target)], check=True)


def _copied(source: Path, target: Path) -> None:
    subprocess.run(["cp", "--archive", "--one-file-system", "--reflink=auto", str(source), str(target)], check=True)


def remove(directory: Path) -> None:
    """Stages are mounted in nobody's namespace but their commands', so this crosses no mount."""
    shutil.rmtree(directory)


def _one(instruction: Instruction) -> str:
    if len(instruction.words) != 1:
        raise instruction.error("one word, please")
    return instruction.words[0]


def _inside(root: Path, path: str) -> Path:
    """The path below the root; a link on the way would lead out of it."""
    found = root / path.lstrip("/")
    real = Path(os.path.realpath(found))
    if not real.is_relative_to(root.resolve()):
        raise DockerfileError(f"{path} leads out of the image")
    return found


def _owner(instruction: Instruction, text: str) -> tuple[int, int]:
    """By numbers: Kubernetes cannot tell whether a name is root's."""
    uid, _, gid = text.partition(":")
    if not uid.isdigit() or not gid.isdigit():
        raise instruction.error(f"{text!r} is not UID:GID")
    return int(uid), int(gid)


def _port(instruction: Instruction, text: str) -> int:
    if not text.isdigit():
        raise instruction.error(f"{text!r} is not a port")
    return int(text)
