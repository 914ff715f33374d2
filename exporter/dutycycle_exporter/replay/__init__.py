"""Plays a recording in place of NVML: what a node's GPUs did then, they do now."""

from dutycycle_exporter.replay.reader import ReplayReader

__all__ = ["ReplayReader"]
