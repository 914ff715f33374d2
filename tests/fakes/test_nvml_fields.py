"""Field values, by model, driver and scope."""

import pytest

from tests.fakes.nvml import A100, B200, FULL, H100, H200, RTX_3080_TI, V100, Level, Load

ALL_LINKS = 2**32 - 1
NVLINK_TX, NVLINK_RX, NVLINK5_TX, NVLINK5_RX = 138, 139, 202, 204
PCIE_TX, PCIE_RX = 197, 198


def test_the_numbers_are_those_of_pynvml(pynvml_double):
    nvml = pynvml_double
    assert (nvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, nvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX) == (138, 139)
    assert (nvml.NVML_FI_DEV_NVLINK_COUNT_XMIT_BYTES, nvml.NVML_FI_DEV_NVLINK_COUNT_RCV_BYTES) == (202, 204)
    assert (nvml.NVML_FI_DEV_PCIE_COUNT_TX_BYTES, nvml.NVML_FI_DEV_PCIE_COUNT_RX_BYTES) == (197, 198)
    assert (nvml.NVML_FI_DEV_RETIRED_SBE, nvml.NVML_FI_DEV_RETIRED_DBE, nvml.NVML_FI_DEV_RETIRED_PENDING) == (
        29,
        30,
        31,
    )
    assert nvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN == 269
    assert (nvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION, nvml.NVML_FI_DEV_MEMORY_TEMP) == (230, 82)


def test_traffic_is_what_the_test_says(machine):
    m = machine()
    m.driver.add_gpu()
    m.driver.traffic(0, pcie_tx=1e6, pcie_rx=2e6, nvlink_tx=1024e3, nvlink_rx=2048e3)
    m.advance(10)
    assert (m.field(PCIE_TX), m.field(PCIE_RX)) == (10_000_000, 20_000_000)
    assert (m.field(NVLINK_TX, ALL_LINKS), m.field(NVLINK_RX, ALL_LINKS)) == (10_000, 20_000)
    m.driver.traffic(0, pcie_tx=None)
    m.advance(10)
    assert (m.field(PCIE_TX), m.field(PCIE_RX)) == (10_000_000, 40_000_000)
    with pytest.raises(ValueError, match="infiniband"):
        m.driver.traffic(0, infiniband=1)


def test_links_add_up_to_all_of_them(machine):
    m = machine()
    m.driver.add_gpu(H100)
    m.driver.traffic(0, nvlink_tx=1024 * 1000.0)
    m.advance(1)
    assert sum(m.field(NVLINK_TX, link) for link in range(18)) == m.field(NVLINK_TX, ALL_LINKS) == 1000
    with pytest.raises(m.nvml.NVMLError_InvalidArgument):
        m.field(NVLINK_TX, 18)


def test_nvlink_is_counted_in_kib_before_its_fifth_generation_and_in_bytes_from_there(machine):
    m = machine()
    for model in (H200, B200, RTX_3080_TI):
        m.driver.add_gpu(model)
    for gpu in (0, 1):
        m.driver.traffic(gpu, nvlink_tx=2048.0, nvlink_rx=1024.0)
    m.advance(100)
    fields = [(NVLINK_TX, ALL_LINKS), (NVLINK_RX, ALL_LINKS), (NVLINK5_TX, ALL_LINKS), (NVLINK5_RX, ALL_LINKS)]
    assert [m.field(*field, gpu=0) for field in fields] == [200, 100, None, None]
    assert [m.field(*field, gpu=1) for field in fields] == [None, None, 204_800, 102_400]
    assert [m.field(*field, gpu=2) for field in fields] == [None] * 4


def test_pcie_bytes_wrap(machine):
    m = machine()
    m.driver.add_gpu()
    m.driver.traffic(0, pcie_rx=2.0**31)
    m.advance(1)
    assert m.field(PCIE_RX) == 2**31
    m.advance(1.5)
    assert m.field(PCIE_RX) == 2**30


@pytest.mark.parametrize(
    ("version", "pcie", "recovery", "throttle"),
    [
        ("550.127.08", None, None, None),
        ("555.42.06", 1_000_000, None, None),
        ("570.86.10", 1_000_000, 0, None),
        ("575.57.08", 1_000_000, 0, 100),
        ("580.95.05", 1_000_000, 0, 500_000_000),
        ("595.10", 1_000_000, 0, 500_000_000),
    ],
)
def test_what_a_field_means_depends_on_the_driver(machine, version, pcie, recovery, throttle):
    m = machine()
    m.driver.add_gpu()
    m.driver.set_driver(version, cuda=12000)
    m.driver.traffic(0, pcie_tx=1e6)
    m.driver.throttle(0, "sw_thermal", 0.5)
    m.driver.throttle(0, "power", 0.25)
    m.advance(1)
    assert (m.field(PCIE_TX), m.field(230), m.field(269)) == (pcie, recovery, throttle)
    assert m.field(74) == 250_000_000


def test_power_has_scopes(machine):
    m = machine()
    m.driver.add_gpu(H100)
    m.driver.add_gpu(A100)
    m.driver.add_gpu(V100)
    m.driver.add_gpu(RTX_3080_TI)
    m.driver.run("train", {0: Load(FULL, power_factor=1.0)})
    m.advance(2)
    assert [m.field(id_, 0) for id_ in (185, 186, 190)] == [700_000] * 3
    assert m.field(186, m.nvml.NVML_POWER_SCOPE_MODULE) is None
    with pytest.raises(m.nvml.NVMLError_InvalidArgument):
        m.field(186, 7)
    assert [m.field(185, gpu=gpu) for gpu in (1, 2, 3)] == [None, None, 20_000]
    assert [m.field(186, gpu=gpu) for gpu in (1, 2, 3)] == [65_000, 42_000, 20_000]


def test_health_of_memory_by_generation(machine):
    """A V100 retires pages, later ones remap rows, a consumer's card tells nothing."""
    m = machine()
    for model in (V100, H100, RTX_3080_TI):
        m.driver.add_gpu(model)
    m.driver.retired_pages(0, sbe=2, dbe=1, pending=1)
    m.driver.remapped(1, corrected=3, uncorrected=1, failure=1)
    pages, rows, ecc = (29, 30, 31), (142, 143, 144, 145), (3, 4, 5, 6)
    assert [m.field(id_, gpu=0) for id_ in pages + rows] == [2, 1, 1, None, None, None, None]
    assert [m.field(id_, gpu=1) for id_ in pages + rows] == [None, None, None, 3, 1, 0, 1]
    assert [m.field(id_, gpu=2) for id_ in (*pages, *rows, *ecc, 82)] == [None] * 12
    m.driver.ecc_errors(1, corrected=4, uncorrected=2)
    m.driver.ecc_errors(1, corrected=40, uncorrected=20, aggregate=True)
    m.driver.run("train", {1: Load(Level(0.5))})
    m.driver.force(1, recovery_action=2)
    m.advance(1)
    assert [m.field(id_, gpu=1) for id_ in (*ecc, 230)] == [4, 2, 40, 20, 2]
    assert m.field(82, gpu=1) > 30


def test_gpm_counters_are_no_fields(machine):
    """248 to 250 are metrics of GPM; as fields these numbers are error histories of NVLink 5."""
    m = machine()
    m.driver.set_driver("595.10", cuda=13000)
    m.driver.add_gpu()
    m.advance(1)
    assert [m.field(id_) for id_ in (248, 249, 250)] == [None] * 3
