"""The alerter: evidence from metrics, rules judged on jobs, incidents kept and explained."""

__version__ = "0.1.0"
