"""MIG: instances that come and go, what they answer, and what the partitioned GPU no longer does."""

import pytest

from tests.fakes.nvml import A100, B200, FULL, H100, H200, RTX_3080_TI, V100, GpuProcess, Level, Load

GIB = 2**30
NONE = 2**32 - 1


def instances(m, gpu=0):
    """UUIDs by index, as an enumeration over all possible indexes finds them."""
    found = {}
    for index in range(m.nvml.nvmlDeviceGetMaxMigDeviceCount(m.handle(gpu))):
        try:
            found[index] = m.nvml.nvmlDeviceGetUUID(m.instance(index, gpu))
        except m.nvml.NVMLError_NotFound:
            continue
    return found


def test_a_gpu_can_be_partitioned_and_made_whole(machine):
    m = machine()
    m.driver.add_gpu()
    assert m.nvml.nvmlDeviceGetMigMode(m.handle()) == [0, 0]
    assert instances(m) == {}
    uuids = m.driver.set_mig(0, ["3g.40gb", "1g.10gb", "2g.20gb"])
    assert m.nvml.nvmlDeviceGetMigMode(m.handle()) == [1, 1]
    assert list(instances(m).values()) == uuids
    assert len(set(uuids)) == 3
    assert all(uuid.startswith("MIG-") and len(uuid) == 40 for uuid in uuids)
    m.driver.set_mig(0, [])
    assert (m.nvml.nvmlDeviceGetMigMode(m.handle()), instances(m)) == ([1, 1], {})
    m.driver.set_mig(0, None)
    assert m.nvml.nvmlDeviceGetMigMode(m.handle()) == [0, 0]
    m.advance(1)
    assert m.samples()


def test_uuids_are_the_same_in_every_run_and_differ_between_nodes(nvml_driver):
    made = []
    for name, node in (("a", "n1"), ("b", "n1"), ("c", "n2")):
        driver = nvml_driver(name, node=node)
        driver.add_gpu()
        made.append(driver.set_mig(0, ["1g.10gb"]))
    assert made[0] == made[1] != made[2]


def test_an_instance_is_described(machine):
    m = machine()
    gpu = m.driver.add_gpu(A100)
    m.driver.set_mig(0, ["3g.40gb", "1g.10gb"])
    nvml, handle = m.nvml, m.instance(0)
    assert nvml.nvmlDeviceGetName(handle) == "NVIDIA A100-SXM4-80GB MIG 3g.40gb"
    assert nvml.nvmlDeviceIsMigDeviceHandle(handle).value == 1
    assert nvml.nvmlDeviceIsMigDeviceHandle(m.handle()).value == 0
    assert nvml.nvmlDeviceGetUUID(nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle)) == gpu.uuid
    assert [nvml.nvmlDeviceGetGpuInstanceId(m.instance(place)) for place in (0, 1)] == [1, 7]
    assert nvml.nvmlDeviceGetComputeInstanceId(handle) == 0
    assert nvml.nvmlDeviceGetIndex(m.instance(1)) == 1
    attributes = nvml.nvmlDeviceGetAttributes_v2(handle)
    assert (attributes.multiprocessorCount, attributes.gpuInstanceSliceCount) == (42, 3)
    assert attributes.computeInstanceSliceCount == 3
    memory = nvml.nvmlDeviceGetMemoryInfo(handle, nvml.nvmlMemory_v2)
    assert memory.total == attributes.memorySizeMB * 2**20
    assert 39 * GIB < memory.total < 40 * GIB
    assert memory.free == memory.total - memory.reserved
    assert nvml.nvmlDeviceGetBAR1MemoryInfo(handle).bar1Total == 64 * GIB
    assert nvml.nvmlDeviceGetUUID(nvml.nvmlDeviceGetHandleByUUID(instances(m)[1])) == instances(m)[1]
    with pytest.raises(nvml.NVMLError_NotFound):
        nvml.nvmlDeviceGetHandleByUUID("MIG-00000000-0000-0000-0000-000000000000")


def test_only_instances_have_ids_a_parent_and_attributes(machine):
    m = machine()
    m.driver.add_gpu()
    nvml, handle = m.nvml, m.handle()
    for ask in (
        nvml.nvmlDeviceGetGpuInstanceId,
        nvml.nvmlDeviceGetComputeInstanceId,
        nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle,
    ):
        with pytest.raises(nvml.NVMLError_InvalidArgument):
            ask(handle)
    with pytest.raises(nvml.NVMLError_NotSupported):
        nvml.nvmlDeviceGetAttributes_v2(handle)


