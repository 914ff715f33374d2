"""One pod that holds devices, as far as it is known."""

from __future__ import annotations

from dataclasses import dataclass

from dutycycle_exporter.model import Workload

from .answers import Name
from .devices import Held
from .records import PodRecord, workload


@dataclass(slots=True)
class Holder:
    """Listed under its name since `seen`; `start` is in Unix seconds, None where it was there before the exporter."""

    held: Held
    seen: float
    start: float | None
    listed: float
    """When the kubelet was asked that listed it last."""
    missing: float | None = None
    returned: bool = False
    """Whether an answer once lacked it: a pod that took its name may be listed now."""
    doubted: float | None = None
    """When last something was seen that the API server is to explain: it was missing, it came back, its cgroup went."""
    gone: bool = False
    """Whether its cgroup was there and is not."""
    unrecorded: int = 0
    over: bool = False
    uid: str = ""
    awaits: float | None = None
    """When the process came that tells its uid if the kubelet lists it still; None where there is none."""
    record: PodRecord | None = None
    workload: Workload | None = None
    starting: bool = False
    """Whether no container of it has been started, as far as is known."""

    @property
    def begins(self) -> bool:
        """Whether it was seen to begin, and its containers have not yet."""
        return self.starting and self.start is not None

    def identify(self, record: PodRecord) -> None:
        """Takes what the API server says of the pod of this name."""
        if record.over:
            # Of another pod of that name it says nothing.
            self.over = self.uid in ("", record.uid)
            return
        self.over = False
        if self.uid not in ("", record.uid):
            # Another pod has taken the name, and between two answers of the kubelet's.
            self.workload = None
        if self.record is None or self.uid != record.uid:
            self.record, self.uid = record, record.uid
            if self.workload is None:
                self.start = record.start or self.start

    def settle(self, name: Name) -> None:
        """Gives the workload its id and names, for good."""
        self.workload = workload(*name, self.uid, self.record)

    def successor(self, now: float, clock_offset: float | None) -> Holder:
        """The pod that has taken this one's name, and was not seen to begin."""
        return Holder(self.held, now, None if clock_offset is None else clock_offset + now, self.listed)
