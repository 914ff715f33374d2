"""The double's C side agrees with pynvml and with NVIDIA's header, and with its own driver about the shared block.

Layouts and constants, as pynvml has them, are compared with the double's header and with NVIDIA's alike. Besides, the
double is compiled against NVIDIA's header in the place of its own: every function has to be the one declared there.
"""

import ctypes
import re
from importlib import metadata
from pathlib import Path

import pynvml
import pytest

from tests.fakes.nvml import layout
from tests.fakes.nvml.compiler import FLAGS, PUBLISHER, compile_c
from tests.fakes.nvml.state import function_index
from tests.required import lacking


class ExcludedDeviceInfo(ctypes.Structure):
    """As pynvml's c_nvmlExcludedDeviceInfo_t, with the names of NVIDIA's header."""

    _fields_ = (("pciInfo", pynvml.nvmlPciInfo_t), ("uuid", ctypes.c_char * pynvml.NVML_DEVICE_UUID_BUFFER_SIZE))


STRUCTURES = {
    "nvmlExcludedDeviceInfo_t": ExcludedDeviceInfo,
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
    "nvmlEccSramErrorStatus_v1_t": pynvml.c_nvmlEccSramErrorStatus_v1_t,
    "nvmlEventData_t": pynvml.c_nvmlEventData_t,
    "nvmlGpmMetric_t": pynvml.c_nvmlGpmMetric_t,
    "nvmlGpmSupport_t": pynvml.c_nvmlGpmSupport_t,
    "nvmlDeviceAttributes_t": pynvml.c_nvmlDeviceAttributes,
    "nvmlAccountingStats_t": pynvml.c_nvmlAccountingStats_t,
}
VERSIONS = {
    ("nvmlMemory_v2_t", 2): pynvml.nvmlMemory_v2,
    ("nvmlProcessesUtilizationInfo_v1_t", 1): pynvml.ProcessesUtilizationInfo_v1,
    ("nvmlTemperature_v1_t", 1): pynvml.nvmlTemperature_v1,
    ("nvmlEccSramErrorStatus_v1_t", 1): pynvml.nvmlEccSramErrorStatus_v1,
}
FLAGS_OF_A_CHECK = [*(flag for flag in FLAGS if flag != "-shared"), "-Wmissing-prototypes", "-fsyntax-only"]
OURS = [f"-I{layout.SOURCE}", "-include", "nvml_abi.h"]
DECLARED = (layout.SOURCE / "nvml_abi.h").read_text()


@pytest.fixture(scope="session")
def nvidia(nvml_libraries):
    """How gcc is given NVIDIA's header, which nvidia-nvml-dev brings, with each function under its own name."""
    try:
        files = metadata.files("nvidia-nvml-dev") or []
    except metadata.PackageNotFoundError:
        lacking("nvidia-nvml-dev")
    [header] = [Path(file.locate()) for file in files if file.name == "nvml.h"]
    return ["-isystem", str(header.parent), "-DNVML_NO_UNVERSIONED_FUNC_DEFS", "-include", "nvml.h"]


@pytest.fixture(params=["the double's", "NVIDIA's"])
def header(request, nvml_libraries):
    """How gcc is given a header that declares NVML."""
    return OURS if request.param == "the double's" else request.getfixturevalue("nvidia")


def check(tmp_path, header, declarations):
    source = tmp_path / "check.c"
    source.write_text("#include <stddef.h>\n" + declarations)
    compile_c(["-std=c11", *header, "-fsyntax-only", str(source)])


def same(values):
    """Declarations that do not compile where a constant is another."""
    return "\n".join(f'_Static_assert({name} == {value}, "{name}");' for name, value in values.items()) + "\n"


def test_every_structure_has_the_layout_that_pynvml_uses(tmp_path, header):
    check(tmp_path, header, layout.assertions(STRUCTURES))


