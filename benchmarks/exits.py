"""How a program exits that could not measure. It imports nothing: the Python that has torch may have nothing else."""

from __future__ import annotations

NOT_HERE = 77
"""This machine lacks what it needs: as test suites say that a test was skipped. 2 is for a command line that it does
not understand.
"""
UNTOLD = 3
"""It ran, and what came out tells nothing."""
