"""Queries that were written for dcgm-exporter find series on our page, as Prometheus's own engine evaluates them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from tests.exporter.compat.nodes import GPU, JOB, OTHER_POD, POD, Shown, instance, state_of

# Dashboard 12239, with "All" chosen in its variables: the panels, and what the variables are filled from.
DASHBOARD = (
    'max(DCGM_FI_DEV_GPU_TEMP{Hostname=~"$Hostname", gpu=~"$gpu"}) by (Hostname, gpu, uuid)',
    'avg(DCGM_FI_DEV_GPU_TEMP{Hostname=~"$Hostname", gpu=~"$gpu"})',
    'max(DCGM_FI_DEV_POWER_USAGE{Hostname=~"$Hostname", gpu=~"$gpu"}) by (Hostname, gpu, uuid)',
    'sum(max(DCGM_FI_DEV_POWER_USAGE{Hostname=~"$Hostname", gpu=~"$gpu"}) by (gpu))',
    'max(DCGM_FI_DEV_SM_CLOCK{Hostname=~"$Hostname", gpu=~"$gpu"} * 1000000) by (Hostname, UUID, gpu)',
    'max(DCGM_FI_PROF_GR_ENGINE_ACTIVE{Hostname=~"$Hostname", gpu=~"$gpu"}) by (Hostname,gpu,GPU_I_ID,GPU_I_PROFILE)',
    'max(DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{Hostname=~"$Hostname",gpu=~"$gpu"}) by (Hostname,gpu,GPU_I_ID,GPU_I_PROFILE)',
    'max(DCGM_FI_DEV_FB_USED{Hostname=~"$Hostname", gpu=~"$gpu"}) by (Hostname, gpu, GPU_I_ID, GPU_I_PROFILE)',
    'count by (Hostname) (DCGM_FI_DEV_FB_FREE{Hostname!=""})',
    'count by (gpu) (DCGM_FI_DEV_FB_FREE{Hostname=~"$Hostname", gpu!=""})',
)
# Its older revisions picked by the scraped target instead.
OLDER_DASHBOARD = (
    'DCGM_FI_DEV_GPU_TEMP{instance=~"$instance", gpu=~"$gpu"}',
    'sum(DCGM_FI_DEV_POWER_USAGE{instance=~"$instance", gpu=~"$gpu"})',
    'DCGM_FI_DEV_SM_CLOCK{instance=~"$instance", gpu=~"$gpu"} * 1000000',
    'DCGM_FI_DEV_GPU_UTIL{instance=~"$instance", gpu=~"$gpu"}',
    'DCGM_FI_DEV_FB_USED{instance=~"$instance", gpu=~"$gpu"}',
)
# What the GPU operator's recording rules read.
OPERATOR = (
    *("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_MEM_COPY_UTIL", "DCGM_FI_DEV_FB_TOTAL", "DCGM_FI_DEV_POWER_USAGE"),
    *("DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_SM_CLOCK", "DCGM_FI_DEV_MEM_CLOCK"),
)
ALERTS = (
    "DCGM_FI_DEV_XID_ERRORS > 0",
    "DCGM_FI_DEV_ROW_REMAP_FAILURE == 0",
    "DCGM_FI_DEV_FB_USED / (DCGM_FI_DEV_FB_USED + DCGM_FI_DEV_FB_FREE) > 0",
    'DCGM_FI_DEV_GPU_UTIL{pod="train-0", namespace="vision"} > 0',
    'DCGM_FI_DEV_GPU_UTIL{hpc_job="4711"} > 0',
)

SECOND = replace(GPU, uuid="GPU-2", index=1)
SLICED = replace(GPU, utilization=None, memory_activity=None, mig_mode="enabled", activity=None)


@pytest.fixture
def evaluate(tmp_path):
    """Series by query, of (page, queries): how many there are, each by Prometheus's engine."""
    # Beside the interpreter of the virtual environment, where `make test` puts it.
    promtool = shutil.which("promtool", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if promtool is None:
        if os.environ.get("CI") == "true":
            pytest.fail("promtool is missing; CI must evaluate these queries with it")
        pytest.skip("promtool is not installed")

    def run(page, expected):
        series = [line.rpartition(" ") for line in page.splitlines() if not line.startswith("#")]
        tests = [
            {
                "expr": f"sum({query})",
                "eval_time": "1m",
                "exp_samples": [{"labels": "{}", "value": value}],
            }
            for query, value in expected
        ]
        # What Prometheus adds when it scrapes.
        scraped = [
            {"series": re.sub(r"}$", ',instance="n1:9836",job="dutycycle"}', name), "values": f"{value}x1"}
            for name, _, value in series
        ]
        path = tmp_path / "tests.yaml"
        path.write_text(
            yaml.safe_dump({"tests": [{"interval": "1m", "input_series": scraped, "promql_expr_test": tests}]})
        )
        done = subprocess.run(
            [promtool, "test", "rules", str(path)], capture_output=True, text=True, check=False, timeout=120
        )
        assert done.returncode == 0, done.stdout + done.stderr

    return run


def chosen(query):
    """With the dashboard's variables as Grafana fills them in."""
    return query.replace("$Hostname", "n1|n2").replace("$gpu", "0|1").replace("$instance", "n1:9836|n2:9836")


def test_a_node_answers_every_query_once_for_each_gpu(evaluate, tmp_path):
    state = state_of(tmp_path, GPU, SECOND, held=[(GPU, POD), (SECOND, JOB)], xids=[(GPU.uuid, 79, 0.0)])
    once = {'avg(DCGM_FI_DEV_GPU_TEMP{Hostname=~"$Hostname", gpu=~"$gpu"})', DASHBOARD[3], DASHBOARD[8]}
    once |= {OLDER_DASHBOARD[1], ALERTS[0], *ALERTS[3:]}
    queries = (*DASHBOARD, *OLDER_DASHBOARD, *OPERATOR, *ALERTS)
    expected = [(f"count({chosen(query)}) by ()", 1 if query in once else 2) for query in queries]
    expected += [
        (chosen(DASHBOARD[3]), 2 * 431.5),
        (chosen(OLDER_DASHBOARD[1]), 2 * 431.5),
        (chosen(DASHBOARD[8]), 2),
        (ALERTS[0], 79),
    ]
    evaluate(Shown(state).text, expected)


def test_the_power_of_a_shared_gpu_is_not_doubled_by_the_dashboard(evaluate, tmp_path):
    shown = Shown(state_of(tmp_path, GPU, held=[(GPU, POD), (GPU, OTHER_POD)]))
    evaluate(
        shown.text,
        [
            (chosen(DASHBOARD[3]), 431.5),
            # As it is with dcgm-exporter, and as the documentation says.
            (chosen(OLDER_DASHBOARD[1]), 2 * 431.5),
            (chosen(DASHBOARD[7]), 30_000),
        ],
    )


def test_a_mig_node_answers_by_instance(evaluate, tmp_path):
    parts = [instance(number, activity=GPU.activity) for number in (1, 2)]
    shown = Shown(state_of(tmp_path, SLICED, *parts, held=[(parts[0], POD)]))
    by_instance = [chosen(DASHBOARD[place]) for place in (5, 6, 7)]
    of_the_gpu = [chosen(DASHBOARD[place]) for place in (0, 2, 4)]
    evaluate(
        shown.text,
        [
            *((f"count({query})", 2) for query in by_instance),
            *((f"count({query})", 1) for query in of_the_gpu),
            (chosen(DASHBOARD[3]), 431.5),
            (chosen(DASHBOARD[7]), 2 * 1000),
            ("count(DCGM_FI_DEV_GPU_UTIL) or vector(0)", 0),
            ('count(DCGM_FI_DEV_FB_USED{pod="train-0", GPU_I_ID="1", GPU_I_PROFILE="3g.71gb"})', 1),
        ],
    )
