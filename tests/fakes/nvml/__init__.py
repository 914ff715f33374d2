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
