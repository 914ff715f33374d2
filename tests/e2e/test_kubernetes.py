"""From NVML, kubelets and the API server to incidents: pods are judged as the job that they are part of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cluster.slurm import MortalCluster
from tests.e2e.kubernetes_site import SAMPLE_PERIOD, TIMING, KubernetesSite, Part
from tests.e2e.site import Alerter, wait_for
from tests.fakes.cgroup import Use
from tests.fakes.node import FakeNode, Work
from tests.fakes.nvml import IDLE, Level, Libraries, Steps
from tests.postgres.server import PostgresServer
from tests.slurm.exporters import driver_information

TIME_SCALE = 100.0
MINUTE = 60.0
PATIENCE = 120.0
"""Wall seconds that a machine that does much else may need, beside the scenario's own time."""
TO_A_VERDICT = 45 * MINUTE
"""Grace, a window of 30 minutes, and a few passes."""

PYTORCH = "kubeflow.org/v1"
FOREVER = "exec sleep infinity"
LOADING = Work(use=Use(cpu_cores=7.8, io_pressure=0.3))


def incidents(alerter: Alerter) -> list[dict[str, Any]]:
    """Every incident of a job, resolved ones included."""
    assert "Traceback" not in alerter.log(), alerter.log()
    answer = alerter.get("/api/v1/incidents?limit=200")["incidents"]
    return [incident for incident in answer if incident["kind"] == "efficiency"]


@pytest.mark.timeout(600)
def test_pods_of_a_training_run_are_judged_as_one_job(tmp_path: Path, nvml_libraries: Libraries) -> None:
    """One of eight held back by its loader: one incident that names the pod. Seven of eight idle: one, not seven."""
    with KubernetesSite(tmp_path, nvml_libraries, TIME_SCALE) as cluster:
        cluster.add_node("gpu-a")
        cluster.add_node("gpu-b")
        slow = Part("bert-worker-3", Steps(2.0, 0.3), LOADING)
        quick = [Part(f"bert-worker-{i}", Level(0.90 + 0.01 * i)) for i in (0, 1, 2, 4, 5, 6, 7)]
        cluster.run("PyTorchJob", "bert", "gpu-a", [*quick[:3], slow, *quick[3:]], api_version=PYTORCH, user="ada")
        idle = [Part(f"vit-worker-{i}", IDLE) for i in range(1, 8)]
        works = Part("vit-worker-0", Level(0.9))
        cluster.run("PyTorchJob", "vit", "gpu-b", [works, *idle], api_version=PYTORCH, user="ben")
        cluster.start()
        alerter = cluster.site.alerter(cluster.settings()).start()

        within = PATIENCE + TO_A_VERDICT / TIME_SCALE
        wait_for(lambda: len(incidents(alerter)) >= 2, "two incidents", within=within)
        # Whatever else there is to be said is said within the next passes.
        cluster.site.sleep(10 * MINUTE)
        found = {incident["user"]: incident for incident in incidents(alerter)}
        assert len(found) == len(incidents(alerter)) == 2, incidents(alerter)

        uneven, partly = found["ada"], found["ben"]
        assert (uneven["rule"], uneven["job_gpus"], uneven["namespace"]) == ("uneven", 8, "ml"), uneven
        assert (uneven["scheduler"], "bert" in uneven["subject"]) == ("k8s", True)
        assert {gpu["workload"].split("/")[2] for gpu in uneven["gpus"]} == {"bert-worker-3"}
        assert "bert-worker-3" in " ".join(uneven["diagnosis"]["evidence"])
        assert (partly["rule"], partly["job_gpus"], len(partly["gpus"])) == ("partially_idle", 8, 7), partly
        assert {gpu["workload"].split("/")[2] for gpu in partly["gpus"]} == {part.name for part in idle}
        assert {incident["state"] for incident in (uneven, partly)} == {"open"}


