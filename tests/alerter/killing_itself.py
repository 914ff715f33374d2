"""For alerters in processes of their own: kills the process at a step of a pass, where the pass changes an incident."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

from dutycycle_alerter.engine import STEPS
from dutycycle_alerter.store import incidents


def killing_itself(step: str) -> Callable[[str], None]:
    """What an engine in this process is to call as it has `reached` a step. "none" is no step: it lives on.

    Before incidents are folded a pass that changes some is like any other.
    """
    changed = False
    save: Callable[..., Any] = incidents.save_all

    def saving(*arguments: Any) -> Any:
        nonlocal changed
        changed = True
        return save(*arguments)

    incidents.save_all = saving

    def reached(now_at: str) -> None:
        nonlocal changed
        if now_at == "begun":
            changed = False
        if now_at == step and (changed or STEPS.index(step) < STEPS.index("folded")):
            os.kill(os.getpid(), signal.SIGKILL)

    return reached
