"""The shared block of src/state.h as ctypes structures; the build compares the two, member by member."""

from __future__ import annotations

import ctypes
import re
from ctypes import Structure, c_char, c_int32, c_uint32, c_uint64
from pathlib import Path

SOURCE = Path(__file__).parent / "src"

STATE_MAGIC = 0x64757479636C6B31
MAX_DEVICES = 16
MAX_PROCESSES = 64
MAX_SAMPLES = 2048
MAX_FUNCTIONS = 128
MAX_INSTANCES = 7
MAX_ACCOUNTS = 128
MAX_EVENTS = 256

# Counters of `throttle_ns` in their order there: NVML's performance policies 0 to 5, then field values 269 to 271.
THROTTLE_COUNTERS = (
    "power",
    "thermal",
    "sync_boost",
    "board_limit",
    "low_utilization",
    "reliability",
    "sw_thermal",
    "hw_thermal",
    "hw_power_brake",
)
# Activities that GPM measures, in the places of their metric ids; the first place is no metric's.
_TENSOR, _FLOAT = ("dfma", "hmma", "dmma", "imma"), ("fp64", "fp32", "fp16")
GPM_ACTIVITIES = ("", "graphics", "sm", "occupancy", "integer", "tensor", *_TENSOR, "dram", *_FLOAT)
TRAFFIC = ("pcie_tx", "pcie_rx", "nvlink_rx", "nvlink_tx")
CLOCKS = ("graphics", "sm", "memory", "video")

UNUSED, PRESENT, LOST, ABSENT, EXCLUDED = range(5)
COMPUTE, GRAPHICS, MPS = range(3)
NOT_AVAILABLE_U32 = 2**32 - 1
NOT_AVAILABLE_U64 = 2**64 - 1

# Names of the functions that can be counted and controlled; a name's place is its index into a row of controls.
FUNCTIONS = tuple(re.findall(r"^FUNCTION\((\w+)\)", (SOURCE / "functions.def").read_text(), re.MULTILINE))


class Control(Structure):
    _fields_ = (
        ("calls", c_uint64),
        ("hung", c_uint64),
        ("result", c_uint32),
        ("remaining", c_int32),
        ("hang", c_uint32),
        ("delay_us", c_uint32),
    )


class System(Structure):
    _fields_ = (
        ("sequence", c_uint64),
        ("driver_version", c_char * 80),
        ("nvml_version", c_char * 80),
        ("cuda_driver_version", c_uint32),
        ("gpm_interval_us", c_uint32),
    )


class Identity(Structure):
    _fields_ = (
        ("name", c_char * 96),
        ("uuid", c_char * 96),
        ("serial", c_char * 32),
        ("vbios", c_char * 32),
        ("pci_domain", c_uint32),
        ("pci_bus", c_uint32),
        ("pci_device", c_uint32),
        ("pci_device_id", c_uint32),
        ("pci_subsystem_id", c_uint32),
        ("minor", c_uint32),
        ("architecture", c_uint32),
        ("compute_major", c_uint32),
        ("compute_minor", c_uint32),
        ("cores", c_uint32),
        ("nvlinks", c_uint32),
        ("gpm", c_uint32),
        ("memory_total", c_uint64),
        ("bar1_total", c_uint64),
        ("event_types", c_uint64),
    )


class Telemetry(Structure):
    _fields_ = (
        ("time_us", c_uint64),
        ("memory_used", c_uint64),
        ("memory_reserved", c_uint64),
        ("energy_mj", c_uint64),
        ("pcie_tx_bytes", c_uint64),
        ("pcie_rx_bytes", c_uint64),
        ("nvlink_tx_kib", c_uint64),
        ("nvlink_rx_kib", c_uint64),
        ("throttle_ns", c_uint64 * len(THROTTLE_COUNTERS)),
        ("ecc_errors", c_uint64 * 2 * 2),
        ("sram_errors", c_uint64 * 3 * 2),
        ("clocks_event_reasons", c_uint64),
        ("utilization_gpu", c_uint32),
        ("utilization_memory", c_uint32),
        ("power_mw", c_uint32),
        ("power_limit_mw", c_uint32),
        ("power_limit_min_mw", c_uint32),
        ("power_limit_max_mw", c_uint32),
        ("power_limit_default_mw", c_uint32),
        ("temperature", c_uint32),
        ("memory_temperature", c_uint32),
        ("fan_percent", c_uint32),
        ("performance_state", c_uint32),
        ("clock_mhz", c_uint32 * len(CLOCKS)),
        ("max_clock_mhz", c_uint32 * len(CLOCKS)),
        ("remapped_corrected", c_uint32),
        ("remapped_uncorrected", c_uint32),
        ("remapped_pending", c_uint32),
        ("remapped_failure", c_uint32),
        ("retired_sbe", c_uint32),
        ("retired_dbe", c_uint32),
        ("retired_pending", c_uint32),
        ("pcie_replays", c_uint32),
        ("recovery_action", c_uint32),
        ("sram_threshold_exceeded", c_uint32),
        ("mig_current", c_uint32),
        ("mig_pending", c_uint32),
        ("ecc_current", c_uint32),
        ("ecc_pending", c_uint32),
        ("persistence_mode", c_uint32),
        ("compute_mode", c_uint32),
        ("accounting_mode", c_uint32),
    )


