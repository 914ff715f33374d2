"""The alerts on Dutycycle itself as files: for Prometheus, and as a PrometheusRule for the operator.

What GPUs and jobs do is the alerter's to tell. These say that something of Dutycycle does not work, or cannot be heard.
They come by way of Prometheus and Alertmanager, so that they also come where the alerter does not.

`python -m tools.alert_rules` prints them with links to runbooks that a site publishes (`--runbooks URL`), or with
another label than `cluster` by which fleets are told apart (`--cluster LABEL`).
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import yaml

Severity = Literal["critical", "warning", "none"]

EXPORTERS = ".*dutycycle-exporter.*"
ALERTERS = ".*dutycycle-alerter.*"
"""Names of scrape jobs by which a target that never answered is known for ours. The operator calls a job
`<namespace>/<monitor>`, or by a label of the pods. A job that is for all pods (`kubernetes-pods`) gives targets the
labels of their pods, and they are known by that. One that answered within the hour is known by what it said.
"""

CLUSTER = "cluster"
"""The label, of targets or an external one, by which alerts that look at all exporters or alerters tell the fleets of
one engine apart. None of the series that they ask for has a label so called by itself.
"""

_MADE = "# Made from tools/alert_rules.py by `make generate`; do not edit.\n"
_LABELS = {"app.kubernetes.io/name": "dutycycle", "app.kubernetes.io/component": "alert-rules"}


@dataclass(frozen=True, slots=True)
class Alert:
    """One rule. It fires once `expr` has had an answer for `wait` (a Prometheus duration, empty for at once)."""

    name: str
    severity: Severity
    wait: str
    expr: str
    summary: str
    description: str

    @property
    def runbook(self) -> str:
        """From the root of the repository."""
        return f"docs/runbooks/{self.name}.md"


@dataclass(frozen=True, slots=True)
class Group:
    """Alerts that are evaluated together."""

    name: str
    alerts: tuple[Alert, ...]


def _down(name: str, jobs: str, info: str) -> str:
    """Targets that do not answer, or only for some seconds between one crash and the next (two outages have four
    changes, and are none). They are ours by the name of their job or their pod's label, by what they said before, or by
    this alert, which so goes on for as long as the target is there.
    """
    silent = "up == 0 or avg_over_time(up[30m]) < 0.5 and changes(up[30m]) > 4"
    label = jobs.removeprefix(".*").removesuffix(".*")
    known = (
        f'up{{job=~"{jobs}"}} or up{{app_kubernetes_io_name="{label}"}} or last_over_time({info}[1h])'
        f' or ALERTS{{alertname="{name}"}}'
    )
    return f"({silent}) and on (cluster, job, instance) ({known})"


def _vanished(info: str) -> str:
    """Fleets that had this series within a day, and have it no more: `absent` sees only that none has."""
    return f"max_over_time(count by (cluster) ({info})[1d:10m]) unless count by (cluster) ({info})"


TARGETS = "dutycycle-slurm-sd/targets|dutycycle"
"""How the files are called that our discovery of Slurm's nodes writes: by its unit, and by cron as documented. Files
that a person writes may be old.
"""

_FAILURES = 'sum without (reason) (increase(dutycycle_exporter_attribution_failures_total{reason!="earlier_pod"}[15m]))'
_RESTARTS = 'sum without (reason) (increase(dutycycle_exporter_child_restarts_total{reason!~"released|reload"}[15m]))'

_WHERE = (
    "{{ $labels.instance }}"
    '{{ range query (printf "max by (node) (last_over_time(gpu_expected{cluster=%q,job=%q,instance=%q}[1d]))"'
    " $labels.cluster $labels.job $labels.instance) }} (node {{ .Labels.node }}){{ end }}"
)
"""An exporter's own series do not have its node's name; what it says of the GPUs has."""

GROUPS = (
    Group(
        "dutycycle-exporter-alerts",
        (
            Alert(
                name="DutycycleExporterDown",
                severity="warning",
                # A node that is rebooted for maintenance is back by then.
                wait="15m",
                expr=_down("DutycycleExporterDown", EXPORTERS, "dutycycle_exporter_build_info"),
                summary=f"The exporter at {_WHERE} does not answer.",
                description="Prometheus has not been able to scrape it for 15 minutes, or it keeps restarting. "
                "What the GPUs of its node do is not known; no incident of them opens or resolves.",
            ),
            Alert(
                name="DutycycleNoExporters",
                severity="critical",
                wait="15m",
                expr=f"absent(dutycycle_exporter_build_info) or {_vanished('dutycycle_exporter_build_info')}",
                summary="No exporter answers.",
                description="Prometheus has no sample of any dutycycle-exporter: none is scraped, or none answers. "
                "Nothing is measured, and nothing is judged.",
            ),
            Alert(
                name="DutycycleGpuLost",
                severity="critical",
                # While a driver is loaded its GPUs come one by one.
                wait="3m",
                # Both are of the same scrape: all labels are the same. While NVML is not read, as when a GPU that was
                # left out is tried and hangs (a minute and a half), nobody says how many it shows: that begins no
                # waiting anew. These minutes are waited for as well.
                expr="gpu_expected - max_over_time(gpu_visible[3m]) > 0",
                summary="Node {{ $labels.node }} has lost {{ $value }} GPU(s).",
                description="The PCI bus shows more GPUs than NVML does. What runs on the lost ones hangs or has died.",
            ),
            Alert(
                name="DutycycleCollectorFailing",
                severity="warning",
                wait="15m",
                # The age is for a part that ended without a word. Others than these may have nothing to do for hours.
                expr='dutycycle_exporter_collector_success{collector=~"nvml|attribution"} == 0 '
                'or dutycycle_exporter_collector_age_seconds{collector=~"nvml|attribution"} > 300',
                summary=f"Collector {{{{ $labels.collector }}}} fails at {_WHERE}.",
                description="It has not succeeded for 15 minutes. nvml: the GPUs of this node cannot be read. "
                "attribution: whose they are is not known.",
            ),
            Alert(
                name="DutycycleNvmlRestarting",
                severity="warning",
                # A failure that lasts leaves this condition after 15 minutes, and is another alert.
                wait="20m",
                expr=f"{_RESTARTS} > 3 and on (cluster, job, instance) "
                'max_over_time(dutycycle_exporter_collector_success{collector="nvml"}[15m]) == 1',
                summary=f"NVML keeps being restarted at {_WHERE}.",
                description="The process that reads NVML was replaced {{ $value | humanize }} times in 15 minutes, "
                "and works in between. A GPU or the driver is about to fail; measured time has holes.",
            ),
            Alert(
                name="DutycycleAttributionFailing",
                severity="warning",
                # However much a few minutes count, they have left this condition after 20.
                wait="20m",
                # Files and processes are looked at with each sample: by default 180 times in 15 minutes, and 45 times
                # with --sample-interval=20s. That one of them is gone meanwhile happens once a minute at most. The
                # kubelet and the API server are asked less often when they fail, and tell whether they answered.
                expr=f"{_FAILURES} > 20 or {_FAILURES} > 0 and on (cluster, job, instance, source) label_replace("
                'dutycycle_exporter_collector_success{collector!~"nvml|attribution"} == 0, '
                '"source", "$1", "collector", "(.+)")',
                summary=f"Who holds which GPUs cannot be read from {{{{ $labels.source }}}} at {_WHERE}.",
                description="Files, processes or answers of this source have been unusable for 20 minutes. GPUs may "
                "seem to belong to nobody, or still be attributed to a job that is over.",
            ),
            Alert(
                name="DutycycleReloadFailed",
                severity="warning",
                wait="5m",
                expr="dutycycle_exporter_config_last_reload_successful == 0",
                summary=f"The exporter at {_WHERE} refused its configuration.",
                description="It continues with the previous one, and would not start with this one.",
            ),
        ),
    ),
    Group(
        "dutycycle-alerter-alerts",
        (
            Alert(
                name="DutycycleAlerterDown",
                severity="warning",
                wait="15m",
                expr=_down("DutycycleAlerterDown", ALERTERS, "dutycycle_alerter_build_info"),
                summary="The alerter at {{ $labels.instance }} does not answer.",
                description="Prometheus has not been able to scrape it for 15 minutes, or it keeps restarting. "
                "Where another evaluates there is nobody left to take over; where none does, DutycycleNotEvaluating "
                "says so.",
            ),
            Alert(
                name="DutycycleNotEvaluating",
                severity="critical",
                # So long a new release may take: its image, its volume, and tables that are brought up to date.
                wait="10m",
                # A last pass in the future is a clock that is wrong, and would hide all that follows.
                expr=f"absent(dutycycle_alerter_leader) or {_vanished('dutycycle_alerter_leader')} "
                "or max by (cluster) (dutycycle_alerter_leader) < 1 "
                "or abs(time() - max by (cluster) (dutycycle_alerter_last_pass_timestamp_seconds)) > 600 "
                "or max by (cluster) (dutycycle_alerter_leader) "
                "unless max by (cluster) (dutycycle_alerter_last_pass_timestamp_seconds)",
                summary="No alerter evaluates.",
                description="No alerter answers, none has the lease, or the last pass is more than 10 minutes ago. "
                "Nothing opens, resolves or is sent.",
            ),
            Alert(
                name="DutycycleStoreFailing",
                severity="critical",
                wait="5m",
                expr="dutycycle_alerter_store_up == 0",
                summary="The database does not answer the alerter at {{ $labels.instance }}.",
                description="An alerter without its database judges nothing, sends nothing and shows nothing. What "
                "it has stored is kept.",
            ),
            Alert(
                name="DutycycleSourceSilent",
                severity="warning",
                wait="15m",
                expr="max by (cluster, source) (dutycycle_alerter_source_up) == 0",
                summary="{{ $labels.source }} does not answer the alerter.",
                description="It has not for 15 minutes. What only this source knows is missing, and opens and "
                "resolves nothing.",
            ),
            Alert(
                name="DutycycleNotificationsFailing",
                severity="warning",
                wait="15m",
                # Who has had as many messages as the receiver's limit allows in a day gets the rest on the next.
                expr="max by (cluster, receiver) (dutycycle_receiver_failing_seconds) > 0 "
                "or max by (cluster, receiver) (dutycycle_outbox_oldest_seconds) > 30 * 3600",
                summary="Nothing that the alerter sends by {{ $labels.receiver }} arrives.",
                description="Every attempt of the last 15 minutes has failed, or news has been due for over a day. "
                "It is kept and tried again.",
            ),
            Alert(
                name="DutycycleLeaseUnstable",
                severity="warning",
                wait="",
                expr="sum by (cluster) (increase(dutycycle_alerter_leases_lost_total[1h])) > 5",
                summary="Alerters lost the lease {{ $value | humanize }} times in an hour.",
                description="The database answers too late, or an alerter is held up. Each time, judging starts again.",
            ),
            Alert(
                name="DutycycleTaskFailing",
                severity="warning",
                # One failed run of the hourly task is none: the next one has been by then.
                wait="90m",
                expr="sum by (cluster, task) (increase(dutycycle_alerter_task_failures_total[3h])) "
                "> 0.9 * sum by (cluster, task) (increase(dutycycle_alerter_task_runs_total[3h]))",
                summary="The alerter's task {{ $labels.task }} fails at every run.",
                description="No run of it has succeeded for hours. housekeeping: what is old is not deleted, and the "
                "database grows.",
            ),
            Alert(
                name="DutycycleSubjectFailing",
                severity="warning",
                # Every pass that meets the same evidence fails on it again: a single failure is over after 15 minutes.
                wait="",
                expr="sum by (cluster, step) (increase(dutycycle_alerter_subject_failures_total[15m])) > 0",
                summary="The alerter fails on a job, GPU or node (step {{ $labels.step }}).",
                description="An error of the alerter. What it fails on stays as it was; all others are judged. The "
                "page names it, and the log has the trace.",
            ),
        ),
    ),
    Group(
        "dutycycle-pipeline-alerts",
        (
            Alert(
                name="DutycycleRecordingRulesMissing",
                severity="warning",
                # So long a Prometheus that was away for some minutes needs to have enough of them again.
                wait="30m",
                # A ruler that is there for several fleets records them together, without the label. A rule that fails
                # does not stop the others: what is counted by user is looked for by itself (its series have labels
                # `cluster` of their own, so of all fleets together), and so is the hourly group.
                expr="max by (cluster) (gpu_visible offset 30m) and max by (cluster) (gpu_visible) "
                "unless on (cluster) count_over_time(fleet:gpu_visible_seconds:increase5m[30m]) >= 5 "
                'unless on () count_over_time(fleet:gpu_visible_seconds:increase5m{cluster=""}[30m]) >= 5 '
                "or max(gpu_allocation offset 30m) and max(gpu_allocation) "
                "unless max(count_over_time(user:workload_gpu_allocated_seconds:increase5m[30m])) "
                "or max by (cluster) (count_over_time(fleet:gpu_visible_seconds:increase5m[15m] offset 130m)) "
                "and max by (cluster) (count_over_time(fleet:gpu_visible_seconds:increase5m[15m])) "
                "unless on (cluster) max by (cluster) "
                "(count_over_time(fleet:gpu_visible_seconds:increase1h[130m])) "
                "or max(count_over_time(user:workload_gpu_allocated_seconds:increase5m[15m] offset 130m)) "
                "unless max(count_over_time(user:workload_gpu_allocated_seconds:increase1h[130m]))",
                summary="The recording rules are missing, fail or are too slow.",
                description="Prometheus does not record every 5 minutes, or every hour, what it should. Dashboards "
                "lack what is counted by user, and with prometheus.recorded the alerter lacks its long windows.",
            ),
            Alert(
                name="DutycyclePodNotStarted",
                severity="warning",
                # A node that is new or rebooted is done by then.
                wait="30m",
                # By kube-state-metrics; without it there is no such alert. A pod without an address is nobody's target.
                # Each pod by itself: of a fleet that is rebooted node by node some pod never is ready.
                expr='max by (cluster, namespace, pod) (kube_pod_status_phase{phase="Pending",'
                'pod=~"dutycycle-(exporter|alerter)-.+"}) == 1 '
                "or max by (cluster, namespace, daemonset) (kube_daemonset_status_desired_number_scheduled"
                '{daemonset="dutycycle-exporter"} - kube_daemonset_status_current_number_scheduled) > 0',
                summary="{{ with $labels.pod }}Pod {{ . }} has not started{{ else }}{{ $value }} pod(s) of the "
                "exporter are not created{{ end }}.",
                description="Kubernetes has been about to start it for 30 minutes. Nothing is known about a node "
                "without its exporter, and no other alert says so.",
            ),
            Alert(
                name="DutycycleDiscoveryStale",
                severity="warning",
                wait="5m",
                # It is written every 5 minutes, also when nothing changed. Told by a Prometheus that scrapes itself.
                expr=f'time() - prometheus_sd_file_mtime_seconds{{filename=~".*/({TARGETS})[.]json"}} > 3600',
                summary="Slurm's nodes have not been found for {{ $value | humanizeDuration }}.",
                description="{{ $labels.filename }} at {{ $labels.instance }} is no longer written. New nodes are "
                "not scraped, and no other alert reports them; those that are gone are still scraped.",
            ),
            Alert(
                name="DutycycleWatchdog",
                severity="none",
                wait="",
                expr="vector(1)",
                summary="Alerts of Dutycycle are evaluated and sent.",
                description="This alert always fires. It is a dead man's switch: route it to something that raises "
                "the alarm when it stops arriving.",
            ),
        ),
    ),
)

ALERTS: Mapping[str, Alert] = {alert.name: alert for group in GROUPS for alert in group.alerts}


def plain(runbooks: str = "", cluster: str = CLUSTER) -> bytes:
    """For `rule_files` of Prometheus, or the ruler of Thanos, Mimir or VictoriaMetrics. `runbooks` is where a site
    publishes docs/runbooks, if it does; `cluster` the label by which fleets are told apart.
    """
    return _written(_groups(runbooks, cluster))


def prometheus_rule() -> bytes:
    """For the Prometheus operator. Its rule selector may want further labels: see the kustomization beside it."""
    return _written(
        {
            "apiVersion": "monitoring.coreos.com/v1",
            "kind": "PrometheusRule",
            "metadata": {"name": "dutycycle-alerts", "labels": _LABELS},
            "spec": _groups("", CLUSTER),
        }
    )


def _groups(runbooks: str, cluster: str) -> dict[str, Any]:
    return {
        "groups": [
            {"name": group.name, "interval": "1m", "rules": [_rule(alert, runbooks, cluster) for alert in group.alerts]}
            for group in GROUPS
        ]
    }


def _rule(alert: Alert, runbooks: str, cluster: str) -> dict[str, Any]:
    def named(text: str) -> str:
        return re.sub(rf"\b{CLUSTER}\b", cluster, text)

    link = {"runbook_url": f"{runbooks.rstrip('/')}/{alert.name}"} if runbooks else {}
    return {
        "alert": alert.name,
        "expr": named(alert.expr),
        **({"for": alert.wait} if alert.wait else {}),
        "labels": {"severity": alert.severity, "service": "dutycycle"},
        "annotations": {
            "summary": named(alert.summary),
            "description": alert.description,
            "runbook": alert.runbook,
            **link,
        },
    }


def _written(content: dict[str, Any]) -> bytes:
    return (_MADE + yaml.safe_dump(content, sort_keys=False, width=10_000)).encode()


def main(arguments: list[str] | None = None) -> None:
    """Print the rules."""
    parser = argparse.ArgumentParser(prog="python -m tools.alert_rules", description="Print the alerts' rules.")
    parser.add_argument("--runbooks", default="", metavar="URL", help="where docs/runbooks is published")
    parser.add_argument("--cluster", default=CLUSTER, metavar="LABEL", help="by which label fleets are told apart")
    print(plain(**vars(parser.parse_args(arguments))).decode(), end="")


if __name__ == "__main__":
    main()
