"""The jobs of the site: where they run, what they do, and what is true of them.

Minutes are of the full-length run. A job's truth is written here, beside what it does, and never read by what plays it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.fakes.cgroup import Use
from tests.fakes.node import Work
from tests.fakes.nvml import FULL, IDLE, Level, Pattern, Paused, Steps

MINUTE = 60.0
GAMES, MAIL, NEWS = "games", "mail", "news"
"""The accounts that the site's Slurm has."""

GRACE = 10 * MINUTE
LOOKS = {
    "hung": 15 * MINUTE,
    "low_sm_activity": 30 * MINUTE,
    "idle": 30 * MINUTE,
    "partially_idle": 30 * MINUTE,
    "stalled": 15 * MINUTE,
    "uneven": 30 * MINUTE,
    "underused": 30 * MINUTE,
}
"""How far back each rule looks, by default."""


@dataclass(frozen=True)
class Doing:
    """For `minutes` (None: for ever) on each GPU what `patterns` say; None is a GPU without a process of the job.

    `wrong` are the rules of which one must say so while it lasts; the first is the one that is expected, the others may
    take its place for a while, as evidence comes and goes. None: it is healthy.
    """

    patterns: tuple[Pattern | None, ...]
    wrong: tuple[str, ...] = ()
    minutes: float | None = None
    use: Use = field(default_factory=lambda: Use(cpu_cores=1.0))


@dataclass(frozen=True)
class Case:
    """A job: on which nodes, whose, and what it does, again from the beginning when it is over."""

    user: str
    nodes: tuple[str, ...]
    course: tuple[Doing, ...]
    """On GPUs; of one on an MIG instance it is that instance's."""
    work: Work = field(default_factory=Work)
    name: str = ""
    """What it is called where it is submitted, if not by its key."""
    minutes: float | None = None
    """It ends after that long, and another is submitted."""
    share: float = 1.0
    """Of a GPU that each of its devices is."""
    silent: bool = False
    """Nothing goes over the links of its GPUs."""
    owner: tuple[str, str] = ("batch/v1", "Job")
    """What its pods are of, where it is of pods: how it is used follows from that."""

    @property
    def gpus(self) -> int:
        return len(self.course[0].patterns)

    @property
    def utilization(self) -> float | None:
        """The mean of its GPUs, where that stays the same."""
        levels = [IDLE if pattern is None else pattern for pattern in self.course[0].patterns]
        if len(self.course) > 1 or not all(isinstance(level, Level) for level in levels):
            return None
        return sum(level.fraction for level in levels if isinstance(level, Level)) / len(levels)


NOTEBOOK = Work(command=("jupyter-lab",), use=Use(cpu_cores=0.02))
LOADING = Use(cpu_cores=7.8, io_pressure=0.3)
HEALTHY = Level(0.95)
QUIET = Use(cpu_cores=0.02)
SPINS = Work(
    power_factor=0.05,
    activity={"sm": 0.08, "occupancy": 0.01, "tensor": 0.0, "hmma": 0.0, "fp32": 0.0, "dram": 0.0},
)
"""A collective that waits for a GPU that never comes."""
SMALL_KERNELS = Work(activity={"sm": 0.1, "tensor": 0.05})
SELDOM = Level(0.12)
"""Far too little for a job that computes; nothing to say of what answers people."""

HOSTILE = "<img/src=x/onerror=alert(1)>&<!channel>|*_`$(id)`{{7*7}}%0d%0aBcc:eve@example.org"
"""The name of a job, and a user's annotation: without blanks, as Slurm's own tools cut names there."""
ERASES = "\x1b[2J"
"""Clears the terminal of whoever looks at it."""
FORGED = "\nFORGED"
"""Begins a line of a log that its program never wrote."""


def _passing(node: str, minutes: float) -> Case:
    """Of whom soon something is told, and soon that it is over: so that there is always a message due before long."""
    return Case(GAMES, (node,), (Doing((IDLE,), ("idle",), use=QUIET),), NOTEBOOK, minutes=minutes)


