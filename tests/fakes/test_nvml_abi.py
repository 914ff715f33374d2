"""The double's C side agrees with pynvml about every layout, and with its own driver about the shared block."""

import ctypes

import pynvml
import pytest

from tests.fakes.nvml import layout
from tests.fakes.nvml.compiler import compile_c
from tests.fakes.nvml.state import function_index

STRUCTURES = {
    "nvmlMemory_t": pynvml.c_nvmlMemory_t,
    "nvmlMemory_v2_t": pynvml.c_nvmlMemory_v2_t,
    "nvmlBAR1Memory_t": pynvml.c_nvmlBAR1Memory_t,
    "nvmlUtilization_t": pynvml.c_nvmlUtilization_t,
    "nvmlSample_t": pynvml.c_nvmlSample_t,
    "nvmlProcessInfo_t": pynvml.c_nvmlProcessInfo_v3_t,
    "nvmlProcessUtilizationSample_t": pynvml.c_nvmlProcessUtilizationSample_t,
    "nvmlProcessUtilizationInfo_v1_t": pynvml.c_nvmlProcessUtilizationInfo_v1_t,
    "nvmlProcessesUtilizationInfo_v1_t": pynvml.c_nvmlProcessesUtilizationInfo_v1_t,
    "nvmlFieldValue_t": pynvml.c_nvmlFieldValue_t,
    "nvmlPciInfo_t": pynvml.nvmlPciInfo_t,
    "nvmlViolationTime_t": pynvml.c_nvmlViolationTime_t,
    "nvmlTemperature_v1_t": pynvml.c_nvmlTemperature_v1_t,
    "nvmlEventData_t": pynvml.c_nvmlEventData_t,
    "nvmlGpmMetricInfo_t": pynvml.c_metricInfo_t,
    "nvmlGpmMetric_t": pynvml.c_nvmlGpmMetric_t,
    "nvmlGpmSupport_t": pynvml.c_nvmlGpmSupport_t,
    "nvmlDeviceAttributes_t": pynvml.c_nvmlDeviceAttributes,
    "nvmlAccountingStats_t": pynvml.c_nvmlAccountingStats_t,
}
VERSIONS = {
    ("nvmlMemory_v2_t", 2): pynvml.nvmlMemory_v2,
    ("nvmlProcessesUtilizationInfo_v1_t", 1): pynvml.ProcessesUtilizationInfo_v1,
    ("nvmlTemperature_v1_t", 1): pynvml.nvmlTemperature_v1,
}


def check(tmp_path, declarations):
    source = tmp_path / "check.c"
    source.write_text("#include <stddef.h>\n" + declarations)
    compile_c(["-std=c11", f"-I{layout.SOURCE}", "-fsyntax-only", str(source)])


@pytest.mark.usefixtures("nvml_libraries")
def test_every_structure_has_the_layout_that_pynvml_uses(tmp_path):
    check(tmp_path, '#include "nvml_abi.h"\n' + layout.assertions(STRUCTURES))


@pytest.mark.usefixtures("nvml_libraries")
def test_gpm_metrics_begin_where_pynvml_has_them(tmp_path):
    """The array's length differs between releases; what comes before it does not."""
    members = [name for name, _ in pynvml.c_nvmlGpmMetricsGet_t._fields_]
    check(
        tmp_path,
        '#include "nvml_abi.h"\n'
        + "\n".join(
            f"_Static_assert(offsetof(nvmlGpmMetricsGet_t, {name}) == "
            f'{getattr(pynvml.c_nvmlGpmMetricsGet_t, name).offset}, "{name}");'
            for name in members
        ),
    )


@pytest.mark.usefixtures("nvml_libraries")
def test_structure_versions_and_error_codes_are_those_of_pynvml(tmp_path):
    lines = ['#include "nvml_abi.h"']
    lines += [
        f'_Static_assert(NVML_STRUCT_VERSION({name}, {version}) == {value}u, "{name}");'
        for (name, version), value in VERSIONS.items()
    ]
    lines += [
        f'_Static_assert({name} == {value}, "{name}");'
        for name, value in vars(pynvml).items()
        if name == "NVML_SUCCESS" or name.startswith("NVML_ERROR_")
    ]
    lines += [
        f'_Static_assert({name} == {getattr(pynvml, name)}, "{name}");'
        for name in (
            "NVML_DEVICE_ARCH_BLACKWELL",
            "NVML_GPM_METRICS_GET_VERSION",
            "NVML_GPM_SUPPORT_VERSION",
            "NVML_POWER_SCOPE_GPU",
            "NVML_POWER_SCOPE_MODULE",
            "NVML_POWER_SCOPE_MEMORY",
        )
    ]
    assert len(lines) > 30
    check(tmp_path, "\n".join(lines) + "\n")


@pytest.mark.usefixtures("nvml_libraries")
def test_a_block_that_differs_between_c_and_python_does_not_compile(tmp_path):
    class Sample(ctypes.Structure):
        _fields_ = (("timestamp_us", ctypes.c_uint64), ("value", ctypes.c_uint32))

    with pytest.raises(RuntimeError, match=r"struct sample\.value"):
        check(tmp_path, '#include "state.h"\n' + layout.assertions({"struct sample": Sample}))


def test_every_controlled_function_is_exported(nvml_library):
    library = ctypes.CDLL(str(nvml_library / "libnvidia-ml.so.1"))
    for name in layout.FUNCTIONS:
        if name != "ANY":
            assert any(hasattr(library, name + version) for version in ("", "_v2", "_v3")), name


def test_only_nvml_is_exported(nvml_libraries):
    """A client's symbols cannot collide with the double's own."""
    library = ctypes.CDLL(str(nvml_libraries.directory / "libnvidia-ml.so.1"))
    assert not any(hasattr(library, name) for name in ("publish", "device_call", "system_call"))


@pytest.mark.parametrize(
    ("name", "same_as"),
    [
        ("nvmlInit_v2", "nvmlInit"),
        ("nvmlInitWithFlags", "nvmlInit"),
        ("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses"),
        ("nvmlDeviceGetTemperatureV", "nvmlDeviceGetTemperature"),
        ("nvmlDeviceGetCurrentClocksThrottleReasons", "nvmlDeviceGetCurrentClocksEventReasons"),
    ],
)
def test_all_versions_of_a_function_share_a_control(name, same_as):
    assert function_index(name) == function_index(same_as)


def test_a_function_that_the_double_does_not_have_is_refused():
    with pytest.raises(ValueError, match="nvmlDeviceSetFanSpeed"):
        function_index("nvmlDeviceSetFanSpeed_v2")
