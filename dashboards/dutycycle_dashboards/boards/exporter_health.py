"""Panels of exporters: whether they answer, how their collectors fare, and what was lost."""

from __future__ import annotations

from dutycycle_dashboards.building.graphs import timeseries
from dutycycle_dashboards.building.panel import Panel, Target
from dutycycle_dashboards.building.promql import grown
from dutycycle_dashboards.building.tables import Column, table
from dutycycle_dashboards.building.units import SECONDS

NO_EXPORTER = "No exporter is scraped"


def exporters() -> tuple[Panel, ...]:
    """Whether exporters answer and can read what they should."""
    return (
        timeseries(
            "Nodes answering over time",
            "Nodes whose exporter answers. Each step down is a node that went silent, or many at once: "
            "then look at the network and at Prometheus.",
            Target("count(count by (cluster, node) (gpu_expected))", "nodes"),
            legend=False,
            no_data=NO_EXPORTER,
        ),
        timeseries(
            "Failing collectors",
            "Exporters whose collector's last run failed, by collector, over time: since when, and how many at once.",
            Target("sum by (collector) (dutycycle_exporter_collector_success == bool 0)", "{{collector}}"),
            no_data=NO_EXPORTER,
        ),
        timeseries(
            "Oldest collection",
            "The longest time since a collector last succeeded on some exporter. It should stay under the sampling "
            "interval of a few seconds; a line that rises steadily is a collector that does not come back. But the API "
            "server is asked when there is something to ask: every 5 to 10 minutes while pods hold GPUs, else not.",
            Target("max by (collector) (dutycycle_exporter_collector_age_seconds)", "{{collector}}"),
            unit=SECONDS,
            no_data=NO_EXPORTER,
        ),
        timeseries(
            "Slowest collection",
            "The longest last run of each collector on any exporter. Seconds of `nvml` mean a GPU or driver that "
            "answers late.",
            Target("max by (collector) (dutycycle_exporter_collector_duration_seconds)", "{{collector}}"),
            unit=SECONDS,
            no_data=NO_EXPORTER,
        ),
        timeseries(
            "NVML child restarts",
            "Times that exporters replaced the process which reads NVML, by reason, in each step. `hang` and "
            "`gpu_lost` are the GPU's or the driver's; `stuck` needs a reset of the node; `lib_rm_version_mismatch` "
            "follows an upgrade of the driver.",
            Target(
                "sum by (reason) (increase(dutycycle_exporter_child_restarts_total[$__rate_interval])) > 0",
                "{{reason}}",
                may_be_empty="no child was replaced",
            ),
            bars=True,
            stacked=True,
            no_data="No child was replaced in the range (or no exporter is scraped)",
            interval="1m",
        ),
        table(
            "Versions",
            "Exporters and alerters by version. More than one line of each is an upgrade that is not finished.",
            (
                Target(
                    "count by (version, part) ("
                    'label_replace(dutycycle_exporter_build_info, "part", "exporter", "", "") or '
                    'label_replace(dutycycle_alerter_build_info, "part", "alerter", "", ""))'
                ),
            ),
            (Column("Part", label="part"), Column("Version", label="version"), Column("Number", value=0, decimals=0)),
            sort="Part",
            ascending=True,
            no_data="Neither exporters nor alerters are scraped",
            width=12,
            height=8,
        ),
    )


def losses() -> tuple[Panel, ...]:
    """What exporters could not read, did not count or did not answer."""
    none = "nothing of this happened"
    quiet = "Nothing of this happened in the range (or no exporter is scraped)"
    return (
        timeseries(
            "Read failures",
            "NVML calls that failed, in each step, by call and error; the ten worst. What could not be read is absent, "
            "never 0. `gpu_is_lost` is a GPU off the bus; `no_permission` a missing capability.",
            Target(
                f"topk(10, {grown('dutycycle_exporter_read_failures_total', 'call, error')})",
                "{{call}}: {{error}}",
                may_be_empty=none,
            ),
            bars=True,
            stacked=True,
            no_data=quiet,
            interval="1m",
        ),
        timeseries(
            "Attribution failures",
            "What could not be used to tell whose a GPU is, by source and reason: files of jobs, processes, answers of "
            "the kubelet and the API server. Look at the prolog's files, or the kubelet's socket.",
            Target(
                grown("dutycycle_exporter_attribution_failures_total", "source, reason"),
                "{{source}}: {{reason}}",
                may_be_empty=none,
            ),
            bars=True,
            stacked=True,
            no_data=quiet,
            interval="1m",
        ),
        timeseries(
            "Dropped samples",
            "Utilization samples and XIDs that were not counted, by reason, and values of GPM over 100 % that were "
            "taken as 100 %. A few are normal; many lower the measured time.",
            Target(grown("dutycycle_exporter_samples_dropped_total", "reason"), "{{reason}}", may_be_empty=none),
            Target(grown("dutycycle_exporter_values_clamped_total", "unit"), "clamped: {{unit}}", may_be_empty=none),
            bars=True,
            stacked=True,
            no_data=quiet,
            interval="1m",
        ),
        timeseries(
            "Rejected scrapes",
            "Scrapes that others kept waiting until their own timeout, or that found too many waiting, by exporter; "
            "the ten worst. Too many scrapers, or too short a timeout.",
            Target(
                "topk(10, sum by (instance) "
                "(increase(dutycycle_exporter_scrapes_rejected_total[$__rate_interval])) > 0)",
                "{{instance}}",
                may_be_empty=none,
            ),
            bars=True,
            stacked=True,
            no_data=quiet,
            interval="1m",
        ),
    )