SLURM_CASES: Mapping[str, Case] = {
    "busy": Case(NEWS, ("n1",), (Doing((HEALTHY,) * 2),)),
    "notebook": Case(GAMES, ("n1",), (Doing((IDLE,), ("idle",), use=QUIET),), NOTEBOOK),
    "empty": Case(MAIL, ("n1",), (Doing((None,), ("idle",)),)),
    "evaluating": Case(GAMES, ("n1",), (Doing((Paused(Level(0.97), 540, 60),) * 2),)),
    "waver": Case(
        MAIL,
        ("n1",),
        (
            Doing((HEALTHY,), minutes=150),
            Doing((IDLE,), ("idle", "underused"), minutes=200),
        ),
    ),
    "loader": Case(MAIL, ("n2",), (Doing((Steps(2.0, 0.35),) * 2, ("stalled", "underused", "uneven"), use=LOADING),)),
    "half": Case(GAMES, ("n2",), (Doing((Level(0.9), None, Level(0.9), None), ("partially_idle",)),)),
    "low-sm": Case(NEWS, ("n2",), (Doing((Level(0.85),), ("low_sm_activity",)),), SMALL_KERNELS),
    "uneven": Case(NEWS, ("n3", "n4"), (Doing((Level(0.92), Level(0.92), Level(0.45), Level(0.45)), ("uneven",)),)),
    "hostile": Case(MAIL, ("n3",), (Doing((IDLE,), ("idle",), use=QUIET),), NOTEBOOK, name=HOSTILE + ERASES),
    "short-idle": Case(GAMES, ("n3",), (Doing((IDLE,), ("idle",), use=QUIET),), NOTEBOOK, minutes=170),
    "short-busy": Case(NEWS, ("n3",), (Doing((HEALTHY,) * 2),), minutes=95),
    "short-half": Case(MAIL, ("n4",), (Doing((HEALTHY, None), ("partially_idle",)),), minutes=210),
    "brief": Case(GAMES, ("n4",), (Doing((Level(0.9),)),), minutes=25),
    # For a while only the second can be told: what GPUs draw that do nothing is learned from others.
    "hung": Case(NEWS, ("n4",), (Doing((FULL,) * 2, ("hung", "low_sm_activity")),), SPINS, silent=True),
    **{
        f"passing-{node}": _passing(node, minutes) for node, minutes in (("n1", 66), ("n2", 71), ("n3", 77), ("n4", 83))
    },
}
NOTEBOOKS = ("kubeflow.org/v1", "Notebook")
POD_CASES: Mapping[str, Case] = {
    "bert": Case("ada", ("k1",), (Doing((HEALTHY,) * 2),)),
    "evaluate": Case("ben", ("k1",), (Doing((IDLE,), ("idle",), use=QUIET),), NOTEBOOK),
    "mallory": Case(HOSTILE, ("k1",), (Doing((IDLE,), ("idle",), use=QUIET),), NOTEBOOK),
    "trudy": Case(f"trudy{ERASES}{FORGED}", ("k1",), (Doing((IDLE,), ("idle",), use=QUIET),), NOTEBOOK),
    "served": Case("ada", ("k1",), (Doing((SELDOM,)),), owner=("apps/v1", "StatefulSet")),
    "session": Case("ben", ("k1",), (Doing((SELDOM,)),), NOTEBOOK, owner=NOTEBOOKS),
}
CUT: Mapping[str, float] = {"3g.40gb": 3 / 7, "1g.10gb": 1 / 7}
"""The MIG instances of one GPU, by their profiles: which share of it each is."""
INSTANCE_CASES: Mapping[str, tuple[str, Case]] = {
    "sliced": ("3g.40gb", Case("ada", ("k1",), (Doing((HEALTHY,)),), share=CUT["3g.40gb"])),
    "sliced-idle": (
        "1g.10gb",
        Case("ben", ("k1",), (Doing((IDLE,), ("idle",), use=QUIET),), NOTEBOOK, share=CUT["1g.10gb"]),
    ),
}
"""Pods on them, each with its profile."""
FREE_SLOT = sum(case.gpus for case in POD_CASES.values())
"""A GPU that is no pod's, for what is done to free GPUs."""
CUT_SLOT = FREE_SLOT + 1
"""The GPU that is cut into instances all the time."""
POD_GPUS = CUT_SLOT + 1