def test_indexes_may_have_holes(machine):
    m = machine()
    m.driver.add_gpu()
    uuids = m.driver.set_mig(0, ["1g.10gb", None, "2g.20gb"])
    assert instances(m) == {0: uuids[0], 2: uuids[1]}
    with pytest.raises(m.nvml.NVMLError_InvalidArgument):
        m.instance(7)


@pytest.mark.parametrize("model", [V100, RTX_3080_TI])
def test_models_without_mig_say_so(machine, model):
    m = machine()
    m.driver.add_gpu(model)
    assert m.nvml.nvmlDeviceGetMaxMigDeviceCount(m.handle()) == 0
    for ask in (lambda: m.nvml.nvmlDeviceGetMigMode(m.handle()), lambda: m.instance(0)):
        with pytest.raises(m.nvml.NVMLError_NotSupported):
            ask()
    with pytest.raises(ValueError, match="no MIG profile"):
        m.driver.set_mig(0, ["1g.10gb"])


@pytest.mark.parametrize(
    ("model", "profiles"),
    [
        (A100, ["1g.10gb"] * 7),
        (A100, ["1g.20gb", "1g.10gb", "1g.10gb+me"]),
        (H100, ["3g.40gb", "4g.40gb"]),
        (H200, ["1g.18gb", "2g.35gb", "3g.71gb"]),
        (H200, ["7g.141gb"]),
        (B200, ["1g.23gb"] * 7),
        (B200, ["7g.180gb"]),
    ],
)
def test_profiles_of_each_model_fit(machine, model, profiles):
    m = machine()
    m.driver.add_gpu(model)
    m.driver.set_mig(0, profiles)
    total = 0
    for index, name in enumerate(profiles):
        total += m.nvml.nvmlDeviceGetMemoryInfo(m.instance(index)).total
        assert m.nvml.nvmlDeviceGetName(m.instance(index)).endswith(f" MIG {name}")
    assert total <= model.memory
    ids = {m.nvml.nvmlDeviceGetGpuInstanceId(m.instance(index)) for index in range(len(profiles))}
    assert len(ids) == len(profiles)


@pytest.mark.parametrize(
    "profiles", [["1g.10gb"] * 8, ["3g.40gb", "3g.40gb", "1g.10gb"], ["4g.40gb", "4g.40gb"], ["5g.50gb"], ["big"]]
)
def test_what_does_not_fit_is_refused_and_changes_nothing(machine, profiles):
    m = machine()
    m.driver.add_gpu()
    before = m.driver.set_mig(0, ["1g.10gb"])
    with pytest.raises(ValueError, match=r"MIG profile|fit"):
        m.driver.set_mig(0, profiles)
    assert list(instances(m).values()) == before


def test_a_handle_of_an_instance_that_is_gone_is_invalid_even_if_another_takes_its_place(machine):
    m = machine()
    m.driver.add_gpu()
    m.driver.set_mig(0, ["1g.10gb", "1g.10gb"])
    gone, stays = m.instance(0), m.instance(1)
    m.driver.set_mig(0, ["2g.20gb", "1g.10gb"])
    with pytest.raises(m.nvml.NVMLError_InvalidArgument):
        m.nvml.nvmlDeviceGetUUID(gone)
    assert m.nvml.nvmlDeviceGetUUID(stays) == instances(m)[1]
    m.driver.set_mig(0, None)
    with pytest.raises(m.nvml.NVMLError_InvalidArgument):
        m.nvml.nvmlDeviceGetUUID(stays)


def test_an_instance_shares_the_fate_of_its_gpu(machine):
    m = machine()
    m.driver.add_gpu()
    m.driver.set_mig(0, ["1g.10gb"])
    handle = m.instance(0)
    m.driver.fail("nvmlDeviceGetMemoryInfo", m.nvml.NVML_ERROR_UNKNOWN, gpu=0)
    with pytest.raises(m.nvml.NVMLError_Unknown):
        m.nvml.nvmlDeviceGetMemoryInfo(handle)
    m.driver.lose(0)
    with pytest.raises(m.nvml.NVMLError_GpuIsLost):
        m.nvml.nvmlDeviceGetUUID(handle)


