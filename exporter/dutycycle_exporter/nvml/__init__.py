"""The one package that touches pynvml: reads every GPU once a turn, in base units, and says what failed.

A call that a device does not support is found once and not asked again for an hour. A call that fails otherwise drops
its reading and is counted; it never becomes 0. Nothing here needs root.
"""

from dutycycle_exporter.nvml.reader import NvmlReader

__all__ = ["NvmlReader"]
