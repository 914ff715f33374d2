"""Scenarios of alerts: what exporters, alerters and others say, minute by minute, and which alerts fire then."""

from __future__ import annotations

from collections.abc import Mapping

from tests.prometheus.saying import (
    ALERTER,
    EXPORTER,
    MINUTES,
    Series,
    alerter,
    exporter,
    otherwise,
    since,
    steady,
    until,
    well,
)

RECORDED = "fleet:gpu_visible_seconds:increase5m"
RECORDS = "4800 _x4 " * 40
"""Its values where the recording rules are there: every five minutes."""
HOURLY = "fleet:gpu_visible_seconds:increase1h"
HOURS = "_x29 57600 _x59 57600 _x59 57600 _x30"
RECORDINGS = {RECORDED: RECORDS, HOURLY: HOURS}

Fired = Mapping[int, set[str]]
"""At minutes of the scenario: the alerts that fire then, without `Dutycycle` before their names."""


def down(since: int, until: int = MINUTES) -> str:
    """Of `up`."""
    return f"1x{since - 1} 0x{until - since} 1x{MINUTES - until}"


def gone(since: int, until: int = MINUTES, *, value: float = 1) -> str:
    """Of what a target says that is not scraped meanwhile."""
    return f"{value}x{since - 1} stale _x{until - since - 1} {value}x{MINUTES - until}"


def silent(node: str, since: int, until: int = MINUTES) -> dict[str, str | None]:
    """An exporter that is not scraped."""
    at = f'instance="{node}:9836"'
    return {
        f"up {at}": down(since, until),
        f"dutycycle_exporter_build_info {at}": gone(since, until),
        f"gpu_expected {at}": gone(since, until, value=8),
        f"gpu_visible {at}": gone(since, until, value=8),
        f"dutycycle_exporter_collector_success {at}": gone(since, until),
        f"dutycycle_exporter_collector_age_seconds {at}": gone(since, until, value=3),
        f"dutycycle_exporter_config_last_reload_successful {at}": gone(since, until),
    }


def without(*parts: str) -> Series:
    """All that is well, but for the series that have one of these in them."""
    return {name: values for name, values in well().items() if not any(part in name for part in parts)}


def pending(pod: str) -> str:
    """Whether a pod waits, as kube-state-metrics says it."""
    return f'kube_pod_status_phase{{job="kube-state-metrics",namespace="dutycycle",pod="{pod}",phase="Pending"}}'


def daemon_set(wanted: str, made: str) -> Series:
    """On how many nodes the exporter's pod should be, and is."""
    at = '{job="kube-state-metrics",namespace="dutycycle",daemonset="dutycycle-exporter"}'
    return {
        f"kube_daemonset_status_desired_number_scheduled{at}": wanted,
        f"kube_daemonset_status_current_number_scheduled{at}": made,
    }


def targets(written: str, file: str = "/var/lib/dutycycle-slurm-sd/targets.json") -> Series:
    """When the file of targets was written, as Prometheus says it of itself."""
    at = f'job="prometheus",instance="127.0.0.1:9090",filename="{file}"'
    return {f"prometheus_sd_file_mtime_seconds{{{at}}}": written}


STOPS = "0+60x60 3600x100 9720+60x20"
"""A file that is not written from one hour on, for a hundred minutes."""

NOTHING: set[str] = set()
ALL_DAY = (1, 10, 40, 90, 120, 170)