def test_jobs_run_on_instances(machine):
    m = machine()
    m.driver.add_gpu()
    m.driver.set_mig(0, ["3g.40gb", "1g.10gb"])
    job = m.driver.run(
        "train",
        {(0, 0): Load(Level(0.5), [GpuProcess(100, 2 * GIB)]), (0, 1): Load(FULL, [GpuProcess(200, GIB)])},
    )
    m.advance(4)
    compute = m.nvml.nvmlDeviceGetComputeRunningProcesses
    [own] = compute(m.instance(0))
    assert (own.pid, own.usedGpuMemory, own.gpuInstanceId, own.computeInstanceId) == (100, 2 * GIB, 1, 0)
    whole = [(p.pid, p.usedGpuMemory, p.gpuInstanceId, p.computeInstanceId) for p in compute(m.handle())]
    assert whole == [(100, None, 1, 0), (200, None, 7, 0)]
    memory = m.nvml.nvmlDeviceGetMemoryInfo(m.instance(0), m.nvml.nvmlMemory_v2)
    assert (memory.used, memory.free) == (2 * GIB, memory.total - memory.reserved - 2 * GIB)
    assert m.nvml.nvmlDeviceGetMemoryInfo(m.handle(), m.nvml.nvmlMemory_v2).used == 3 * GIB
    start = m.clock.now - 4
    assert m.driver.truth.busy_seconds((0, 0), start, m.clock.now) == pytest.approx(2)
    assert job.gpus == [0]
    job.change(FULL, (0, 0))
    m.advance(4)
    assert m.driver.truth.busy_seconds((0, 0), start, m.clock.now) == pytest.approx(6)
    job.stop()
    assert compute(m.handle()) == compute(m.instance(0)) == []


def test_power_is_that_of_the_share_of_the_gpu_that_works(machine):
    m = machine()
    m.driver.add_gpu()
    m.driver.set_mig(0, ["1g.10gb", "1g.10gb"])
    job = m.driver.run("train", {(0, 0): Load(FULL, power_factor=1.0)})
    start = m.clock.now
    m.advance(10)
    busy = 10 * 70 + 10 * 16 / 132 * (700 - 70)
    assert m.nvml.nvmlDeviceGetTotalEnergyConsumption(m.handle()) / 1000 == pytest.approx(busy)
    m.driver.set_mig(0, None)
    with pytest.raises(RuntimeError, match="has ended"):
        job.change(FULL)
    m.advance(10)
    assert m.driver.truth.energy_joules(0, start, m.clock.now) == pytest.approx(busy + 10 * 70)


def test_a_partitioned_gpu_has_no_utilization_of_its_own_and_its_instances_have_none(machine):
    m = machine()
    m.driver.add_gpu()
    m.driver.set_mig(0, ["1g.10gb"])
    m.driver.run("train", {(0, 0): Load(FULL, [GpuProcess(100)])})
    m.advance(5)
    nvml = m.nvml
    for handle in (m.handle(), m.instance(0)):
        for ask in (
            nvml.nvmlDeviceGetUtilizationRates,
            lambda handle: nvml.nvmlDeviceGetSamples(handle, nvml.NVML_GPU_UTILIZATION_SAMPLES, 0),
            lambda handle: nvml.nvmlDeviceGetProcessUtilization(handle, 0),
            lambda handle: nvml.nvmlDeviceGetProcessesUtilizationInfo(handle, 0),
            nvml.nvmlDeviceGetRemappedRows,
        ):
            with pytest.raises(nvml.NVMLError_NotSupported):
                ask(handle)
    with pytest.raises(nvml.NVMLError_NotSupported):
        nvml.nvmlDeviceGetPowerUsage(m.instance(0))
    assert nvml.nvmlDeviceGetPowerUsage(m.handle()) > 70_000


def test_jobs_go_only_where_they_can(machine):
    m = machine()
    m.driver.add_gpu()
    with pytest.raises(ValueError, match="no MIG instance 0"):
        m.driver.run("early", {(0, 0): Load(FULL)})
    job = m.driver.run("whole", {0: Load(FULL)})
    with pytest.raises(ValueError, match="jobs run on GPU 0"):
        m.driver.set_mig(0, ["1g.10gb"])
    job.stop()
    m.driver.set_mig(0, ["1g.10gb"])
    with pytest.raises(ValueError, match="partitioned"):
        m.driver.run("late", {0: Load(FULL)})


def test_eight_gpus_of_seven_instances_fit(machine):
    m = machine()
    for gpu in range(8):
        m.driver.add_gpu()
        m.driver.set_mig(gpu, ["1g.10gb"] * 7)
        loads = {(gpu, i): Load(FULL, [GpuProcess(1000 * gpu + 10 * i + n, GIB) for n in range(4)]) for i in range(7)}
        m.driver.run(f"job{gpu}", loads)
    m.advance(1)
    assert len({uuid for gpu in range(8) for uuid in instances(m, gpu).values()}) == 56
    assert all(len(m.nvml.nvmlDeviceGetComputeRunningProcesses(m.handle(gpu))) == 28 for gpu in range(8))
    assert all(
        len(m.nvml.nvmlDeviceGetComputeRunningProcesses(m.instance(i, gpu))) == 4 for gpu in range(8) for i in range(7)
    )
