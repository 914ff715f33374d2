"""The alerter on dcgm-exporter's metrics, in a real Prometheus: owners, what is measured, what is not, Slurm's word."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dutycycle_alerter.model import Evidence, Gpu, Job, JobEvidence
from dutycycle_alerter.rules import Outcome, judge
from dutycycle_alerter.settings import Settings
from dutycycle_alerter.sources.claims import Claims, Held, Holders, Holding
from dutycycle_alerter.sources.prometheus import PrometheusSource
from dutycycle_alerter.store.database import open_database, set_meta
from dutycycle_alerter.store.status import WATERMARK
from tests.prometheus.server import PrometheusServer
from tests.required import lacking

START, INTERVAL, MINUTES = 1_700_000_400.0, 60, 150
AT = START + INTERVAL * MINUTES
HANDOVER = MINUTES - 5
"""The last minute of job 80, before job 81 has its GPU."""
MIB = 2.0**20
POD = 'namespace="ml",pod="train-0"'
EXPORTED = 'exported_namespace="ml",exported_pod="serve-0",namespace="gpu-operator",pod="dcgm-exporter-x1"'


def gpu(index: int, owner: str, util: float, node: str = "n1", **more: float) -> list[tuple[str, float, float]]:
    """Series with their value and how much they grow each minute."""
    owner = f",{owner}" if owner else ""
    where = f'{{gpu="{index}",UUID="GPU-{index}",Hostname="{node}",modelName="NVIDIA H100"{owner}}}'
    return [
        (f"DCGM_FI_DEV_GPU_UTIL{where}", util, 0),
        (f"DCGM_FI_DEV_FB_USED{where}", more.get("used", 1000), 0),
        (f"DCGM_FI_DEV_FB_FREE{where}", 81_000 - more.get("used", 1000), 0),
        (f"DCGM_FI_DEV_POWER_USAGE{where}", 300, 0),
        (f"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{where}", 0, 300 * 1000 * INTERVAL),
        (f"DCGM_FI_DEV_ROW_REMAP_FAILURE{where}", more.get("remap", 0), 0),
        (f"DCGM_FI_PROF_SM_ACTIVE{where}", util / 400, 0),
        (f"DCGM_FI_PROF_PCIE_TX_BYTES{where}", 1e6, 0),
        (f"DCGM_FI_PROF_PCIE_RX_BYTES{where}", 2e6, 0),
    ]


def instance(index: int, owner: str, active: float) -> list[tuple[str, float, float]]:
    where = f'{{gpu="{index}",UUID="GPU-{index}",GPU_I_ID="1",Hostname="n1",modelName="NVIDIA H100",{owner}}}'
    return [
        (f"DCGM_FI_DEV_GPU_UTIL{where}", 0, 0),
        (f"DCGM_FI_PROF_GR_ENGINE_ACTIVE{where}", active, 0),
        (f"DCGM_FI_DEV_FB_USED{where}", 500, 0),
        (f"DCGM_FI_DEV_ROW_REMAP_FAILURE{where}", 0, 0),
    ]


def openmetrics() -> str:
    series = [
        *gpu(0, 'hpc_job="77"', 50),
        *gpu(1, POD, 0),
        *gpu(2, "", 25),
        *gpu(3, 'hpc_job="77"', 0.04, remap=1),
        *gpu(4, EXPORTED, 90),
        *instance(5, 'hpc_job="78_3"', 0.4),
        *gpu(6, "", 0),
        *gpu(7, 'namespace="ml",pod="half-0"', 60),
        *gpu(7, 'namespace="ml",pod="half-1"', 60),
        *gpu(10, 'hpc_job="80"', 60),
        *gpu(10, 'hpc_job="81"', 30),
        *gpu(8, "", 25, "n2"),
        *gpu(9, "", 50, "n2"),
    ]
    lines = [
        f"{name} {value + step * minute} {START + INTERVAL * minute}"
        for name, value, step in sorted(series)
        for minute in range(MINUTES + 1)
        if ('hpc_job="81"' if minute <= HANDOVER else 'hpc_job="80"') not in name
    ]
    xid = 'DCGM_FI_DEV_XID_ERRORS{gpu="2",UUID="GPU-2",Hostname="n1",err_code="79",err_msg="fallen off"} 79'
    lines += [f"{xid} {AT - INTERVAL * minute}" for minute in range(10, -1, -1)]
    return "\n".join([*lines, "# EOF"]) + "\n"


FIELD = Path(__file__).parents[4] / "../shared/data/field/dcgm-outlier.om.gz"
"""Jobs 1 to 3 hold an idle GPU each; two of them have a few impossible samples of utilization."""


@contextmanager
def read(directory: Path, text: str) -> Iterator[Evidence]:
    with PrometheusServer(directory / "prometheus", openmetrics=text) as server:
        section = {"url": server.url, "scrape_interval": INTERVAL, "metrics": "dcgm"}
        settings = Settings.model_validate({"prometheus": section, "database": f"sqlite:///{directory}/a.sqlite3"})
        database = open_database(settings.database)
        with database.write() as connection:
            set_meta(connection, WATERMARK, AT - 600)
        source = PrometheusSource(settings.scaled(), database)
        with source.evidence(AT) as found:
            assert source.targets()[0].error == ""
            yield found
        source.close()
        database.close()


@pytest.fixture(scope="module")
def evidence(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Evidence]:
    with read(tmp_path_factory.mktemp("dcgm"), openmetrics()) as found:
        yield found


def written(series: list[tuple[str, float, float]], blanks: tuple[float, ...] = ()) -> str:
    """Each series each minute; GPU 0 has one of the blanks at every second minute from the end backwards."""
    lines = []
    for name, value, step in sorted(series):
        # Two billion bytes a second are possible, and 2,619 watts or MiB.
        least = 1e13 if "BYTES" in name else 0 if "UTIL" in name or "SM_ACTIVE" in name else 1e9
        wrong = {2 * place: blank for place, blank in enumerate(blanks) if 'gpu="0"' in name and blank >= least}
        for minute in range(MINUTES + 1):
            sample = wrong.get(MINUTES - minute, value + step * minute)
            lines.append(f"{name} {sample} {START + INTERVAL * minute}")
    return "\n".join([*lines, "# EOF"]) + "\n"


def job(evidence: Evidence, wanted: str) -> JobEvidence:
    return next(item for item in [*evidence.jobs, *evidence.unowned] if item.job.id == wanted)


def about(value: float) -> object:
    return pytest.approx(value, rel=0.08)


def test_owners_are_jobs_of_slurm_and_pods_and_never_the_exporters_own_pod(evidence: Evidence) -> None:
    assert {(item.job.id, item.job.scheduler) for item in evidence.jobs} == {
        ("slurm/77", "slurm"),
        ("slurm/78_3", "slurm"),
        ("slurm/80", "slurm"),
        ("slurm/81", "slurm"),
        ("k8s/ml/train-0", "k8s"),
        ("k8s/ml/serve-0", "k8s"),
        ("k8s/ml/half-0", "k8s"),
        ("k8s/ml/half-1", "k8s"),
    }
    assert job(evidence, "slurm/77").job.job_id == "77"
    assert (job(evidence, "k8s/ml/serve-0").job.namespace, job(evidence, "k8s/ml/serve-0").job.pod) == ("ml", "serve-0")
    assert [gpu.label for gpu in job(evidence, "slurm/77").job.gpus] == ["n1:0", "n1:3"]
    assert job(evidence, "slurm/77").job.gpus[0] == Gpu("n1", "0", "GPU-0", "", "NVIDIA H100")


def test_what_is_measured(evidence: Evidence) -> None:
    first, second = job(evidence, "slurm/77").window(900).gpus
    assert (first.observed, first.utilization) == (about(900), about(0.5))
    assert second.utilization == about(0.0004)
    assert (first.energy, first.sm, first.link_bytes) == (about(300 * 900), about(900 / 8), about(3e6 * 900))
    assert first.memory_total == 81_000 * MIB
    assert job(evidence, "slurm/77").window(1800).gpus[0].memory_used == 1000 * MIB
    assert job(evidence, "slurm/77").watched_from == AT - 7200


def test_a_mig_instance_is_as_busy_as_its_engine_and_not_idle(evidence: Evidence) -> None:
    (usage,) = job(evidence, "slurm/78_3").window(1800).gpus
    assert usage.utilization == about(0.4)


def test_idle_pods_are_found_and_rules_without_evidence_are_not_evaluable(evidence: Evidence) -> None:
    judging = Settings().judging
    assert judge(job(evidence, "k8s/ml/train-0"), judging).verdict("idle").outcome is Outcome.FIRING
    verdict = judge(job(evidence, "slurm/78_3"), judging).verdict("stalled")
    assert verdict.outcome is Outcome.NOT_EVALUABLE
    assert "measured" in verdict.reason


def test_gpus_are_as_dcgm_says(evidence: Evidence) -> None:
    gpus = {item.gpu.index: item for item in evidence.gpus}
    assert (gpus["3"].remap_failed, gpus["0"].remap_failed) == (True, False)
    assert gpus["2"].xids == {79: pytest.approx(AT - 600, abs=61)}
    assert gpus["2"].jobs == ()
    assert gpus["0"].jobs == ("slurm/77",)
    assert [(node.node, node.expected) for node in evidence.nodes] == [("n1", None), ("n2", None)]


def test_what_was_consumed_since_the_last_pass(evidence: Evidence) -> None:
    parts = job(evidence, "slurm/77").recent
    assert evidence.accounted_until == AT - 120
    assert sum(part.allocated for part in parts) == about(2 * 480)
    assert sum(part.busy for part in parts) == about(240.2)
    assert sum(part.energy or 0 for part in parts) == about(2 * 480 * 300)


def test_what_two_hold_together_counts_once(evidence: Evidence) -> None:
    for name in ("k8s/ml/half-0", "k8s/ml/half-1"):
        parts = job(evidence, name).recent
        assert sum(part.allocated for part in parts) == about(240)
        assert sum(part.busy for part in parts) == about(144)
        assert sum(part.energy or 0 for part in parts) == about(240 * 300)


def test_holders_that_follow_one_another_have_the_whole_of_their_time(evidence: Evidence) -> None:
    before, after = (job(evidence, name).recent for name in ("slurm/80", "slurm/81"))
    assert sum(part.allocated for part in (*before, *after)) == about(480)
    assert (sum(part.busy for part in before), sum(part.busy for part in after)) == (about(180), about(54))


def test_slurm_tells_whose_the_others_are(evidence: Evidence) -> None:
    """Who holds a whole node; what its GPUs did before the job is not the job's. Not on a node with MIG instances."""
    whole = Holding(Job("slurm/99", (), AT - 3600, user="carol"), {"n2": Held(2, 2)})
    divided = Holding(Job("slurm/98", (), AT - 3600), {"n1": Held(2, 7, ("2", "6"))})
    told = Holding(Job("slurm/77", (), AT - 3600), {"n1": Held(2, 7)})
    found = Claims().made(evidence, Holders([whole, divided, told], {}, {"n1", "n2"}))
    mine = job(found, "slurm/99")
    assert ([gpu.uuid for gpu in mine.job.gpus], mine.job.user) == (["GPU-8", "GPU-9"], "carol")
    assert mine.watched_from == AT - 3600
    assert mine.window(1800).gpus[0].utilization == about(0.25)
    assert sum(part.busy for part in mine.recent) == about(360)
    assert [item.jobs for item in found.gpus if item.gpu.node == "n2"] == [("slurm/99",), ("slurm/99",)]
    assert len([item for item in found.jobs if item.job.id == "slurm/77"]) == 1
    assert [item.job.gpus[0].index for item in found.unowned] == ["2", "6"]
    assert "slurm/98" not in {item.job.id for item in found.jobs}


