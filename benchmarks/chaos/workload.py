"""Runs the site's jobs: submits them, gives the GPUs that they get their loads, and writes down what was true when."""

from __future__ import annotations

import subprocess
import threading
import time
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.cluster.loads import Hold
from tests.cluster.slurm import MortalCluster
from tests.fakes import kubelet
from tests.fakes.kubernetes import KubernetesServer, owner, pod
from tests.fakes.kubernetes import workload as owning
from tests.fakes.node import FakeNode, NodeJob
from tests.fakes.nvml.layout import TRAFFIC

from .cases import GRACE, LOOKS, MINUTE, Case, Doing
from .record import Condition, JobTruth

Place = int | tuple[int, int]
_LOOK = 0.1
"""Wall seconds between two looks at the prolog's files."""
_LATE = 20.0
"""Wall seconds after which a job that has not begun is asked for."""
_LEAVES = 5.0
"""Wall seconds for which one is waited for that is being submitted at the end."""
_AGAIN = 3.0
"""Wall seconds until a job is submitted anew where Slurm did not take it."""


@dataclass
class Run:
    """A job that was submitted, from then on."""

    name: str
    case: Case
    subject: str
    holds: list[Hold]
    devices: frozenset[str] = frozenset()
    """UUIDs of its GPUs."""
    jobs: dict[str, NodeJob] = field(default_factory=dict)
    phase: int = -1
    changed: float = 0.0
    course: list[tuple[float, Doing]] = field(default_factory=list)
    """What it did from when on."""

    @property
    def over(self) -> bool:
        return bool(self.holds) and all(hold.until is not None for hold in self.holds)


