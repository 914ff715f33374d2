"""A copy of a page is another node's: no series of two copies is the same, and nothing else differs."""

from __future__ import annotations

from benchmarks.exporters.copies import Copies
from benchmarks.load.pages import Series, count

PAGE = b"""# HELP gpu_info Identity.
gpu_info{node="n1",gpu="0",gpu_uuid="GPU-aaaa",model="NVIDIA H100"} 1
gpu_allocation{node="n1",gpu_uuid="GPU-aaaa",workload="slurm/17",job_id="17",user="ada"} 1
gpu_allocation{node="n1",gpu_uuid="GPU-bbbb",workload="k8s/ml/train/u",job_id="",user="ada"} 1
gpu_visible{node="n1"} 2
process_cpu_seconds_total 3.5
"""


def test_nodes_gpus_and_jobs_have_other_names() -> None:
    assert Copies(PAGE).of(7) == (
        b"# HELP gpu_info Identity.\n"
        b'gpu_info{node="n10007",gpu="0",gpu_uuid="GPU-aaaa0007",model="NVIDIA H100"} 1\n'
        b'gpu_allocation{node="n10007",gpu_uuid="GPU-aaaa0007",workload="slurm/170007",job_id="170007",user="ada"} 1\n'
        b'gpu_allocation{node="n10007",gpu_uuid="GPU-bbbb0007",workload="k8s/ml/train/u0007",job_id="",user="ada"} 1\n'
        b'gpu_visible{node="n10007"} 2\n'
        b"process_cpu_seconds_total 3.5\n"
    )


def test_series_are_counted_by_what_they_are_of() -> None:
    assert count(PAGE.decode()) == Series(device=1, owner=2, node=2)
    assert count(PAGE.decode()).total == 5
