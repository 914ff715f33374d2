"""Fixtures for every test."""

from hypothesis import HealthCheck, settings

from tests.fakes.nvml.fixtures import nvml_driver, nvml_libraries, nvml_library, pynvml_double

__all__ = ["nvml_driver", "nvml_libraries", "nvml_library", "pynvml_double"]

# How long an example takes says how busy the machine is, not whether the code is right.
settings.register_profile("dutycycle", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("dutycycle")
