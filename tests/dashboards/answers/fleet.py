"""A fleet of known truth: who held which GPU for how long and how well, for a day.

Users have means that are known beforehand, one exactly on the edge of a bin, one at 0 and one at 100 %; one is measured
on half of his GPUs only, one on none. Jobs take from five minutes to a day. Exporters restart and are away where jobs
are long, so that what is lost stays under a hundredth.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cached_property

MIDNIGHT = 1_790_000_000 // 86_400 * 86_400
DAY = 86_400
END = DAY - 60
"""Seconds since MIDNIGHT until which the exporters are scraped: "now"."""
SCRAPE = 30
HOLD = 2 * SCRAPE
HOUR = 3600.0

H100, H200, A100 = "NVIDIA H100 80GB HBM3", "NVIDIA H200", "NVIDIA A100-SXM4-80GB"


@dataclass(frozen=True, slots=True)
class Node:
    """A node of GPUs and its exporter, with moments (seconds since midnight) at which that restarts or is away."""

    name: str
    cluster: str
    scheduler: str
    model: str
    gpus: int
    restarts: tuple[float, ...] = ()
    away: tuple[tuple[float, float], ...] = ()


DOWN = 20.0
"""Seconds for which an exporter that restarts is down."""

NODES = (
    Node("a1", "alpha", "slurm", H100, 8, restarts=(9 * HOUR, 15.5 * HOUR), away=((4 * HOUR, 4 * HOUR + 2400),)),
    Node("a2", "alpha", "slurm", H200, 8),
    Node("b1", "beta", "k8s", A100, 8, away=((13 * HOUR, 13 * HOUR + 3000),)),
    Node("b2", "beta", "k8s", H100, 4, restarts=(11 * HOUR,)),
)
BY_NAME = {node.name: node for node in NODES}


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU, or an instance of one."""

    node: str
    index: int
    mig: str = ""

    @property
    def uuid(self) -> str:
        return f"GPU-{self.node}-{self.index}"

    @property
    def labels(self) -> dict[str, str]:
        return {"node": self.node, "gpu": str(self.index), "gpu_uuid": self.uuid, "mig": self.mig}


@dataclass(frozen=True, slots=True)
class Job:
    """A workload on its GPUs of one node from `start` to `end` (seconds since midnight; None: it still runs).

    `utilization` is None where it cannot be measured. `share` is of each GPU.
    """

    number: int
    user: str
    account: str
    partition: str
    gpus: tuple[Gpu, ...]
    start: float
    end: float | None
    utilization: float | None
    share: float = 1.0

    @property
    def node(self) -> Node:
        return BY_NAME[self.gpus[0].node]

    @property
    def until(self) -> float:
        return END if self.end is None else self.end

    @property
    def seconds(self) -> float:
        return self.until - self.start

    @property
    def owner(self) -> dict[str, str]:
        """The owner's labels, in full."""
        node, slurm = self.node, self.node.scheduler == "slurm"
        namespace, pod = ("", "") if slurm else (f"team-{self.account}", f"{self.user}-{self.number}")
        return {
            "cluster": node.cluster,
            "scheduler": node.scheduler,
            "workload": f"slurm/{self.number}" if slurm else f"k8s/{namespace}/{pod}/uid-{self.number}",
            "namespace": namespace,
            "pod": pod,
            "job_id": str(self.number) if slurm else "",
            "user": self.user,
            "account": self.account,
            "partition": self.partition,
            "model": node.model,
        }


def _known() -> list[Job]:
    """Whose means are known beforehand. All that runs beside restarts has one utilization a user."""

    def job(
        user: str, account: str, node: str, gpus: str, hours: tuple[float, float | None], utilization: float | None
    ) -> Job:
        begin, end = hours
        slurm = BY_NAME[node].scheduler == "slurm"
        held = tuple(Gpu(node, int(gpu)) for gpu in gpus)
        partition = ("main" if node == "a1" else "short") if slurm else ""
        number = 1000 + len(made)
        stop = None if end is None else end * HOUR
        return Job(number, user, account, partition, held, begin * HOUR, stop, utilization)

    made: list[Job] = []
    for row in (
        # On the edge of a bin, and at either end of them all.
        ("edge", "vision", "a1", "0", (0.5, None), 0.25),
        ("full", "vision", "a1", "12", (0.25, 23.1), 1.0),
        ("zero", "bio", "a1", "3", (1.0, 14.2), 0.0),
        ("low", "bio", "a1", "45", (2.01, 21.33), 0.125),
        ("lower", "nlp", "a1", "6", (0.3, 12.05), 0.05),
        ("mid", "nlp", "a1", "7", (0.1, 23.4), 0.5),
        ("dozy", "bio", "b2", "1", (16.5, None), 0.0),
        ("late", "nlp", "a1", "3", (14.5, None), 0.71),
        ("kay", "maths", "b1", "0123", (0.4, None), 0.83),
        ("lou", "maths", "b1", "45", (3.2, 19.7), 0.31),
        # The same person with good and bad jobs: weighted by time, 0.625 x 0.9 + 0.375 x 0.1 = 60 %.
        ("both", "physics", "b1", "7", (0.4, 12.9), 0.9),
        ("both", "physics", "b1", "7", (14.0, 21.5), 0.1),
        # Jobs of half an hour.
        ("half", "physics", "b2", "2", (2.0, 2.5), 0.4),
        ("half", "physics", "b2", "2", (3.0, 3.5), 0.2),
        # A job of five minutes is all he did.
        ("brief", "vision", "b2", "2", (5.003, 5.003 + 5 / 60), 0.64),
    ):
        made.append(job(*row))
    # Two share a GPU.
    for place, (user, busy) in enumerate((("sam", 0.6), ("sue", 0.2))):
        made.append(Job(1100 + place, user, "maths", "", (Gpu("b1", 6),), 2 * HOUR, 20 * HOUR, busy, 0.5))
    # An instance tells no utilization. One person is on a whole GPU, too.
    for place, user in enumerate(("mia", "nemo")):
        instance = Gpu("b2", 0, f"MIG-b2-0-{place}")
        made.append(Job(1200 + place, user, "bio", "", (instance,), 4 * HOUR, None, None, 3 / 7))
    made.append(Job(1300, "mia", "bio", "", (Gpu("b2", 3),), 4 * HOUR, None, 0.44))
    return made


def _churn(rng: random.Random) -> list[Job]:
    """One job after the other, of 5 minutes to 10 hours, on the GPUs of one node."""
    made: list[Job] = []
    people = [(f"user{n:02d}", rng.uniform(0.02, 0.98)) for n in range(20)]
    for index in range(8):
        t = rng.uniform(60, 1800)
        while True:
            user, mean = rng.choice(people)
            length = rng.choice((300, 450, 600, 1800, 2700, 3600, 7200, 18_000, 36_000))
            if t + length > 23.3 * HOUR:
                break
            utilization = min(1.0, max(0.0, mean + rng.uniform(-0.1, 0.1)))
            account = f"group{int(user[-2:]) % 4}"
            gpus = (Gpu("a2", index),)
            made.append(Job(2000 + 100 * index + len(made), user, account, "short", gpus, t, t + length, utilization))
            t += length + rng.uniform(30, 900)
    return made


@dataclass(frozen=True)
class Fleet:
    """All that ran; the same for the same seed."""

    seed: int = 20

    @cached_property
    def jobs(self) -> tuple[Job, ...]:
        return (*_known(), *_churn(random.Random(self.seed)))

    def running(self) -> tuple[Job, ...]:
        """At the end."""
        return tuple(job for job in self.jobs if job.end is None)