class Workload:
    """A context manager; a thread while it lasts. Truth is had from `truths` after it.

    `gpus` are NVML's slots by UUID and node; `prologs` the directories in which the prolog of each node writes.
    """

    def __init__(
        self,
        slurm: MortalCluster,
        nodes: Mapping[str, FakeNode],
        prologs: Mapping[str, Path],
        cases: Mapping[str, Case],
        time_scale: float,
    ) -> None:
        self._slurm = slurm
        self._nodes = nodes
        self._prologs = prologs
        self._cases = cases
        self._time_scale = time_scale
        self._slots = {
            (name, gpu.uuid): slot for name, node in nodes.items() for slot, gpu in enumerate(node.driver.gpus)
        }
        self._waiting: dict[int, str] = {}
        self._since: dict[int, float] = {}
        """When each job was submitted."""
        self._tried: dict[str, float] = {}
        self.runs: list[Run] = []
        self._stopping = threading.Event()
        self._failure: BaseException | None = None
        self._watching = threading.Thread(target=self._guarded, args=(self._watch,), name="loads", daemon=True)
        self._submitting = threading.Thread(target=self._guarded, args=(self._submit,), name="submits", daemon=True)

    def __enter__(self) -> Self:
        self._watching.start()
        self._submitting.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        self._watching.join()
        # Slurm's own commands look for a controller that is gone for a minute; they end with the rest of Slurm.
        self._submitting.join(_LEAVES)

    def check(self) -> None:
        """Raises what ended its threads."""
        if self._failure is not None:
            raise self._failure

    def _guarded(self, work: object) -> None:
        try:
            work()  # type: ignore[operator]
        except BaseException as failure:  # noqa: BLE001 - told by `check`
            self._failure = failure

    # Slurm's jobs

    def _submit(self) -> None:
        while not self._stopping.wait(0.5):
            with suppress(AssertionError, subprocess.SubprocessError):
                self._give_up()
            for name in self._cases:
                alive = [run for run in self.runs if run.name == name and not run.over]
                waits = name in self._waiting.values()
                if not alive and not waits and time.time() - self._tried.get(name, 0.0) > _AGAIN:
                    self._tried[name] = time.time()
                    # Whoever submits while the controller is away tries again.
                    with suppress(AssertionError, subprocess.SubprocessError, ValueError):
                        number = self._submitted(name)
                        self._since[number] = time.time()
                        self._waiting[number] = name

    def _give_up(self) -> None:
        """What Slurm knows no more never began: it was given a node whose slurmd was away."""
        late = [number for number, since in self._since.items() if time.time() - since > _LATE]
        late = [number for number in late if number in self._waiting]
        if late:
            known = {int(word) for word in self._slurm.run_as("root", "squeue", "-h", "-o", "%A").split()}
            for number in set(late) - known:
                self._waiting.pop(number, None)

    def _submitted(self, name: str) -> int:
        case = self._cases[name]
        nodes = len(case.nodes)
        length = "infinity" if case.minutes is None else f"{case.minutes * MINUTE / self._time_scale:g}"
        spread = (f"-N{nodes}", f"-n{nodes}") if nodes > 1 else ()
        where = ("-w", ",".join(case.nodes), f"--gres=gpu:{case.gpus // nodes}", "--no-requeue")
        called = f"--job-name={case.name or name}"
        return self._slurm.submit(case.user, called, *spread, *where, script=f"exec sleep {length}")

    def _watch(self) -> None:
        while not self._stopping.wait(_LOOK):
            now = time.time()
            for number, name in list(self._waiting.items()):
                self._begin(number, name, now)
            for run in self.runs:
                self._go_on(run, now)

    def _begin(self, number: int, name: str, now: float) -> None:
        case = self._cases[name]
        files = {node: sorted(self._prologs[node].glob(f"*.{number}.json")) for node in case.nodes}
        if sum(map(len, files.values())) < case.gpus:
            return
        run = Run(name, case, f"slurm/{number}", [])
        try:
            run.holds = [Hold(file, file.stat().st_mtime) for found in files.values() for file in found]
        except FileNotFoundError:
            return
        per_node, first = case.gpus // len(case.nodes), case.course[0]
        for index, (node, found) in enumerate(files.items()):
            uuids = [file.name.split(".")[0] for file in found]
            run.devices |= set(uuids)
            slots = [self._slots[node, one] for one in uuids]
            patterns = first.patterns[index * per_node : (index + 1) * per_node]
            rate = 0.0 if case.silent else None
            for slot in slots:
                links = dict.fromkeys(TRAFFIC, rate)
                self._nodes[node].driver.traffic(slot, **links)
            busy = {slot: one for slot, one in zip(slots, patterns, strict=True) if one is not None}
            if busy:
                work = replace(case.work, use=first.use)
                run.jobs[node] = self._nodes[node].slurm_job(number, busy, work)
        run.phase, run.changed = 0, now
        run.course.append((now, first))
        self.runs.append(run)
        self._waiting.pop(number, None)

    def _go_on(self, run: Run, now: float) -> None:
        if run.holds and not run.over:
            for hold in run.holds:
                hold.look()
            if run.over:
                for job in run.jobs.values():
                    job.stop()
                run.jobs.clear()
        doing = run.case.course[run.phase]
        if run.jobs and doing.minutes is not None and now - run.changed > doing.minutes * MINUTE / self._time_scale:
            run.phase = (run.phase + 1) % len(run.case.course)
            run.changed = now
            doing = run.case.course[run.phase]
            run.course.append((now, doing))
            for job in run.jobs.values():
                [pattern] = set(doing.patterns)
                assert pattern is not None, "a job that changes has a process on every GPU"
                job.change(pattern)
                job.use(doing.use)

    # Pods

    def run_pods(
        self,
        name: str,
        case: Case,
        server: KubernetesServer,
        served: kubelet.FakeKubelet,
        places: Mapping[Place, str],
        resource: str = "nvidia.com/gpu",
    ) -> None:
        """A job of one-device pods, as its controller and the kubelet make it. `places` are NVML's slots, or those and
        the indexes of MIG instances, each with its UUID.
        """
        [node] = case.nodes
        machine, now = self._nodes[node], time.time()
        moment = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        annotations = {"dutycycle.io/user": case.user}
        version, kind = case.owner
        made = server.put(owning(kind, name, api_version=version, annotations=annotations, created=moment))
        subject = f"k8s/ml/{kind.lower()}/{name}/{made['metadata']['uid']}"
        run = Run(name, case, subject, [], frozenset(places.values()))
        for index, (place, device) in enumerate(places.items()):
            uid, part, pattern = str(uuid.uuid4()), f"{name}-{index}", case.course[0].patterns[index]
            of = (owner(made),)
            server.put(pod(part, uid=uid, node=node, resource=resource, owners=of, created=moment, started=moment))
            served.pods = [*served.pods, kubelet.pod(part, "ml", {resource: [device]})]
            assert pattern is not None, "a pod is known by its processes"
            work = replace(case.work, use=case.course[0].use)
            machine.pod(uid, {place: pattern}, work)  # type: ignore[dict-item]
        run.course.append((now, case.course[0]))
        self.runs.append(run)

    # What was true

    def truths(self) -> tuple[JobTruth, ...]:
        return tuple(self._truth(run) for run in list(self.runs))

    def _truth(self, run: Run) -> JobTruth:
        start = min((hold.since for hold in run.holds), default=run.course[0][0])
        end = max((hold.until or 0.0 for hold in run.holds), default=0.0) if run.over else None
        seen = max((hold.seen for hold in run.holds), default=time.time())
        return JobTruth(
            name=run.name,
            subject=run.subject,
            user=run.case.user,
            nodes=frozenset(run.case.nodes),
            gpus=run.case.gpus * run.case.share,
            start=start,
            end=end,
            seen=seen,
            grace=GRACE / self._time_scale,
            conditions=tuple(self._conditions(run, end)),
            utilization=run.case.utilization,
            devices=run.devices,
        )

    def _conditions(self, run: Run, end: float | None) -> list[Condition]:
        found = []
        for index, (since, doing) in enumerate(run.course):
            until = run.course[index + 1][0] if index + 1 < len(run.course) else end
            if doing.wrong:
                longest = max(LOOKS[rule] for rule in doing.wrong) / self._time_scale
                window = LOOKS[doing.wrong[0]] / self._time_scale
                found.append(Condition(frozenset(doing.wrong), since, until, window, after=longest))
        return found
