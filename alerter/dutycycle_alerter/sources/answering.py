"""What the log says of sources: when one begins to fail, and when it answers again."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from dutycycle_alerter.printable import printable
from dutycycle_alerter.views import TargetStatus

_log = logging.getLogger(__name__)

_LONGEST = 500
"""Characters of an error: some of it is what another program said."""


class Answering:
    """Tells of each failure once, however its error changes meanwhile: how it stands is in the status.

    For one thread at a time.
    """

    def __init__(self) -> None:
        self._failing: set[str] = set()

    def heed(self, targets: Iterable[TargetStatus]) -> None:
        """The state of all sources, after each was asked. One that is no source any more is not told of."""
        failing = set()
        for target in targets:
            if target.error:
                failing.add(target.url)
                if target.url not in self._failing:
                    _log.warning("%s", printable(_with_name(target), _LONGEST))
            elif target.url in self._failing:
                _log.info("%s answers again", printable(target.url, _LONGEST))
        self._failing = failing


def _with_name(target: TargetStatus) -> str:
    """Most errors begin with what they are about."""
    return target.error if target.error.startswith(f"{target.url}:") else f"{target.url}: {target.error}"
