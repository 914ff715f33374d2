"""Panels of how incidents came and went: opened, resolved, how long that took, and what it cost by rule."""

from __future__ import annotations

from dutycycle_dashboards.building.graphs import barchart, timeseries
from dutycycle_dashboards.building.panel import Panel, Target
from dutycycle_dashboards.building.promql import TARGET_LABELS
from dutycycle_dashboards.building.tables import Column, table
from dutycycle_dashboards.building.units import BAD, GOOD, GPU_HOURS, SECONDS

_NEVER = "no incident was ever opened, or no alerter that evaluates was scraped in the range"


def grew(counter: str, by: str, over: str) -> str:
    """What a counter grew by; of two alerters only the one that evaluates counts, so they are added up."""
    return f"sum by ({by}) (increase({counter}[{over}]))" if by else f"sum(increase({counter}[{over}]))"


def over_time() -> tuple[Panel, ...]:
    """What opened and was resolved when, and how long that took."""
    window = "$__rate_interval"
    resolved = "dutycycle_incidents_resolved_total"
    return (
        timeseries(
            "Opened and resolved",
            "Incidents that opened, opened again and were resolved in each step. Where more open than are resolved, "
            "the list grows.",
            Target(grew("dutycycle_incidents_opened_total", "", window), "opened", may_be_empty=_NEVER),
            Target(grew("dutycycle_incidents_reopened_total", "", window), "opened again", may_be_empty=_NEVER),
            Target(grew(resolved, "", window), "resolved", may_be_empty=_NEVER),
            colors={"opened": BAD, "opened again": "orange", "resolved": GOOD},
            bars=True,
            interval="5m",
        ),
        timeseries(
            "Time to resolve",
            "Wall time from when an incident opened to when it was resolved, of those resolved in the last day before "
            "each point: half of them took no longer than the median, nine of ten no longer than p90. From buckets of "
            "5 min to 7 d, between which it is interpolated.",
            *(
                Target(
                    f"histogram_quantile({share}, sum by (le) "
                    "(increase(dutycycle_incident_resolution_seconds_bucket[1d]))) >= 0",
                    name,
                    may_be_empty="nothing was resolved in the last day",
                )
                for share, name in ((0.5, "median"), (0.9, "p90"))
            ),
            unit=SECONDS,
            no_data="Nothing was resolved in the range",
            interval="30m",
        ),
        timeseries(
            "Opened, by rule",
            "Incidents that opened in each step, by rule.",
            Target(f"{grew('dutycycle_incidents_opened_total', 'rule', window)} > 0", "{{rule}}", may_be_empty=_NEVER),
            bars=True,
            stacked=True,
            interval="5m",
        ),
        timeseries(
            "Resolved, by how",
            "`cleared`: the condition ended; `ended`: the job did; `operator`: somebody closed it; `intended`, "
            "`excluded`: it was meant to be so; `lost`: nothing was known of it for a day. Many `lost` mean that "
            "exporters do not answer.",
            Target(f"{grew(resolved, 'resolution', window)} > 0", "{{resolution}}", may_be_empty=_NEVER),
            bars=True,
            stacked=True,
            colors={"cleared": GOOD, "ended": "blue", "lost": BAD},
            interval="5m",
        ),
    )


def by_rule() -> tuple[Panel, ...]:
    """What each rule cost, and how its incidents fared over the range."""
    over = "$__range"
    bucket = grew("dutycycle_incident_resolution_seconds_bucket", "le, rule", over)
    done = f"{grew('dutycycle_incidents_wasted_gpu_seconds_total', 'rule', over)} / 3600"
    still = "sum by (rule) (" + _wasted() + ")"
    parts = f'label_replace({done}, "part", "resolved", "", "") or label_replace({still}, "part", "open", "", "")'
    return (
        barchart(
            "Waste by rule",
            "GPU-hours, measured and not busy, that incidents cost: of those resolved in the range (each with all "
            "that it cost, also before the range), and so far of those that are not resolved. The highest bar is "
            "where advice pays most.",
            Target(f"sum by (rule) ({parts}) > 0", may_be_empty="no incident has wasted anything"),
            x="rule",
            unit=GPU_HOURS,
            series="Waste",
            no_data="No incident of a job in the range",
            width=10,
        ),
        table(
            "Opened and resolved, by rule",
            "Over the range. Rules that open again often have thresholds that do not suit the jobs; a rule that people "
            "close as `operator` or `intended` may be wrong here. Only what happened while an alerter was scraped.",
            (
                Target(" or 0 * ".join(_of_rules(over)), may_be_empty=_NEVER),
                Target(f"{grew('dutycycle_incidents_reopened_total', 'rule', over)}", may_be_empty=_NEVER),
                Target(f"{grew('dutycycle_incidents_resolved_total', 'rule', over)}", may_be_empty=_NEVER),
                *(
                    Target(f"histogram_quantile({share}, {bucket}) >= 0", may_be_empty="nothing was resolved")
                    for share in (0.5, 0.9)
                ),
                Target(done, may_be_empty=_NEVER),
            ),
            (
                Column("Rule", label="rule"),
                Column("Opened", value=0, decimals=0),
                Column("Again", value=1, decimals=0),
                Column("Resolved", value=2, decimals=0),
                Column("Median time", value=3, unit=SECONDS),
                Column("p90", value=4, unit=SECONDS),
                Column("Waste", value=5, unit=GPU_HOURS, decimals=1),
            ),
            sort="Opened",
            no_data="No incident in the range, or no alerter that evaluates was scraped",
            width=14,
            height=9,
        ),
    )


def _of_rules(over: str) -> tuple[str, ...]:
    """What opened, and what else tells of a rule."""
    others = ("reopened_total", "resolved_total", "wasted_gpu_seconds_total")
    return tuple(grew(f"dutycycle_incidents_{name}", "rule", over) for name in ("opened_total", *others))


def _wasted() -> str:
    """GPU-hours that each incident which is not resolved has wasted so far, by rule, whatever the filters."""
    alerter = ", ".join(TARGET_LABELS)
    seconds = f"max by ({alerter}, incident) (dutycycle_incident_wasted_gpu_seconds)"
    told = f"0 * dutycycle_incident_opened_timestamp_seconds + on ({alerter}, incident) group_left () {seconds}"
    return f"max by (cluster, incident, rule) ({told}) / 3600"
