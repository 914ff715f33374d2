"""What exporters and alerters say while all is well, as promtool's series, and with parts of it said otherwise."""

from __future__ import annotations

import re
from collections.abc import Mapping

MINUTES = 180

EXPORTER = "dutycycle/dutycycle-exporter"
ALERTER = "dutycycle/dutycycle-alerter"

Series = dict[str, str]
"""By name and labels: values in promtool's notation, one a minute."""


def _pass_at(minute: float) -> str:
    """When the last pass was, from that minute on: one a minute."""
    return f"{60 * minute - 20:.0f}+60x{MINUTES}"


LAST_PASS = _pass_at(0)


def steady(value: float) -> str:
    """The same from beginning to end."""
    return f"{value}x{MINUTES}"


def exporter(node: str, *, job: str = EXPORTER, gpus: int = 8) -> Series:
    """One that was there before the beginning."""
    at = f'job="{job}",instance="{node}:9836"'
    return {
        f"up{{{at}}}": steady(1),
        f'dutycycle_exporter_build_info{{{at},version="1.2"}}': steady(1),
        f'gpu_expected{{{at},node="{node}"}}': steady(gpus),
        f'gpu_visible{{{at},node="{node}"}}': steady(gpus),
        **{
            f'dutycycle_exporter_{name}{{{at},collector="{collector}"}}': steady(value)
            for collector in ("nvml", "attribution")
            for name, value in (("collector_success", 1), ("collector_age_seconds", 3))
        },
        # Nothing was to be asked for hours, and what was asked last was answered.
        f'dutycycle_exporter_collector_success{{{at},collector="kubernetes_api"}}': steady(1),
        f'dutycycle_exporter_collector_age_seconds{{{at},collector="kubernetes_api"}}': f"3+60x{MINUTES}",
        **{
            f'dutycycle_exporter_child_restarts_total{{{at},reason="{reason}"}}': steady(1)
            for reason in ("hang", "gpu_lost", "released", "reload")
        },
        f'dutycycle_exporter_attribution_failures_total{{{at},source="slurm",reason="earlier_pod"}}': f"0+12x{MINUTES}",
        f'dutycycle_exporter_attribution_failures_total{{{at},source="process",reason="gone"}}': f"0+1x{MINUTES}",
        f"dutycycle_exporter_config_last_reload_successful{{{at}}}": steady(1),
    }


def alerter(name: str, *, leads: bool) -> Series:
    """One of two on the same database."""
    at = f'job="{ALERTER}",instance="{name}:9837"'
    own = {
        f"up{{{at}}}": steady(1),
        f'dutycycle_alerter_build_info{{{at},version="1.2"}}': steady(1),
        f"dutycycle_alerter_leader{{{at}}}": steady(1 if leads else 0),
        f"dutycycle_alerter_leases_lost_total{{{at}}}": steady(0),
        f"dutycycle_alerter_store_up{{{at}}}": steady(1),
        # Each shows what the database has.
        f"dutycycle_alerter_last_pass_timestamp_seconds{{{at}}}": LAST_PASS,
        f'dutycycle_alerter_source_up{{{at},source="http://prometheus:9090"}}': steady(1),
        f'dutycycle_alerter_source_up{{{at},source="slurm"}}': steady(1),
        f'dutycycle_outbox_oldest_seconds{{{at},receiver="mail"}}': steady(0),
        f'dutycycle_alerter_task_runs_total{{{at},task="lease"}}': f"0+4x{MINUTES}",
        f'dutycycle_alerter_task_failures_total{{{at},task="lease"}}': steady(0),
        **{
            f'dutycycle_alerter_subject_failures_total{{{at},step="{step}"}}': steady(0)
            for step in ("judge", "incident", "report")
        },
    }
    if not leads:
        return own
    return own | {
        f'dutycycle_receiver_failing_seconds{{{at},receiver="mail"}}': steady(0),
        f'dutycycle_alerter_task_runs_total{{{at},task="pass"}}': f"0+1x{MINUTES}",
        f'dutycycle_alerter_task_failures_total{{{at},task="pass"}}': steady(0),
        f'dutycycle_alerter_task_runs_total{{{at},task="housekeeping"}}': "0x60 1x60 2x60",
        f'dutycycle_alerter_task_failures_total{{{at},task="housekeeping"}}': steady(0),
    }


def well() -> Series:
    """Two nodes, and two alerters of which one evaluates."""
    return exporter("n1") | exporter("n2") | alerter("a", leads=True) | alerter("b", leads=False)


def until(series: Series, minute: int) -> Series:
    """Those of a target that is gone from then on."""
    return {name: re.sub(r"x\d+$", f"x{minute - 1} stale", values) for name, values in series.items()}


def since(series: Series, minute: int) -> Series:
    """Those of a target that is there from then on. What is a time is shifted, too."""
    return {name: f"_x{minute} {values.replace(LAST_PASS, _pass_at(minute))}" for name, values in series.items()}


def otherwise(series: Series, changes: Mapping[str, str | None]) -> Series:
    """With other values where a series has all parts of a key (blanks between them); None: they are not there.

    A key that no series has is a mistake in the test.
    """
    changed = dict(series)
    for key, values in changes.items():
        found = [name for name in series if _has(name, key)]
        assert found, key
        for name in found:
            if values is None:
                changed.pop(name, None)
            else:
                changed[name] = values
    return changed


def _has(name: str, key: str) -> bool:
    metric, *parts = key.split()
    return name.split("{", maxsplit=1)[0] == metric and all(part in name for part in parts)
