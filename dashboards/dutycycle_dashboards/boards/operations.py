"""Operations: whether Dutycycle itself is well: what is broken, where, since when; exporters, alerter, rules."""

from __future__ import annotations

from dutycycle_dashboards.boards.alerter_health import NO_ALERTER, STORED, alerter, tasks
from dutycycle_dashboards.boards.broken import broken, silent_nodes
from dutycycle_dashboards.boards.exporter_health import NO_EXPORTER, exporters, losses
from dutycycle_dashboards.building import variables
from dutycycle_dashboards.building.board import Board, Section
from dutycycle_dashboards.building.graphs import stat, text, timeseries
from dutycycle_dashboards.building.links import OPERATIONS
from dutycycle_dashboards.building.panel import ANY_IS_BAD, Panel, Target, Threshold
from dutycycle_dashboards.building.tables import Column, table
from dutycycle_dashboards.building.units import BAD, FAIR, GOOD, SECONDS

_ANSWERS = "0 * max(dutycycle_alerter_build_info)"
"""0 where an alerter answers: silence is not good news."""
_LATE = (Threshold(None, GOOD), Threshold(300, FAIR), Threshold(900, BAD))

LACKS = {
    "hung": "power, the power limit, or idle power of the GPU model (learned from GPUs without a job)",
    "idle": "utilization: MIG instances without GPM",
    "partially_idle": "utilization: MIG instances without GPM",
    "stalled": "idle gaps, and CPU and pressure of the job's cgroup",
    "uneven": "utilization: MIG instances without GPM",
    "low_sm_activity": "activity of multiprocessors: GPM, on Hopper and later",
    "underused": "utilization: MIG instances without GPM",
    "memory_underused": "GPU memory or utilization over the job's life",
    "memory_pressure": "GPU memory or utilization over the job's life",
    "overallocated": "what the job asked for, or used, of CPU, memory and time (Slurm)",
}
"""What each rule lacks where it cannot be judged."""

_EVIDENCE = """\
A rule is judged only on what was measured; where a GPU or node does not give it, the rule says nothing about its jobs.

| rule | needs | what helps |
|---|---|---|
| `low_sm_activity` | GPM: activity of multiprocessors | Hopper and later; `CAP_SYS_ADMIN` if profiling is restricted |
| `stalled` | idle gaps, or CPU and pressure of the job | an exporter that sees cgroups (v2, with PSI in the kernel) |
| `hung` | energy, power limit, idle power | idle power is learned from GPUs of the model that nobody holds |
| any | utilization | MIG has none without GPM: on Ampere these jobs cannot be judged |

Which jobs, and why, is on the alerter's page and in `dutycycle analyze`.
"""


def operations() -> Board:
    """What is broken at the top; details of each part below, folded where they ask much."""
    return Board(
        uid=OPERATIONS,
        title="Dutycycle / Operations",
        description="Whether Dutycycle itself works: exporters, alerter, and rules that cannot be judged.",
        variables=(variables.datasource(), variables.alerter()),
        span="24h",
        sections=(
            Section("Now", _now()),
            Section("Exporters", exporters()),
            Section("Exporters: what is lost", losses(), collapsed=True),
            Section("Alerter", alerter()),
            Section("Alerter: tasks and schedulers", tasks(), collapsed=True),
            Section("Rules that cannot be judged", _rules(), collapsed=True),
        ),
    )


