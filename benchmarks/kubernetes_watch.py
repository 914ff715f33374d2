"""What watching a large Kubernetes cluster costs: how far the table lags behind, CPU, memory, and starting again.

    python benchmarks/kubernetes_watch.py        # 5,000 pods of 625 jobs, 50 changes a second for 20 s, twice
    python benchmarks/kubernetes_watch.py --others 15000        # beside pods without GPUs, which change as often each

The API server is the tests', a process of its own on this machine; a change's time is what it wrote into the pod just
before. Pods are of the size that real ones have, with managed fields. Load of the machine and the server's own time are
in the lag.
"""

from __future__ import annotations

import argparse
import gc
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import results
from benchmarks.interruptible import run_until_interrupted
from benchmarks.results import Row, versions

TARGET = 1.0
"""Seconds."""
OF_A_JOB = 8


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    results.arguments(parser)
    parser.add_argument("--pods", type=int, help="(5,000)")
    parser.add_argument("--others", type=int, default=0, help="pods without GPUs beside them")
    parser.add_argument("--rate", type=float, default=50.0)
    parser.add_argument("--seconds", type=float, help="(20)")
    asked = parser.parse_args()
    asked.pods = asked.pods or (500 if asked.quick else 5000)
    asked.seconds = asked.seconds or (5.0 if asked.quick else 20.0)
    told = {"a process that does nothing": f"{_resident():.1f} MB"}
    began = time.perf_counter()
    from dutycycle_alerter.kubernetes.cluster import Cluster  # noqa: PLC0415 - what it costs to load
    from dutycycle_alerter.settings.kubernetes import KubernetesCluster  # noqa: PLC0415

    told["our own modules"] = f"{_resident():.1f} MB, {1000 * (time.perf_counter() - began):.0f} ms"
    began = time.perf_counter()
    import dutycycle_alerter.kubernetes.access  # noqa: F401, PLC0415

    loaded = _resident()
    told["and the official client"] = (
        f"{loaded:.1f} MB, {1000 * (time.perf_counter() - began):.0f} ms; alone, in a process of its own,"
        f" {_alone():.1f} MB more than nothing"
    )

    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    server = context.Process(target=serve, args=(there, asked.pods, asked.others))
    server.start()
    try:
        url, size = here.recv()
        with tempfile.TemporaryDirectory() as folder:
            settings = KubernetesCluster(kubeconfig=_kubeconfig(Path(folder), url), nodes=False)
            cluster = Cluster(settings)
            began, used = time.perf_counter(), time.process_time()
            cluster.start()
            while not cluster.snapshot().fresh:
                time.sleep(0.01)
            listed, cpu = time.perf_counter() - began, time.process_time() - used
            told["listed"] = f"within {listed:.2f} s, {cpu:.2f} s of CPU"
            if not cluster.wait_synced(600):
                sys.exit("the owners were not found within 10 minutes")
            owners, known = time.perf_counter() - began, _resident()
            each = (known - loaded) * 1000 / asked.pods
            told["all owners"] = f"after {owners:.1f} s; {known:.1f} MB in all, {each:.1f} kB a pod"
            told["changes while nobody looks"] = quietly(cluster, here, asked.rate, asked.seconds)
            lags = watched(cluster, here, asked.rate, asked.seconds, asked.pods)
            told["how old a change is when the snapshot has it, p50, p90, p99, worst"] = shown(lags)
            told["the watch expires: listed anew and fresh"] = relisted(cluster, here)
            cluster.close()
    finally:
        here.send(None)
        server.join()
    what = (
        f"the watch of {asked.pods:,} GPU pods of {size / 1000:.1f} kB beside {asked.others:,} others,"
        f" {asked.rate:g} changes of them a second for {asked.seconds:g} s, the tests' API server on the same machine"
    )
    parts = versions("kubernetes", "urllib3", "msgspec")
    results.report([Row(f"{what}: {name}", figure, versions=parts) for name, figure in told.items()], asked)


def quietly(cluster: Any, server: Connection, rate: float, seconds: float) -> str:
    """Changes while nobody looks: what the watch alone takes."""
    events, used = cluster.counters().events, time.process_time()
    server.send(("change", rate, seconds))
    server.recv()
    cpu, told = time.process_time() - used, cluster.counters().events - events
    share, each = 100 * cpu / seconds, 1e6 * cpu / told
    return f"{told / seconds:.0f} a second, all in all: {share:.2f} % of a core, {each:.0f} us each"


def watched(cluster: Any, server: Connection, rate: float, seconds: float, pods: int) -> list[float]:
    """Changes while the snapshot is looked at all the time: how old each is when it is first seen there."""
    lags: list[float] = []
    server.send(("change", rate, seconds))
    seen = {uid: pod.labels.get("at") for uid, pod in cluster.snapshot().pods.items()}
    number, wanted = 0, int(rate * seconds)
    while number < wanted:
        uid = f"uid-{number % pods}"
        at = cluster.snapshot().pods[uid].labels.get("at")
        if at == seen[uid]:
            time.sleep(0.002)
            continue
        lags.append(time.time() - float(at))
        seen[uid] = at
        number += 1
    server.recv()
    return sorted(lags)


