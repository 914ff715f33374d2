"""Chaos: a site of real processes, a schedule of faults, and a checker of what Dutycycle promises."""