CASES: dict[str, tuple[Series, Fired]] = {
    "all is well": (well(), dict.fromkeys(ALL_DAY, NOTHING)),
    # -- exporters
    "an exporter does not answer, and does again": (
        otherwise(well(), silent("n1", 60, 120)),
        {60: NOTHING, 74: NOTHING, 76: {"ExporterDown"}, 119: {"ExporterDown"}, 121: NOTHING},
    ),
    "a node is rebooted": (otherwise(well(), silent("n1", 60, 74)), dict.fromkeys((60, 74, 75, 90), NOTHING)),
    "scrapes fail now and then": (
        otherwise(well(), {'up instance="n1:9836"': " ".join(["1x8 0x3"] * 15)}),
        dict.fromkeys(ALL_DAY, NOTHING),
    ),
    "a node is rebooted twice": (
        otherwise(well(), {'up instance="n1:9836"': "1x59 0x9 1x4 0x9 1x100"}),
        dict.fromkeys((60, 75, 80, 85, 90, 95, 100, 105, 120), NOTHING),
    ),
    "an exporter ends again and again": (
        otherwise(well(), {'up instance="n1:9836"': "1x59 " + "0x3 1 " * 12 + "1x60"}),
        {75: NOTHING, 100: {"ExporterDown"}, 118: {"ExporterDown"}, 145: NOTHING},
    ),
    "it ends at once, from the beginning": (
        otherwise(well(), {'up instance="n1:9836"': "0x8 1 " * 18}),
        {10: NOTHING, 50: {"ExporterDown"}, 100: {"ExporterDown"}, 160: {"ExporterDown"}},
    ),
    "an exporter's job has another name": (
        otherwise(
            without('instance="n1:9836"') | exporter("n1", job="kubernetes-pods"),
            silent("n1", 10, 170),
        ),
        # Also when its last word is long ago.
        {9: NOTHING, 26: {"ExporterDown"}, 60: {"ExporterDown"}, 150: {"ExporterDown"}, 171: NOTHING},
    ),
    "something else does not answer": (
        well() | {'up{job="node-exporter",instance="n1:9100"}': steady(0)},
        dict.fromkeys(ALL_DAY, NOTHING),
    ),
    "an exporter never answered": (
        well() | {f'up{{job="{EXPORTER}",instance="n3:9836"}}': steady(0)},
        {14: NOTHING, 16: {"ExporterDown"}, 170: {"ExporterDown"}},
    ),
    "an exporter is restarted, its pod is another one": (
        without('instance="n1:9836"')
        | until(exporter("n1"), 60)
        | {name.replace("n1:9836", "n9:9836"): values for name, values in since(exporter("n1"), 60).items()},
        dict.fromkeys(ALL_DAY, NOTHING),
    ),
    "a node is taken out": (
        without('instance="n1:9836"') | until(exporter("n1"), 60),
        dict.fromkeys(ALL_DAY, NOTHING),
    ),
    "no exporter is there": (
        without("exporter", "gpu_"),
        {14: NOTHING, 16: {"NoExporters"}, 170: {"NoExporters"}},
    ),
    "nobody ever scraped an exporter again": (
        without("exporter", "gpu_") | until(exporter("n1") | exporter("n2"), 60),
        {74: NOTHING, 77: {"NoExporters"}, 170: {"NoExporters"}},
    ),
    "no exporter answers, and one does again": (
        otherwise(well(), silent("n1", 60, 120) | silent("n2", 60)),
        {
            74: NOTHING,
            90: {"ExporterDown", "NoExporters"},
            125: {"ExporterDown"},
        },
    ),
    "Prometheus begins": (
        since(well(), 100),
        {8: NOTHING, 99: {"NoExporters", "NotEvaluating"}, 103: NOTHING, 110: NOTHING, 130: NOTHING},
    ),
    "a GPU is lost, and comes back": (
        otherwise(well(), {"gpu_visible n2": "8x59 7x60 8x60"}),
        {64: NOTHING, 67: {"GpuLost"}, 119: {"GpuLost"}, 121: NOTHING},
    ),
    "a GPU is lost, and NVML is not read for a moment": (
        otherwise(well(), {"gpu_visible n2": "8x59 7x3 stale _ 7x60"}),
        {64: NOTHING, 67: {"GpuLost"}, 90: {"GpuLost"}},
    ),
    "a driver is loaded": (
        otherwise(well(), {"gpu_visible n2": "8x59 _x3 2 6 8x120"}),
        dict.fromkeys((60, 63, 65, 70, 90), NOTHING),
    ),
    "a GPU is taken out of the bus, too": (
        otherwise(well(), {"gpu_visible n2": "8x59 7x120", "gpu_expected n2": "8x59 7x120"}),
        dict.fromkeys(ALL_DAY, NOTHING),
    ),
    "a node has GPUs cut into instances": (
        otherwise(well(), {})
        | {
            f'gpu_info{{job="{EXPORTER}",instance="n1:9836",node="n1",gpu="0",gpu_uuid="GPU-1",mig="MIG-{i}"}}': steady(
                1
            )
            for i in range(7)
        },
        dict.fromkeys(ALL_DAY, NOTHING),
    ),
    "NVML cannot be read": (
        otherwise(
            well(),
            {
                'dutycycle_exporter_collector_success nvml instance="n1:9836"': "1x59 0x60 1x60",
                'dutycycle_exporter_collector_age_seconds nvml instance="n1:9836"': "3x59 3+60x60 3x60",
                # It is tried every 30 s.
                'dutycycle_exporter_child_restarts_total hang instance="n1:9836"': "1x59 1+2x60 121x60",
                'gpu_visible instance="n1:9836"': gone(60, 120, value=8),
            },
        ),
        {73: NOTHING, 80: {"CollectorFailing"}, 118: {"CollectorFailing"}, 125: NOTHING, 160: NOTHING},
    ),
    "the exporter's thread that reads NVML has ended without a word": (
        otherwise(well(), {'dutycycle_exporter_collector_age_seconds nvml instance="n1:9836"': "3x59 3+60x60 3x60"}),
        {60: NOTHING, 78: NOTHING, 82: {"CollectorFailing"}, 118: {"CollectorFailing"}, 122: NOTHING},
    ),
    "the driver is let go of for an upgrade": (
        otherwise(
            well(),
            {
                'dutycycle_exporter_collector_success nvml instance="n1:9836"': "1x59 0x12 1x120",
                'dutycycle_exporter_child_restarts_total released instance="n1:9836"': "1x59 2x120",
                'gpu_visible instance="n1:9836"': gone(60, 72, value=8),
            },
        ),
        dict.fromkeys((60, 70, 75, 90), NOTHING),
    ),
    "NVML dies every other minute": (
        otherwise(
            well(),
            {
                'dutycycle_exporter_child_restarts_total hang instance="n1:9836"': "1x59 "
                + " ".join(f"{2 + i}x1" for i in range(30))
                + " 31x60",
                'dutycycle_exporter_collector_success nvml instance="n1:9836"': "1x59 " + "0 1 " * 30 + "1x60",
            },
        ),
        {70: NOTHING, 95: {"NvmlRestarting"}, 118: {"NvmlRestarting"}, 140: NOTHING},
    ),
    "NVML died three times": (
        otherwise(well(), {'dutycycle_exporter_child_restarts_total hang instance="n1:9836"': "1x59 2 3 4x120"}),
        dict.fromkeys((60, 62, 70, 80, 90), NOTHING),
    ),
    "NVML dies now and then": (
        otherwise(
            well(),
            {'dutycycle_exporter_child_restarts_total hang instance="n1:9836"': " ".join(f"{n}x5" for n in range(30))},
        ),
        dict.fromkeys(ALL_DAY, NOTHING),
    ),
    "its configuration is read again and again": (
        otherwise(well(), {'dutycycle_exporter_child_restarts_total reload instance="n1:9836"': f"1+1x{MINUTES}"}),
        dict.fromkeys(ALL_DAY, NOTHING),
    ),
    "a prolog's file is not believed": (
        well()
        | {
            f'dutycycle_exporter_attribution_failures_total{{job="{EXPORTER}",instance="n1:9836",source="slurm",'
            'reason="writable"}': "_x60 0+12x60 720x60"
        },
        {70: NOTHING, 95: {"AttributionFailing"}, 119: {"AttributionFailing"}, 140: NOTHING},
    ),
    "a prolog's directory cannot be read, with a sample each 20 s": (
        well()
        | {
            f'dutycycle_exporter_attribution_failures_total{{job="{EXPORTER}",instance="n1:9836",source="slurm",'
            'reason="directory_unreadable"}': "_x60 0+3x60 180x60"
        },
        {80: NOTHING, 95: {"AttributionFailing"}, 119: {"AttributionFailing"}, 140: NOTHING},
    ),
    "none of eight files can be read for four minutes": (
        well()
        | {
            f'dutycycle_exporter_attribution_failures_total{{job="{EXPORTER}",instance="n1:9836",source="slurm",'
            'reason="unreadable"}': "0x60 96 192 288 384x120"
        },
        dict.fromkeys((61, 65, 70, 75, 77, 78, 79, 80, 90), NOTHING),
    ),
    "the API server does not answer the exporter": (
        otherwise(well(), {'dutycycle_exporter_collector_success kubernetes_api instance="n1:9836"': "1x59 0x60 1x60"})
        | {
            f'dutycycle_exporter_attribution_failures_total{{job="{EXPORTER}",instance="n1:9836",'
            'source="kubernetes_api",reason="unreachable"}': "_x60 1+1x60 61x60"
        },
        {75: NOTHING, 85: {"AttributionFailing"}, 118: {"AttributionFailing"}, 125: NOTHING},
    ),
    "it failed once, and there was nothing to ask it after that": (
        otherwise(well(), {'dutycycle_exporter_collector_success kubernetes_api instance="n1:9836"': "1x59 0x120"})
        | {
            f'dutycycle_exporter_attribution_failures_total{{job="{EXPORTER}",instance="n1:9836",'
            'source="kubernetes_api",reason="unreachable"}': "_x60 1 2x120"
        },
        dict.fromkeys((61, 70, 80, 90, 120), NOTHING),
    ),
    "a configuration is not valid, and mended": (
        otherwise(well(), {'dutycycle_exporter_config_last_reload_successful instance="n2:9836"': "1x59 0x60 1x60"}),
        {64: NOTHING, 66: {"ReloadFailed"}, 119: {"ReloadFailed"}, 121: NOTHING},
    ),
    # -- alerters
    "the one that stands by does not answer": (
        otherwise(
            without('instance="b:9837"')
            | until(alerter("b", leads=False), 60)
            | {f'up{{job="{ALERTER}",instance="b:9837"}}': down(60, 120)},
            {},
        ),
        {74: NOTHING, 76: {"AlerterDown"}, 119: {"AlerterDown"}, 121: NOTHING},
    ),
    "the one that stands by ends again and again": (
        otherwise(well(), {'up instance="b:9837"': "1x59 " + "0x3 1 " * 12 + "1x60"}),
        {75: NOTHING, 100: {"AlerterDown"}, 118: {"AlerterDown"}, 145: NOTHING},
    ),
    "no alerter is there": (
        without("alerter", "receiver"),
        {9: NOTHING, 11: {"NotEvaluating"}, 170: {"NotEvaluating"}},
    ),
    "the only alerter is brought up to date": (
        without("alerter", "receiver") | until(alerter("a", leads=True), 60) | since(alerter("c", leads=True), 68),
        dict.fromkeys((60, 65, 68, 72, 90, 120), NOTHING),
    ),
    "the only alerter is gone, and comes back": (
        without("alerter", "receiver") | until(alerter("a", leads=True), 60) | since(alerter("c", leads=True), 120),
        {68: NOTHING, 72: {"NotEvaluating"}, 119: {"NotEvaluating"}, 121: NOTHING},
    ),
    "one takes over from the other": (
        otherwise(
            well(),
            {
                'dutycycle_alerter_leader instance="a:9837"': "1x59 0x120",
                'dutycycle_alerter_leader instance="b:9837"': "0x62 1x120",
                'dutycycle_alerter_leases_lost_total instance="a:9837"': "0x59 1x120",
                "dutycycle_alerter_last_pass_timestamp_seconds": "-20+60x60 3580x3 3760+60x120",
            },
        ),
        dict.fromkeys((60, 62, 66, 90, 120), NOTHING),
    ),
    "none leads": (
        otherwise(well(), {'dutycycle_alerter_leader instance="a:9837"': "1x59 0x60 1x60"}),
        {69: NOTHING, 71: {"NotEvaluating"}, 119: {"NotEvaluating"}, 121: NOTHING},
    ),
    "one leads, and its pass hangs": (
        otherwise(well(), {"dutycycle_alerter_last_pass_timestamp_seconds": "-20+60x60 3580x50 6700+60x60"}),
        {77: NOTHING, 82: {"NotEvaluating"}, 109: {"NotEvaluating"}, 112: NOTHING},
    ),
    "the very first pass hangs": (
        without("dutycycle_alerter_last_pass"),
        {9: NOTHING, 11: {"NotEvaluating"}},
    ),
    "an alerter begins after a day": (
        otherwise(well(), {"dutycycle_alerter_last_pass_timestamp_seconds": "-86400x1 100+60x170"}),
        dict.fromkeys((1, 2, 5, 10, 90), NOTHING),
    ),
    "the database's clock is an hour ahead": (
        otherwise(well(), {"dutycycle_alerter_last_pass_timestamp_seconds": f"3600+60x{MINUTES}"}),
        {9: NOTHING, 11: {"NotEvaluating"}},
    ),
    "one alerter cannot reach the database": (
        otherwise(
            well(),
            {
                'dutycycle_alerter_store_up instance="b:9837"': "1x59 0x60 1x60",
                'dutycycle_alerter_last_pass_timestamp_seconds instance="b:9837"': "-20+60x59 stale",
            },
        ),
        {64: NOTHING, 66: {"StoreFailing"}, 119: {"StoreFailing"}, 121: NOTHING},
    ),
    "Slurm does not answer the alerter": (
        # What a follower read last from the database is the same.
        otherwise(well(), {"dutycycle_alerter_source_up slurm": "1x59 0x60 1x60"}),
        {74: NOTHING, 76: {"SourceSilent"}, 119: {"SourceSilent"}, 121: NOTHING},
    ),
    "mail is refused": (
        otherwise(well(), {"dutycycle_receiver_failing_seconds": "0x59 86400+60x60 0x60"}),
        {74: NOTHING, 76: {"NotificationsFailing"}, 119: {"NotificationsFailing"}, 121: NOTHING},
    ),
    "mail is refused once": (
        otherwise(well(), {"dutycycle_receiver_failing_seconds": "0x59 86400x3 0x120"}),
        dict.fromkeys((60, 62, 76, 90), NOTHING),
    ),
    "news are stuck in the outbox": (
        otherwise(well(), {"dutycycle_outbox_oldest_seconds": "0x59 107100+60x60 0x60"}),
        {75: NOTHING, 88: NOTHING, 92: {"NotificationsFailing"}, 119: {"NotificationsFailing"}, 121: NOTHING},
    ),
    "somebody had all messages of the day": (
        otherwise(well(), {"dutycycle_outbox_oldest_seconds": f"70000+60x{MINUTES}"}),
        dict.fromkeys(ALL_DAY, NOTHING),
    ),
    "the lease is lost again and again": (
        otherwise(well(), {'dutycycle_alerter_leases_lost_total instance="a:9837"': "0x59 0+1x10 10x120"}),
        {60: NOTHING, 70: {"LeaseUnstable"}, 110: {"LeaseUnstable"}, 135: NOTHING},
    ),
    "housekeeping always fails": (
        otherwise(well(), {"dutycycle_alerter_task_failures_total housekeeping": "0x60 1x60 2x60"}),
        {65: NOTHING, 120: NOTHING, 155: {"TaskFailing"}},
    ),
    "housekeeping fails once": (
        otherwise(well(), {"dutycycle_alerter_task_failures_total housekeeping": "0x60 1x60 1x60"}),
        dict.fromkeys((65, 120, 155, 175), NOTHING),
    ),
    "the alerter fails on a job for as long as it runs": (
        otherwise(well(), {'dutycycle_alerter_subject_failures_total instance="a:9837" judge': "0x59 1+1x30 31x90"}),
        {59: NOTHING, 61: {"SubjectFailing"}, 90: {"SubjectFailing"}, 104: {"SubjectFailing"}, 107: NOTHING},
    ),
    "it fails on a report once": (
        otherwise(well(), {'dutycycle_alerter_subject_failures_total instance="a:9837" report': "0x59 1x120"}),
        {59: NOTHING, 61: {"SubjectFailing"}, 73: {"SubjectFailing"}, 76: NOTHING},
    ),
    "it failed, and is restarted": (
        otherwise(well(), {'dutycycle_alerter_subject_failures_total instance="a:9837" judge': "5x59 0x120"}),
        dict.fromkeys(ALL_DAY, NOTHING),
    ),
    # -- Slurm's nodes, by Prometheus itself
    "nodes are not looked for, and then are": (
        well() | targets(STOPS),
        {60: NOTHING, 120: NOTHING, 124: NOTHING, 128: {"DiscoveryStale"}, 160: {"DiscoveryStale"}, 164: NOTHING},
    ),
    "they are looked for by cron, and not any more": (
        well() | targets(STOPS, "/var/lib/prometheus/dutycycle.json"),
        {120: NOTHING, 128: {"DiscoveryStale"}, 164: NOTHING},
    ),
    "nodes are looked for every five minutes": (
        well() | targets(" ".join(f"{300 * n}x4" for n in range(37))),
        dict.fromkeys(ALL_DAY, NOTHING),
    ),
    "slurmctld is away for half an hour": (
        well() | targets("0+60x60 3600x30 5520+60x120"),
        dict.fromkeys((90, 95, 100, 150), NOTHING),
    ),
    "another's targets are old": (
        well() | targets("0x180", "/etc/prometheus/nodes.json") | targets("0x180", "/etc/prometheus/my-dutycycle.json"),
        dict.fromkeys(ALL_DAY, NOTHING),
    ),
    # -- Kubernetes, by kube-state-metrics
    "an exporter's pod finds no room, and then does": (
        well() | {pending("dutycycle-exporter-x7k2p"): "0x9 1x60 0x110"},
        {38: NOTHING, 42: {"PodNotStarted"}, 69: {"PodNotStarted"}, 71: NOTHING},
    ),
    "an alerter waits for its volume": (
        well() | {pending("dutycycle-alerter-6d5f-9xk2p"): "0x9 1x170"},
        {38: NOTHING, 42: {"PodNotStarted"}},
    ),
    "nodes are rebooted one after another": (
        well() | {pending(f"dutycycle-exporter-{i}"): f"0x{10 * i + 1} 1x9 0x100" for i in range(12)},
        dict.fromkeys(ALL_DAY, NOTHING),
    ),
    "another's pod finds no room": (
        well() | {pending("train-0"): steady(1)},
        dict.fromkeys(ALL_DAY, NOTHING),
    ),
    "pods of the exporter may not be made, and then may": (
        well() | daemon_set(wanted="2x180", made="2x59 0x60 2x60"),
        {88: NOTHING, 92: {"PodNotStarted"}, 118: {"PodNotStarted"}, 121: NOTHING},
    ),
    "the DaemonSet is brought up to date": (
        well() | daemon_set(wanted="2x180", made="2x59 1x3 2x3 1x3 2x100"),
        dict.fromkeys((60, 66, 75, 90, 120), NOTHING),
    ),
}
