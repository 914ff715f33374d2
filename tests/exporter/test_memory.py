"""What Python keeps for later is given back now and then."""

import sys

from dutycycle_exporter.memory import Memory


def keep():
    """Makes Python keep tuples that are free: what is made from a generator takes a longer one and leaves a shorter."""
    return [tuple(number for number in (1, 2)) for _ in range(1000)]


def test_after_some_hundred_turns_nothing_is_kept_any_more():
    memory = Memory()
    for _ in range(499):
        memory.turn()
    keep()
    kept = sys.getallocatedblocks()
    memory.turn()
    assert sys.getallocatedblocks() < kept - 500
