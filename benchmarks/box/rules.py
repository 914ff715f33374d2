"""What is taken for known of the rules' times: the design's defaults, written down again, so that no change of the
product changes its own measure. Truth and scoring read them here; all are in seconds.

Where truth exempts what the design's table does not, a condition says so (`by_table`), and recall is told without the
exemptions, too.
"""

from __future__ import annotations

MINUTE, HOUR = 60.0, 3600.0

WINDOW = {
    "hung": 15 * MINUTE,
    "idle": 30 * MINUTE,
    "partially_idle": 30 * MINUTE,
    "stalled": 15 * MINUTE,
    "uneven": 30 * MINUTE,
    "low_sm_activity": 30 * MINUTE,
    "underused": 30 * MINUTE,
    "leaked_memory": 15 * MINUTE,
    "throttled": 15 * MINUTE,
}
CLEARING = {**WINDOW, "idle": 15 * MINUTE}
SERVING_WINDOW = 24 * HOUR
"""Of `idle`."""

GRACE = {"batch": 10 * MINUTE, "serving": 10 * MINUTE, "interactive": HOUR}
LOADING_GRACE = 20 * MINUTE
"""For so long may memory grow until a job is judged."""