def shown(lags: list[float]) -> str:
    """Of sorted lags in seconds."""
    told = ", ".join(f"{1000 * lags[int(len(lags) * part) - 1]:.1f}" for part in (0.5, 0.9, 0.99, 1.0))
    met = "met" if lags[-1] < TARGET else "**not met**"
    return f"{told} ms of {len(lags):,}, mean {1000 * statistics.mean(lags):.1f} (target {TARGET:g} s: {met})"


def relisted(cluster: Any, server: Connection) -> str:
    """The watch expires: all is listed anew."""
    relists, used, began = cluster.counters().relists, time.process_time(), time.perf_counter()
    server.send(("expire",))
    server.recv()
    while cluster.counters().relists == relists or not cluster.snapshot().fresh:
        time.sleep(0.01)
    taken, cpu = time.perf_counter() - began, time.process_time() - used
    return f"after {taken:.2f} s, {cpu:.2f} s of CPU; at most {_peak():.1f} MB"


def serve(client: Connection, pods: int, others: int) -> None:
    """The API server's process: does what it is told, and says when it is done."""
    from tests.fakes.kubernetes import KubernetesServer, builders  # noqa: PLC0415 - of the other process

    with KubernetesServer() as server:
        size = 0
        for job in range((pods + OF_A_JOB - 1) // OF_A_JOB):
            made = server.put(builders.workload("Job", f"job-{job}", uid=f"job-{job}"))
            for number in range(job * OF_A_JOB, min(pods, (job + 1) * OF_A_JOB)):
                content = pod(number, builders.owner(made))
                size += len(json.dumps(content, separators=(",", ":")))
                server.put(content)
        for number in range(others):
            server.put(pod(number, None))
        # The server's own garbage collection of so many objects would take seconds of a change's lag.
        gc.freeze()
        client.send((server.url, size / pods))
        step = 0
        while (told := client.recv()) is not None:
            if told[0] == "expire":
                server.compact()
                server.inject("expire", path="/pods$", times=1)
                server.patch("Pod", "ml", "train-0", {"metadata": {"labels": {"at": repr(time.time())}}})
            else:
                change(server, pods, others, *told[1:])
            client.send(step)


def change(server: Any, pods: int, others: int, rate: float, seconds: float) -> None:
    began, other = time.perf_counter(), 0
    for step in range(int(rate * seconds)):
        time.sleep(max(0.0, began + step / rate - time.perf_counter()))
        while others and other < (step + 1) * others / pods:
            labels = {"labels": {"at": repr(time.time())}}
            server.patch("Pod", "ml", f"web-{other % others}", {"metadata": labels})
            other += 1
        labels = {"labels": {"at": repr(time.time())}}
        server.patch("Pod", "ml", f"train-{step % pods}", {"metadata": labels})
    time.sleep(max(0.0, began + seconds - time.perf_counter()))


def pod(number: int, owner: dict[str, Any] | None) -> dict[str, Any]:
    """One as operators make them: half of it is managed fields, the rest environment, volumes and states. Without an
    owner it is one without GPUs.
    """
    from tests.fakes.kubernetes import builders  # noqa: PLC0415

    kind, job = ("train", owner) if owner is not None else ("web", {"name": "web", "uid": "web"})
    content = builders.pod(
        f"{kind}-{number}",
        uid=f"uid-{number}" if owner is not None else f"web-{number}",
        gpus=1 if owner is not None else 0,
        owners=(owner,) if owner is not None else (),
        labels={
            "batch.kubernetes.io/job-name": job["name"],
            "batch.kubernetes.io/controller-uid": job["uid"],
            "job-name": job["name"],
            "team": f"team-{number % 7}",
        },
        annotations={"dutycycle.io/user": f"user-{number % 40}", "cni/status": "x" * 400},
    )
    main = content["spec"]["containers"][0]
    main["env"] = [{"name": f"VARIABLE_{index}", "value": f"value-{index}"} for index in range(25)]
    main["volumeMounts"] = [{"name": f"data-{index}", "mountPath": f"/data/{index}"} for index in range(5)]
    fields = {f"f:field-{index}": {".": {}, f"f:part-{index}": {}} for index in range(60)}
    content["metadata"]["managedFields"] = [
        {"manager": manager, "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": fields}
        for manager in ("kube-controller-manager", "kubelet")
    ]
    return content


def _kubeconfig(folder: Path, url: str) -> Path:
    path = folder / "kubeconfig"
    content = {
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": {"token": "admin"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path.write_text(json.dumps(content))
    return path


def _alone() -> float:
    """MB that the official client's configuration and transport take of a process that has nothing else."""
    code = (
        "import os\nfrom pathlib import Path\n"
        "now = lambda: int(Path('/proc/self/statm').read_text().split()[1]) * os.sysconf('SC_PAGESIZE') / 1e6\n"
        "before = now()\nimport kubernetes.client, kubernetes.config\nprint(now() - before)"
    )
    return float(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout)


def _resident() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") / 1e6


def _peak() -> float:
    found = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(found.split()[1]) * 1024 / 1e6


if __name__ == "__main__":
    sys.exit(run_until_interrupted(main))
