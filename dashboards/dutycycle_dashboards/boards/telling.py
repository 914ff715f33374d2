"""Panels of notifications: what was sent, what waits, and which receivers fail."""

from __future__ import annotations

from dutycycle_dashboards.building.graphs import timeseries
from dutycycle_dashboards.building.panel import Panel, Target, Threshold
from dutycycle_dashboards.building.tables import Column, table
from dutycycle_dashboards.building.units import BAD, FAIR, GOOD, SECONDS

NO_RECEIVER = "no receiver is configured, or no alerter answers"
"""Why there may be nothing to show."""

_NO_DATA = "No receiver is configured (notify in the alerter's configuration), or no alerter answers"
_LATE = (Threshold(None, GOOD), Threshold(300, FAIR), Threshold(1800, BAD))


def telling() -> tuple[Panel, ...]:
    """Of two alerters the one that sends counts deliveries; the outbox is the same for both."""
    return receivers(), deliveries(), outbox()


def receivers() -> Panel:
    """How each receiver is now, and what became of messages over the range."""
    return table(
        "Receivers",
        "How each receiver is now, and its messages over the range. `Failing`: how long ago it last took something, "
        "where the last attempt failed. Failed for good is lost; the alerter's log says why. What is retried is not "
        "lost.",
        (
            Target("max by (receiver) (dutycycle_receiver_failing_seconds)", may_be_empty=NO_RECEIVER),
            Target("max by (receiver) (dutycycle_outbox_notices)", may_be_empty=NO_RECEIVER),
            Target("max by (receiver) (dutycycle_outbox_oldest_seconds)", may_be_empty=NO_RECEIVER),
            *(
                Target(
                    f'sum by (receiver) (increase(dutycycle_deliveries_total{{result="{result}"}}[$__range]))',
                    may_be_empty=NO_RECEIVER,
                )
                for result in ("sent", "retried", "failed")
            ),
        ),
        (
            Column("Receiver", label="receiver"),
            Column("Failing", value=0, unit=SECONDS, thresholds=(Threshold(None, GOOD), Threshold(0.001, BAD))),
            Column("Waiting", value=1, decimals=0),
            Column("Oldest", value=2, unit=SECONDS, thresholds=_LATE),
            Column("Sent", value=3, decimals=0),
            Column("Retried", value=4, decimals=0),
            Column("Failed", value=5, decimals=0, thresholds=(Threshold(None, GOOD), Threshold(0.5, BAD))),
        ),
        sort="Failing",
        no_data=_NO_DATA,
        height=7,
    )


def deliveries() -> Panel:
    """Attempts by receiver and result over time."""
    return timeseries(
        "Deliveries",
        "Attempts at messages in each step, by receiver: sent, to be retried, or failed for good. Only retries for "
        "long means that the receiver does not answer.",
        Target(
            "sum by (receiver, result) (increase(dutycycle_deliveries_total[$__rate_interval])) > 0",
            "{{receiver}}: {{result}}",
            may_be_empty="nothing was sent",
        ),
        bars=True,
        stacked=True,
        no_data="Nothing was sent in the range, or no receiver is configured",
        interval="5m",
    )


def outbox() -> Panel:
    """What waits, and for how long."""
    return timeseries(
        "Outbox",
        "Pieces of news that are pending, by receiver. Some always wait for a digest; a line that only rises "
        "means that they are not sent.",
        Target("max by (receiver) (dutycycle_outbox_notices)", "{{receiver}}", may_be_empty=NO_RECEIVER),
        no_data=_NO_DATA,
    )