class GpmCounters(Structure):
    _fields_ = (
        ("time_us", c_uint64),
        ("elapsed_ns", c_uint64),
        ("active_ns", c_uint64 * len(GPM_ACTIVITIES)),
        ("traffic_bytes", c_uint64 * len(TRAFFIC)),
    )


class Instance(Structure):
    _fields_ = (
        ("uuid", c_char * 96),
        ("profile", c_char * 32),
        ("present", c_uint32),
        ("generation", c_uint32),
        ("gpu_instance", c_uint32),
        ("compute_instance", c_uint32),
        ("multiprocessors", c_uint32),
        ("gpu_slices", c_uint32),
        ("compute_slices", c_uint32),
        ("copy_engines", c_uint32),
        ("decoders", c_uint32),
        ("encoders", c_uint32),
        ("jpegs", c_uint32),
        ("ofas", c_uint32),
        ("memory_total", c_uint64),
        ("memory_reserved", c_uint64),
        ("memory_used", c_uint64),
        ("bar1_total", c_uint64),
        ("gpm", GpmCounters),
    )


class Account(Structure):
    _fields_ = (
        ("pid", c_uint32),
        ("running", c_uint32),
        ("utilization_gpu", c_uint32),
        ("utilization_memory", c_uint32),
        ("memory_peak", c_uint64),
        ("time_ms", c_uint64),
        ("start_us", c_uint64),
    )


class Sample(Structure):
    _fields_ = (("timestamp_us", c_uint64), ("value", c_uint64))


class Ring(Structure):
    _fields_ = (
        ("written", c_uint64),
        ("capacity", c_uint32),
        ("reserved", c_uint32),
        ("samples", Sample * MAX_SAMPLES),
    )


class ProcessSample(Structure):
    _fields_ = (("sm", c_uint32), ("memory", c_uint32))


class Process(Structure):
    _fields_ = (
        ("pid", c_uint32),
        ("kind", c_uint32),
        ("instance", c_uint32),
        ("reserved", c_uint32),
        ("memory_used", c_uint64),
        ("utilization", ProcessSample * MAX_SAMPLES),
    )


class Device(Structure):
    _fields_ = (
        ("sequence", c_uint64),
        ("presence", c_uint32),
        ("process_count", c_uint32),
        ("account_count", c_uint32),
        ("crowd", c_uint32),
        ("crowd_pid", c_uint32),
        ("max_instances", c_uint32),
        ("crowd_memory", c_uint64),
        ("identity", Identity),
        ("telemetry", Telemetry),
        ("gpm", GpmCounters),
        ("instances", Instance * MAX_INSTANCES),
        ("accounts", Account * MAX_ACCOUNTS),
        ("power", Ring),
        ("gpu", Ring),
        ("memory", Ring),
        ("processes", Process * MAX_PROCESSES),
    )


class Event(Structure):
    _fields_ = (
        ("type", c_uint64),
        ("data", c_uint64),
        ("slot", c_uint32),
        ("gpu_instance", c_uint32),
        ("compute_instance", c_uint32),
        ("reserved", c_uint32),
    )


class EventLog(Structure):
    _fields_ = (("sequence", c_uint64), ("written", c_uint64), ("events", Event * MAX_EVENTS))


class State(Structure):
    _fields_ = (
        ("magic", c_uint64),
        ("size", c_uint64),
        ("system", System),
        ("events", EventLog),
        ("controls", Control * MAX_FUNCTIONS * (MAX_DEVICES + 1)),
        ("devices", Device * MAX_DEVICES),
    )


STRUCTURES: dict[str, type[Structure]] = {
    "control": Control,
    "system": System,
    "identity": Identity,
    "telemetry": Telemetry,
    "gpm_counters": GpmCounters,
    "instance": Instance,
    "account": Account,
    "sample": Sample,
    "ring": Ring,
    "process_sample": ProcessSample,
    "process": Process,
    "device": Device,
    "event": Event,
    "event_log": EventLog,
    "state": State,
}


def assertions(structures: dict[str, type[Structure]]) -> str:
    """C declarations that fail to compile where a structure (by its C name) and its ctypes image differ."""
    lines = []
    for name, structure in structures.items():
        lines.append(f'_Static_assert(sizeof({name}) == {ctypes.sizeof(structure)}, "{name}");')
        for field in structure._fields_:
            member = getattr(structure, field[0])
            lines.append(
                f"_Static_assert(offsetof({name}, {field[0]}) == {member.offset} && "
                f'sizeof((({name} *)0)->{field[0]}) == {member.size}, "{name}.{field[0]}");'
            )
    return "\n".join(lines) + "\n"
