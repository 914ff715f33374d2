"""Finds the owners of pods in the background: no faster than the API server likes, again where it failed, and again to
see what people write there meanwhile.
"""

from __future__ import annotations

import logging
import random
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from threading import Event, Lock, Thread

from dutycycle_alerter.errors import SourceError
from dutycycle_alerter.kubernetes.model import Owner, Pod
from dutycycle_alerter.kubernetes.owners import OwnerFinder
from dutycycle_alerter.kubernetes.turns import Rank, Turn, Turns

_log = logging.getLogger(__name__)

_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0
_HOUSEKEEPING = 5.0


class Lookups:
    """The owners of the pods of one cluster. `pods` gives one by its uid, `every` all; `tidy` is called every few
    seconds. What is written on owners is read again every `renewal` seconds, or as often as there is time for it.
    """

    def __init__(
        self,
        finder: OwnerFinder,
        pods: Callable[[str], Pod | None],
        every: Callable[[], Mapping[str, Pod]],
        tidy: Callable[[], None],
        stop: Event,
        *,
        renewal: float,
        name: str,
    ) -> None:
        self._finder = finder
        self._pods = pods
        self._every = every
        self._tidy = tidy
        self._stop = stop
        self._renewal = renewal
        self._found: deque[str] = deque()
        self._wake = Event()
        self._lock = Lock()
        self._owners: dict[str, Owner] = {}
        self._turns = Turns()
        self._problem = ""
        self.failures = 0
        self.version = 0
        """Grows with every change."""
        self._thread = Thread(target=self._run, name=f"kubernetes-owners-{name}", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def close(self, timeout: float) -> None:
        """Wait for the thread, after `stop` was set; `timeout` is in seconds."""
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(timeout)

    def want(self, uid: str) -> None:
        """A pod is new, or has another owner. From any thread; returns at once."""
        self._found.append(uid)
        self._wake.set()

    def owners(self) -> Mapping[str, Owner]:
        """By the uids of pods; a copy."""
        with self._lock:
            return dict(self._owners)

    def waiting(self) -> int:
        """How many pods have not been looked at."""
        return len(self._found) + self._turns.waiting

    def problem(self) -> str:
        """Why some have no owner yet; empty where nothing failed."""
        return self._problem

    def _run(self) -> None:
        tidied = renewed = time.monotonic()
        while not self._stop.is_set():
            self._wake.clear()
            now = time.monotonic()
            while self._found:
                self._push(self._found.popleft(), now)
            if now - tidied >= _HOUSEKEEPING:
                self._tidy()
                self._drop()
                tidied = now
            if now - renewed >= self._renewal and not self._turns.renewals:
                self._renew(now)
                renewed = now
            turn = self._turns.take(now)
            if turn is not None:
                self._look(turn)
                continue
            if not self._turns.waiting:
                self._problem = ""
            due = self._turns.due()
            self._wake.wait(_HOUSEKEEPING if due is None else min(max(due - now, 0.0), _HOUSEKEEPING))

    def _look(self, turn: Turn) -> None:
        pod = self._pods(turn.uid)
        if pod is None:
            return
        try:
            owner = self._finder.find(pod)
        except SourceError as error:
            self._again(turn, pod, str(error))
        except Exception:  # noqa: BLE001 - one pod shall not end all
            _log.exception("finding the owner of pod %s", turn.uid)
            self._again(turn, pod, "an error of the alerter's own, see its log")
        else:
            with self._lock:
                if self._owners.get(turn.uid) != owner:
                    self._owners[turn.uid] = owner
                    self.version += 1

    def _again(self, turn: Turn, pod: Pod, problem: str) -> None:
        if self._stop.is_set():
            return
        self._problem = problem
        self.failures += 1
        due = time.monotonic() + turn.pause * random.uniform(0.5, 1.0)  # noqa: S311
        self._turns.add(Turn(turn.uid, pod.namespace, _rank(pod), min(2 * turn.pause, _LONGEST_PAUSE)), due)

    def _push(self, uid: str, now: float) -> None:
        pod = self._pods(uid)
        if pod is not None:
            self._turns.add(Turn(uid, pod.namespace, _rank(pod), _FIRST_PAUSE), now)

    def _renew(self, now: float) -> None:
        every = self._every()
        self._finder.forget_all_but(every.values())
        self._finder.renew()
        known = [pod for uid, pod in every.items() if not pod.over and uid in self._owners]
        for number, pod in enumerate(known):
            due = now + self._renewal * number / len(known)
            self._turns.add(Turn(pod.uid, pod.namespace, Rank.RENEWAL, _FIRST_PAUSE), due)

    def _drop(self) -> None:
        """Forget the owners of pods that are forgotten."""
        with self._lock:
            for uid in _absent(self._owners, self._pods):
                del self._owners[uid]
                self.version += 1


def _rank(pod: Pod) -> Rank:
    if pod.over:
        return Rank.OVER
    return Rank.PLACED if pod.node else Rank.PENDING


def _absent(uids: Iterable[str], pods: Callable[[str], Pod | None]) -> list[str]:
    return [uid for uid in uids if pods(uid) is None]