def _now() -> tuple[Panel, ...]:
    return (
        stat(
            "Nodes answering",
            "Nodes whose exporter answers. A node that never answered is not known here: compare with Prometheus' "
            "page of targets.",
            Target("count(count by (cluster, node) (gpu_expected))"),
            thresholds=(Threshold(None, BAD), Threshold(1, GOOD)),
            no_data=NO_EXPORTER,
            width=3,
        ),
        stat(
            "Nodes silent",
            "Nodes that answered in the range and do not now: node down, exporter down, or network. What their GPUs "
            "do is not known, and no incident of them opens or resolves. A node that was taken out counts until it "
            "leaves the range.",
            Target(f"count({silent_nodes()}) or 0 * count(gpu_expected)"),
            thresholds=ANY_IS_BAD,
            no_data=NO_EXPORTER,
            width=3,
        ),
        stat(
            "Collectors",
            "Collectors of exporters whose last run failed. `nvml`: GPUs cannot be read; `attribution` and the others: "
            "whose a GPU is cannot be. The exporter's log says why.",
            Target(
                "count(dutycycle_exporter_collector_success == 0) or 0 * count(dutycycle_exporter_collector_success)"
            ),
            thresholds=ANY_IS_BAD,
            no_data=NO_EXPORTER,
            width=3,
        ),
        stat(
            "Last pass",
            "How long ago everything was last judged; a pass comes each minute unless configured otherwise. Late: "
            "nothing opens or resolves. See the tasks below, then the alerter's log.",
            Target("time() - max(dutycycle_alerter_last_pass_timestamp_seconds)", may_be_empty=STORED),
            unit=SECONDS,
            thresholds=_LATE,
            no_data=NO_ALERTER,
            width=3,
        ),
        stat(
            "Alerters that lead",
            "One evaluates, others stand by. None: nobody judges. Two for longer than a scrape: they do not share "
            "a database.",
            Target("sum(dutycycle_alerter_leader)", may_be_empty="no alerter answers"),
            thresholds=(Threshold(None, BAD), Threshold(1, GOOD), Threshold(2, BAD)),
            no_data=NO_ALERTER,
            width=3,
        ),
        stat(
            "Stores down",
            "Alerters whose database does not answer. Nothing is judged or sent meanwhile; nothing is lost.",
            Target(f"count(dutycycle_alerter_store_up == 0) or {_ANSWERS}", may_be_empty="no alerter answers"),
            thresholds=ANY_IS_BAD,
            no_data=NO_ALERTER,
            width=3,
        ),
        stat(
            "Sources down",
            "Sources (Prometheus, exporters, schedulers) that did not answer the alerter when it last asked.",
            Target(
                f"count(max by (source) (dutycycle_alerter_source_up) == 0) or {_ANSWERS}",
                may_be_empty="no alerter answers",
            ),
            thresholds=ANY_IS_BAD,
            no_data=NO_ALERTER,
            width=3,
        ),
        stat(
            "Receivers failing",
            "Receivers of messages whose last attempt failed.",
            Target(
                f"count(max by (receiver) (dutycycle_receiver_failing_seconds) > 0) or {_ANSWERS}",
                may_be_empty="no alerter answers",
            ),
            thresholds=ANY_IS_BAD,
            no_data=NO_ALERTER,
            width=3,
        ),
        broken(),
    )


def _rules() -> tuple[Panel, ...]:
    now = "max by (rule) (dutycycle_alerter_jobs_not_evaluable)"
    return (
        table(
            "Not evaluable now",
            "Jobs about which a rule can say nothing, because a kind of evidence is not measured for them. They are "
            "not well: they are unknown to this rule.",
            (
                Target(
                    f'label_replace({now} > 0, "lacks", "$1", "rule", "(.*)")', may_be_empty="every rule can be judged"
                ),
            ),
            (
                Column("Rule", label="rule", width=160),
                Column("Jobs", value=0, decimals=0, width=90),
                Column("What is lacking", label="lacks", texts=LACKS),
            ),
            sort="Jobs",
            no_data="Every rule can be judged (or no alerter answers)",
            width=12,
            height=9,
        ),
        timeseries(
            "Not evaluable, by rule",
            "The same over time. A step up follows a change: nodes without GPM, MIG switched on, cgroups that "
            "cannot be read.",
            Target(now, "{{rule}}", may_be_empty="every rule can be judged"),
            no_data="Every rule can be judged (or no alerter answers)",
            height=9,
        ),
        timeseries(
            "Jobs judged",
            "Jobs of which at least one rule could be decided in the last pass. 0 while jobs run: the exporters do not "
            "answer, or all jobs are within their grace.",
            Target("max(dutycycle_alerter_jobs_judged)", "jobs", may_be_empty=STORED),
            legend=False,
            no_data=NO_ALERTER,
        ),
        text(
            "What rules need",
            "What is lacking where a rule cannot be judged, and what helps.",
            _EVIDENCE,
            width=12,
            height=8,
        ),
    )