def test_impossible_samples_were_not_measured(tmp_path: Path) -> None:
    text = written(
        [*gpu(0, 'hpc_job="77"', 50), *gpu(1, 'hpc_job="78"', 50)],
        (2.0**31 - 16, 2.0**47, 2.0**63 - 16, 2.0**32 - 1, 2619),
    )
    with read(tmp_path, text) as found:
        wrong, right = (job(found, name) for name in ("slurm/77", "slurm/78"))
    for window, dropped in ((900, 5), (1800, 5)):
        (bad,), (good,) = wrong.window(window).gpus, right.window(window).gpus
        assert good.observed - bad.observed == dropped * INTERVAL
        assert (bad.utilization, good.utilization) == (about(0.5), about(0.5))
        assert bad.energy is None
        assert (good.sm or 0) / good.observed == pytest.approx((bad.sm or 0) / bad.observed) == 0.125
        assert (bad.memory_used, bad.link_bytes) == (good.memory_used, good.link_bytes)
    assert right.window(900).gpus[0].link_bytes == about(3e6 * 900)
    assert right.window(1800).gpus[0].memory_used == 1000 * MIB
    assert sum(part.energy or 0 for part in wrong.recent) == about(480 * 300)
    assert {item.gpu.index: (item.remap_failed, item.memory_total) for item in found.gpus} == {
        "0": (None, None),
        "1": (None, 81_000 * MIB),
    }