@pytest.mark.timeout(600)
def test_a_slurm_job_and_a_kubernetes_job_idle_at_once(
    tmp_path: Path,
    nvml_libraries: Libraries,
    mortal_cluster: MortalCluster,
    postgres: PostgresServer,
    postgres_url: str,
) -> None:
    """Real Slurm, exporters, alerter and PostgreSQL: two incidents, two owners, one store. Slurm is beside Kubernetes,
    and on one node inside it.
    """
    with KubernetesSite(tmp_path, nvml_libraries, TIME_SCALE) as cluster:
        cluster.add_node("gpu-a", 2)
        n1 = cluster.site.add_node(
            "n1",
            options=(f"--slurm.prolog-dir={mortal_cluster.node_directory('n1') / 'prolog'}", *TIMING),
            capacity=1000,
            sample_period=SAMPLE_PERIOD,
        )
        tell_slurm_of(n1, mortal_cluster, "n1")
        # A third node is Kubernetes', all of it a pod's in which Slurm's n2 is.
        n2 = cluster.add_node("gpu-b", 8, f"--slurm.prolog-dir={mortal_cluster.node_directory('n2') / 'prolog'}")
        tell_slurm_of(n2, mortal_cluster, "n2")
        slurmd = cluster.run_slurmd("n2", "gpu-b")
        hosts = f"9 8 0:1 /var/lib/kubelet/pods/{slurmd}/etc-hosts /etc/hosts rw - ext4 /dev/root rw"
        (mortal_cluster.node_directory("n2") / "mountinfo").write_text(f"{hosts}\n")
        cluster.run("Job", "evaluate", "gpu-a", [Part("evaluate-x7x2p", IDLE)], api_version="batch/v1", user="ada")
        cluster.start()
        settings = cluster.settings()
        settings["slurm"] = {
            "url": f"http://127.0.0.1:{mortal_cluster.rest_port}",
            "user": "root",
            "token": mortal_cluster.token("root"),
        }
        settings["database"] = postgres_url
        alerter = cluster.site.alerter(settings).start()
        job = mortal_cluster.submit("games", "-w", "n1", "--gres=gpu:1", script=FOREVER)
        busy = mortal_cluster.submit("mail", "-w", "n2", "--gres=gpu:1", script=FOREVER)
        n2.slurm_job(busy, {0: Level(0.95)}, pod=slurmd)

        within = PATIENCE + TO_A_VERDICT / TIME_SCALE
        wait_for(lambda: len(incidents(alerter)) >= 2, "two incidents", within=within)
        cluster.site.sleep(5 * MINUTE)
        told = {
            (one["scheduler"], one["user"], one["rule"], one["job_gpus"], one["state"]): one["subject"]
            for one in incidents(alerter)
        }
        assert told.keys() == {("slurm", "games", "idle", 1, "open"), ("k8s", "ada", "idle", 1, "open")}
        assert told["slurm", "games", "idle", 1, "open"] == f"slurm/{job}"
        assert "evaluate" in told["k8s", "ada", "idle", 1, "open"]

        # The pod that is a Slurm node is nobody's job, idle as it is; its GPU that Slurm gave away is the job's alone.
        gpus = [gpu for gpu in alerter.get("/api/v1/gpus")["gpus"] if gpu["node"] == "gpu-b"]
        holders = {gpu["index"]: [(one["workload"], one["share"]) for one in gpu["workloads"]] for gpu in gpus}
        pod = f"k8s/slurm/n2/{slurmd}"
        assert holders == {"0": [(f"slurm/{busy}", 1)], **{str(index): [(pod, 1)] for index in range(1, 8)}}

        # Each ends by its own scheduler's word; both are rows of the one store.
        mortal_cluster.cancel(str(job))
        cluster.server.patch("Pod", "ml", "evaluate-x7x2p", {"status": {"phase": "Succeeded"}})
        wait_for(
            lambda: {one["resolution"] for one in incidents(alerter)} == {"ended"}, "both have ended", within=PATIENCE
        )
        name = postgres_url.rpartition("/")[2]
        statement = "SELECT scheduler FROM incident WHERE kind = 'efficiency' ORDER BY scheduler"
        kept = postgres.execute(statement, database=name)
        assert [row[0] for row in kept] == ["k8s", "slurm"]


def tell_slurm_of(machine: FakeNode, slurm: MortalCluster, name: str) -> None:
    """The driver's files about a machine's GPUs, where the prolog of one of Slurm's nodes looks for them."""
    for minor, gpu in enumerate(machine.driver.gpus):
        entry = slurm.node_directory(name) / "gpus" / gpu.bus_id
        entry.mkdir(parents=True)
        (entry / "information").write_text(driver_information(gpu.uuid, gpu.bus_id, minor))
