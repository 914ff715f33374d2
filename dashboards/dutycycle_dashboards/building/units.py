"""Units and colours, as Grafana calls them."""

from __future__ import annotations

NO_DATA = "Nothing of this was measured in the range"
GOOD, FAIR, BAD, QUIET = "green", "yellow", "red", "text"

PERCENT = "percent"
RATIO = "percentunit"
GPU_HOURS = "suffix:GPU-h"
GPUS = "suffix:GPUs"
KWH = "kwatth"
SECONDS = "s"
COUNT = "short"
BYTES = "bytes"
BYTES_PER_SECOND = "Bps"
WATTS = "watt"
CELSIUS = "celsius"
HERTZ = "hertz"
WHEN = "dateTimeAsIso"
"""Of milliseconds since 1970: multiply Prometheus' seconds by 1000."""
AS_IT_IS = "string"
"""Of labels: with any other unit Grafana shows those that are digits as numbers, the process 4711 as 4.71 K."""
