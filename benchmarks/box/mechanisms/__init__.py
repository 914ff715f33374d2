"""What goes on in jobs: mechanisms that make each GPU's exact course, and the truth about it.

    simulated = simulate(job)
    simulated.course[0].loads[0].pattern.busy(3600)

A mechanism is a small discrete-event simulation with physical parameters; nothing in it knows of rules or thresholds.
Only `truth` applies those, to what mechanisms made.
"""

from .playing import simulate

__all__ = ["simulate"]
