"""The real Slurm of tests/slurm, of which parts die and come back."""

from __future__ import annotations

import signal

from tests.exporter.daemon import eventually
from tests.slurm.cluster import Cluster


class MortalCluster(Cluster):
    """Slurm that can be away as a whole, and whose nodes can die."""

    def stop_control(self) -> None:
        """All that can be asked is stopped: slurmrestd, slurmctld and slurmdbd. Jobs go on."""
        for name in ("slurmrestd", "slurmctld", "slurmdbd"):
            self.stop(name)

    def start_control(self) -> None:
        """Again, with what they knew."""
        self.start_slurmdbd()
        self.start_slurmctld()
        self.start_slurmrestd()

    def pid(self, name: str) -> int | None:
        """That of slurmctld, slurmdbd, slurmrestd or a node's slurmd; None while it does not run."""
        daemon = self._daemons.get(name)
        return None if daemon is None or daemon.poll() is not None else daemon.pid

    def power_off(self, node: str) -> None:
        """The node's daemon is killed, as with the power; its jobs' steps outlive it here, and nobody asks them."""
        self.stop_slurmd(node, signal.SIGKILL)

    def declare_down(self, node: str) -> None:
        """What an operator, or Slurm after a time, says of a node that does not answer: its jobs are over."""
        self.scontrol("update", f"NodeName={node}", "State=DOWN", "Reason=power")

    def power_on(self, node: str) -> None:
        """The node's daemon is back, and takes jobs."""
        self.start_slurmd(node)
        self.scontrol("update", f"NodeName={node}", "State=RESUME")
        eventually(lambda: "DOWN" not in self.scontrol("show", "node", node), f"{node} is back")
