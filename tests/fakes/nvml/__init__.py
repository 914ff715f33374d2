"""The NVML double: a library that clients load as libnvidia-ml.so.1, and a driver that plays workloads on its GPUs.

    from tests.fakes.nvml import A100, Driver, GpuProcess, Load, Steps

    def test_something(nvml_libraries, tmp_path):
        with Driver(tmp_path / "gpus", nvml_libraries, time_scale=30) as driver:
            driver.add_gpu()
            driver.add_gpu(A100)
            job = driver.run("train", {0: Load(Steps(period=2, duty=0.5), [GpuProcess(4242, memory=2**34)])})
            driver.start()
            subprocess.run(["dutycycle-exporter"], env={**os.environ, **driver.environment})
            driver.truth.busy_seconds(0, start, end)     # exact, in wall seconds
            job.change(Level(0.9))                       # turns healthy now (or ahead: Then(Steps(..), 600, Level(.9)))
            driver.fail("nvmlInit", pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH)
            driver.fail("nvmlDeviceGetSamples", pynvml.NVML_ERROR_UNKNOWN, gpu=1, times=3)
            driver.hang("nvmlDeviceGetPowerUsage")       # until driver.heal(...)
            driver.vanish(1)                             # and driver.restore(1)
            driver.state.calls("nvmlDeviceGetSamples")   # how often it was called

Seconds of patterns are those of the full-length run; the driver divides them by its time scale. A program that shall
have processes and cgroups beside the GPUs runs on a tests.fakes.node.FakeNode.

Models: V100 (retires pages), A100, H100, H200, B200 (NVLink 5), RTX_3080_TI (lacks what only data-centre GPUs have).
`driver.set_driver("575.57.08", cuda=12090)` decides which fields, GPM and metrics there are, and what they mean.

    driver.traffic(0, pcie_tx=1e9, nvlink_rx=None)       # bytes per second; None: as the busy time suggests
    driver.throttle(0, "sw_thermal", 0.25)               # share of the time, layout.THROTTLE_COUNTERS
    driver.ecc_errors(0, corrected=5, uncorrected=1, aggregate=True)
    driver.sram_errors(0, corrected=2, parity=1, aggregate=True, threshold_exceeded=True)     # a part of those
    driver.retired_pages(0, sbe=2, dbe=1, pending=1)
    driver.remapped(0, corrected=1, uncorrected=0, pending=1, failure=0)
    driver.force(0, recovery_action=2)                   # any member of layout.Telemetry; None lets it go
    driver.force(0, energy_mj=5_000)                     # a stuck energy counter
    driver.fail("nvmlDeviceGetSamples", pynvml.NVML_ERROR_NOT_SUPPORTED)     # a driver without a sample buffer
    driver.crowd(0, 10_000)                              # idle processes, with pids that Linux gives to nobody

Events: `driver.xid(0, 79)`, or `instance=1` of a MIG instance. GPUs of data centres have events; `add_gpu(events=...)`.

GPM (Hopper and later): Load(activity={"sm": 0.8, "tensor": 0.3, "dram": 0.5}) are shares of the busy time, by
layout.GPM_ACTIVITIES; averages are exact between any two samples 0.1 s apart (before the time scale). Counters know of
time that was stepped to, not of what has passed since. `driver.gpm_excess(0, 1.5)` lets them count too much.

MIG: `driver.set_mig(0, ["3g.40gb", None, "1g.10gb"])` makes instances 0 and 2 and returns their UUIDs; instances whose
profile stays at its index live on; [] leaves MIG on without any, None turns it off. Jobs run on (slot, index):

    job = driver.run("train", {(0, 2): Load(Level(0.5), [GpuProcess(4242, memory=2**30)])})
    job.change(Level(0.9), (0, 2))
    driver.truth.busy_seconds((0, 2), start, end)

Accounting: `driver.accounting(0, True)` keeps processes that start from then on, the last layout.MAX_ACCOUNTS of them.
"""

from .compiler import Libraries, build, find_gcc
from .driver import CAPACITY, SAMPLE_PERIOD, Driver
from .job import Job
from .models import A100, B200, H100, H200, RTX_3080_TI, V100, Model
from .patterns import FULL, IDLE, Curve, Level, Pattern, Paused, Piecewise, Steps, Then, ramp
from .state import EVERY_GPU
from .timeline import GpuProcess, Load
from .truth import Truth

__all__ = [
    "A100",
    "B200",
    "CAPACITY",
    "EVERY_GPU",
    "FULL",
    "H100",
    "H200",
    "IDLE",
    "RTX_3080_TI",
    "SAMPLE_PERIOD",
    "V100",
    "Curve",
    "Driver",
    "GpuProcess",
    "Job",
    "Level",
    "Libraries",
    "Load",
    "Model",
    "Pattern",
    "Paused",
    "Piecewise",
    "Steps",
    "Then",
    "Truth",
    "build",
    "find_gcc",
    "ramp",
]
