"""A fault as evidence: what it does to whom, when it was, and whether it was seen to be in force."""

from __future__ import annotations

from dataclasses import dataclass

EVERY_NODE = "*"
SAYS = frozenset({"source", "watch", "store", "receiver", "nvml", "left-out", "kubelet", "restart"})
"""Kinds of what a self-metric has to say; see `Effects`."""


@dataclass(frozen=True, kw_only=True)
class Effects:
    """What a fault does to whom.

    `blinds` are nodes, and UUIDs of GPUs, of which nobody learns anything meanwhile (EVERY_NODE: of none); `halts` are
    parts that cannot do their work (`evaluation`, `mail`, `slack`, `webhook`, `alertmanager`, `slurm`, `slurmd-NODE`,
    `kubernetes`, `a`, `b`); `says` is what the site itself must say meanwhile: `source:NAME` (the leading alerter's
    `source_up` is 0), `watch:NAME` (its count of failures grows), `store:REPLICA` (its `store_up` is 0; without a name
    that of each), `receiver:NAME` (it fails, where a message was due to it, or it is refreshed all the time),
    `nvml:NODE` (the exporter's collector failed or is old), `left-out:NODE` (it counts fewer GPUs than there are),
    `kubelet:NODE` (the same of the kubelet's), `restart:NODE` (the exporter's liveness fails, and says why).
    `broken` are nodes with a GPU of which a device incident has to tell. `loses` tells that counters are lost.
    """

    blinds: frozenset[str] = frozenset()
    halts: frozenset[str] = frozenset()
    says: frozenset[str] = frozenset()
    broken: frozenset[str] = frozenset()
    silences: frozenset[str] = frozenset()
    """Programs of ours that cannot answer meanwhile: `exporter-NODE`, `alerter-NAME`."""
    interrupts: frozenset[str] = frozenset()
    """Alerters that were stopped in the midst of a pass, with a transaction that had written and not yet committed."""
    refused: frozenset[str] = frozenset()
    """Those of them that went on with it, and said that it had failed."""
    replaces: frozenset[str] = frozenset()
    """Nodes whose exporter has to replace its child."""
    instances: frozenset[str] = frozenset()
    """UUIDs of the MIG instances that there are meanwhile, beside those that there always are."""
    skews: float = 0.0
    """Wall seconds by which an alerter's clock is ahead meanwhile; negative: behind."""
    loses: bool = False
    restart_helps: frozenset[str] = frozenset()
    """Exporters of nodes that only a restart of their container would help: their liveness may fail."""

    def __post_init__(self) -> None:
        if unknown := {said for said in self.says if said.partition(":")[0] not in SAYS}:
            raise ValueError(f"nobody looks for {sorted(unknown)}")


@dataclass(frozen=True)
class Happened(Effects):
    """A fault as it was. `took` tells whether it was seen to be in force; None: nobody could be asked.

    `began` is when its beginning was set about, `ended` when all was seen to be right again; either may take a while.
    What is excused is all between them. `stood` is the time within, from its beginning having been done to its end
    being set about: what has to show a fault is asked for in it alone. None: all of it.
    """

    name: str
    what: str
    began: float
    ended: float
    took: bool | None = True
    stood: tuple[float, float] | None = None

    @property
    def stood_from(self) -> float:
        return self.began if self.stood is None else self.stood[0]

    @property
    def stood_until(self) -> float:
        return self.ended if self.stood is None else self.stood[1]

    def blinds_any(self, parts: frozenset[str]) -> bool:
        """Whether it blinds one of these nodes and GPUs."""
        return EVERY_NODE in self.blinds or bool(self.blinds & parts)