def test_every_structure_of_the_double_is_compared():
    """But for nvmlGpmMetricsGet_t, of which the next test has what is the same in all releases, and for
    nvmlProcessInfo_v1_t, which pynvml lacks.
    """
    declared = set(re.findall(r"^} (nvml\w+_t);", DECLARED, re.MULTILINE))
    assert declared - {"nvmlReturn_t", "nvmlValueType_t", "nvmlValue_t"} == STRUCTURES.keys() | {
        "nvmlGpmMetricsGet_t",
        "nvmlProcessInfo_v1_t",
    }


def test_values_names_and_gpm_metrics_lie_where_pynvml_has_them(tmp_path, header):
    """The length of the metrics' array differs between releases; what comes before it does not."""
    metrics, value = pynvml.c_nvmlGpmMetricsGet_t, pynvml.c_nvmlValue_t
    info = pynvml.c_nvmlGpmMetric_t.metricInfo.offset
    places = {f"offsetof(nvmlGpmMetricsGet_t, {name})": getattr(metrics, name).offset for name, _ in metrics._fields_}
    places |= {f"sizeof(((nvmlValue_t *)0)->{name})": getattr(value, name).size for name, _ in value._fields_}
    places |= {
        f"offsetof(nvmlGpmMetric_t, metricInfo.{name})": info + getattr(pynvml.c_metricInfo_t, name).offset
        for name, _ in pynvml.c_metricInfo_t._fields_
    }
    check(tmp_path, header, same(places))


def test_structure_versions_and_constants_are_those_of_pynvml(tmp_path, header):
    versions = {f"(sizeof({name}) | {number} << 24)": value for (name, number), value in VERSIONS.items()}
    errors = {
        name: value for name, value in vars(pynvml).items() if name == "NVML_SUCCESS" or name.startswith("NVML_ERROR_")
    }
    assert len(errors) > 30
    names = (
        "NVML_DEVICE_ARCH_BLACKWELL",
        "NVML_GPM_METRICS_GET_VERSION",
        "NVML_GPM_SUPPORT_VERSION",
        "NVML_POWER_SCOPE_GPU",
        "NVML_POWER_SCOPE_MODULE",
        "NVML_POWER_SCOPE_MEMORY",
    )
    check(tmp_path, header, same(versions | errors | {name: getattr(pynvml, name) for name in names}))


def test_every_constant_of_the_double_is_nvidias(tmp_path, nvidia):
    constants = dict(re.findall(r"\b(NVML_\w+) = (\d+)", DECLARED))
    assert len(constants) > 50
    check(tmp_path, nvidia, same(constants))


def test_the_double_is_made_of_nvidias_functions(nvidia):
    """Its sources, with NVIDIA's declarations in the place of ours: each fits, and none is missing there."""
    sources = sorted(str(path) for path in layout.SOURCE.glob("*.c") if path.name != PUBLISHER)
    instead = [*nvidia, "-DNVML_ABI_H"]
    compile_c([*FLAGS_OF_A_CHECK, *instead, *sources])


@pytest.mark.parametrize(
    ("function", "complaint"),
    [
        ("nvmlReturn_t nvmlDeviceGetCount_v2(int *count)", "conflicting types"),
        ("nvmlReturn_t nvmlDeviceGetCount_v7(unsigned int *count)", "no previous prototype"),
    ],
    ids=["another type", "no function of NVML's"],
)
def test_a_function_that_is_not_nvidias_does_not_compile(tmp_path, nvidia, function, complaint):
    source = tmp_path / "check.c"
    source.write_text(f"{function} {{ return count != 0 ? NVML_SUCCESS : NVML_ERROR_UNKNOWN; }}\n")
    with pytest.raises(RuntimeError, match=complaint):
        compile_c([*FLAGS_OF_A_CHECK, *nvidia, str(source)])


@pytest.mark.usefixtures("nvml_libraries")
def test_a_block_that_differs_between_c_and_python_does_not_compile(tmp_path):
    class Sample(ctypes.Structure):
        _fields_ = (("timestamp_us", ctypes.c_uint64), ("value", ctypes.c_uint32))

    with pytest.raises(RuntimeError, match=r"struct sample\.value"):
        check(tmp_path, [f"-I{layout.SOURCE}", "-include", "state.h"], layout.assertions({"struct sample": Sample}))


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