def test_mig_instances_that_read_0_while_the_gpu_draws_power_are_unknown(tmp_path: Path) -> None:
    def mig(index: int, watts: float, *active: float, limit: float = 2.0**47) -> list[tuple[str, float, float]]:
        where = f'{{gpu="{index}",UUID="GPU-{index}",Hostname="n1",modelName="NVIDIA H100"}}'
        instances = [instance(index, f'hpc_job="{index}{n}"', ratio) for n, ratio in enumerate(active)]
        numbered = [
            (name.replace('GPU_I_ID="1"', f'GPU_I_ID="{n}"'), value, step)
            for n, series in enumerate(instances)
            for name, value, step in series
        ]
        limited = (f"DCGM_FI_DEV_ENFORCED_POWER_LIMIT{where}", limit, 0)
        return [(f"DCGM_FI_DEV_POWER_USAGE{where}", watts, 0), limited, *numbered]

    text = written(
        [
            *mig(1, 390, 0, 0),
            *mig(2, 75, 0),
            *mig(3, 390, 0, 0.9),
            *mig(4, 250, 0, limit=1000),
            *mig(5, 100, 0, limit=165),
        ]
    )
    with read(tmp_path, text) as found:
        outcomes = {item.job.id: judge(item, Settings().judging).verdict("idle").outcome for item in found.jobs}
        accounted = {item.job.id: sum(part.observed for part in item.recent) for item in found.jobs}
    assert outcomes == {
        "slurm/10": Outcome.UNKNOWN,
        "slurm/11": Outcome.UNKNOWN,
        "slurm/20": Outcome.FIRING,
        "slurm/30": Outcome.FIRING,
        "slurm/31": Outcome.CLEAR,
        "slurm/40": Outcome.FIRING,
        "slurm/50": Outcome.UNKNOWN,
    }
    assert [accounted[f"slurm/{name}"] for name in (10, 20, 30)] == [0, about(480), about(480)]


def test_idle_jobs_with_impossible_samples_stay_idle(tmp_path: Path) -> None:
    if not FIELD.exists():
        lacking("the field's samples beside the repository (../shared/data)")
    with read(tmp_path, gzip.decompress(FIELD.read_bytes()).decode()) as found:
        verdicts = {item.job.id: judge(item, Settings().judging).verdict("idle").outcome for item in found.jobs}
        usages = {item.job.id: item.window(1800).gpus[0] for item in found.jobs}
    assert verdicts == {f"slurm/{number}": Outcome.FIRING for number in (1, 2, 3)}
    assert {usage.utilization for usage in usages.values()} == {0}
    assert min(usage.observed for usage in usages.values()) == max(usage.observed for usage in usages.values()) - 60
