"""Power and counters of GPUs, as shares of a window, for evidence of hangs and of kernels that are too small."""

IDLE_WATTS, LIMIT_WATTS = 70.0, 670.0


def at_power(watts: float) -> dict[str, object]:
    """A GPU that draws this much, of a model that draws 70 W idle and 670 W at most."""
    return {"energy_share": watts, "idle_power": IDLE_WATTS, "power_limit": LIMIT_WATTS}


def counters(
    *, sm: float | None = None, tensor: float | None = None, dram: float | None = None, link: float | None = None
) -> dict[str, object]:
    """Units as shares of the time, links in bytes per second; what is None is not measured."""
    given = {"sm_share": sm, "tensor_share": tensor, "dram_share": dram, "link_bytes_share": link}
    return {name: value for name, value in given.items() if value is not None}
