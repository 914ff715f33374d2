"""The owner of a cgroup path, as Slurm, kubelets and container runtimes write it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutycycle_exporter.attribution.cgroup import Group, parse, slurm_scope
from tests.fakes.cgroup import pod_container, slurm_task

UID = "2c48913c-b29f-11e7-9350-020968147796"
UID_ = UID.replace("-", "_")
SCOPE = "/system.slice/slurmstepd.scope"
CONTAINER = "9bca8d63d5fa610783847915bcff0ecac1273e5b4bed3f6fa1b07350e0135961"
SLUID = "sEKNKTV3WPV500"
IN_POD = f"/kubepods.slice/kubepods-pod{UID_}.slice/cri-containerd-{CONTAINER}.scope"


@pytest.mark.parametrize(
    ("path", "job", "group_path"),
    [
        (f"{SCOPE}/job_1392969/step_0/user/task_0", "1392969", f"{SCOPE}/job_1392969"),
        (f"{SCOPE}/job_12/step_batch/user/task_special", "12", f"{SCOPE}/job_12"),
        (f"{SCOPE}/job_42/step_extern/user", "42", f"{SCOPE}/job_42"),
        (f"{SCOPE}/job_42", "42", f"{SCOPE}/job_42"),
        (f"{SCOPE}/job_42/step_0/user/task_0 (deleted)", "42", f"{SCOPE}/job_42"),
        (
            "/system.slice/gx10-ac12_slurmstepd.scope/job_12/step_batch/user/task_0",
            "12",
            "/system.slice/gx10-ac12_slurmstepd.scope/job_12",
        ),
        ("/jobs.slice/slurmstepd.scope/job_12/step_0", "12", "/jobs.slice/slurmstepd.scope/job_12"),
        (f"{SCOPE}/{SLUID}/step_0/user/task_0", SLUID, f"{SCOPE}/{SLUID}"),
        (
            f"{IN_POD}{SCOPE}/job_5/step_0/user/task_0",
            "5",
            f"{IN_POD}{SCOPE}/job_5",
        ),
        (slurm_task(77), "77", f"{SCOPE}/job_77"),
    ],
    ids=[
        "task",
        "batch",
        "adopted",
        "job",
        "ended",
        "several slurmd",
        "slice of the site",
        "sluid",
        "slurmd in a pod",
        "fake",
    ],
)
def test_a_slurm_job_in_cgroup_v2(path, job, group_path):
    around = Group("k8s", UID, (("", IN_POD.rpartition("/")[0]),)) if path.startswith(IN_POD) else None
    assert parse(f"0::{path}\n") == Group("slurm", job, (("", group_path),), around)


@pytest.mark.parametrize(
    ("text", "id_", "pod"),
    [
        pytest.param(f"0::{IN_POD}{SCOPE}/job_5/step_0", "5", UID, id="v2"),
        pytest.param(f"0::/../..{IN_POD}{SCOPE}/job_5", "5", UID, id="seen from another namespace"),
        pytest.param(f"0::{IN_POD}/system.slice/n1_slurmstepd.scope/{SLUID}", SLUID, UID, id="several slurmd, SLUID"),
        pytest.param(
            f"4:cpu:/kubepods/pod{UID}/c0/slurm/uid_1/job_5/step_0\n1:name=systemd:/kubepods/pod{UID}/c0\n",
            "5",
            UID,
            id="v1, where Slurm manages some of the hierarchies",
        ),
        pytest.param(f"0::/kubepods/podouter/c{IN_POD}{SCOPE}/job_5", "5", UID, id="a cluster in a pod"),
        pytest.param(f"0::{SCOPE}/job_5{IN_POD}", UID, UID, id="a pod in a job"),
        pytest.param(f"0::{IN_POD}", UID, UID, id="a pod"),
        pytest.param(f"0::{SCOPE}/job_5", "5", "", id="a job on the node"),
        pytest.param(f"4:cpu:/slurm/uid_1/job_5\n5:pids:/kubepods/pod{UID}/c0\n", None, None, id="side by side"),
        pytest.param(
            f"4:cpu:/kubepods/podother/c0/slurm/uid_1/job_5\n5:pids:/kubepods/pod{UID}/c0\n", None, None, id="another's"
        ),
    ],
)
def test_in_which_pod_a_slurm_job_runs(text, id_, pod):
    group = parse(text)
    assert (group and group.id, group and group.pod_uid) == (id_, pod)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        pytest.param(f"0::/kubepods/podouter/c{IN_POD}{SCOPE}/job_5", ["5", UID, "outer"], id="Slurm in kind in a pod"),
        pytest.param(f"0::{SCOPE}/job_5/step_0{IN_POD}", [UID, "5"], id="kind in a job"),
        pytest.param(
            f"4:cpu:/kubepods/podouter/c{IN_POD}\n5:pids:/kubepods/podouter/c\n0::/\n", [UID, "outer"], id="v1"
        ),
        pytest.param(f"4:cpu:/kubepods/podouter/c{IN_POD}\n5:pids:/kubepods/podother/c\n", None, id="disagreeing"),
    ],
)
def test_all_around_a_process_are_told_from_the_innermost_outwards(text, names):
    group = parse(text)
    assert (group and [one.id for one in group.outwards()]) == names


def test_each_group_on_a_path_has_its_own():
    outer = Group("k8s", "outer", (("cpu", "/kubepods/podouter"), ("pids", "/kubepods/podouter")))
    text = "4:cpu:/kubepods/podouter/c/kubepods/podinner/d\n5:pids:/kubepods/podouter/c\n"
    assert parse(text) == Group("k8s", "inner", (("cpu", "/kubepods/podouter/c/kubepods/podinner"),), outer)


@pytest.mark.parametrize("root", ["slurm", "slurm_node7"])
def test_a_slurm_job_in_cgroup_v1_has_a_path_for_each_controller_that_slurm_uses(root):
    job = f"/{root}/uid_2101171/job_280678"
    text = (
        f"11:memory:{job}/step_0/task_0\n10:devices:{job}/step_interactive/task_0\n9:pids:/system.slice/slurmd.service\n"
        f"4:cpu,cpuacct:{job}/step_0/task_0\n1:name=systemd:/system.slice/slurmd.service\n"
        "0::/system.slice/slurmd.service\n"
    )
    paths = (("memory", job), ("devices", job), ("cpu", job), ("cpuacct", job))
    assert parse(text) == Group("slurm", "280678", paths)


POD_SLICE = f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UID_}.slice"
KIND = "/docker/0123abc/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice"


@pytest.mark.parametrize(
    ("path", "group_path"),
    [
        (f"{POD_SLICE}/cri-containerd-{CONTAINER}.scope", POD_SLICE),
        (f"{POD_SLICE}/crio-{CONTAINER}.scope", POD_SLICE),
        (f"{POD_SLICE}/crio-{CONTAINER}.scope/container", POD_SLICE),
        (f"{POD_SLICE}/crio-{CONTAINER}.scope/user.slice/user-1000.slice/session-1.scope", POD_SLICE),
        (f"{POD_SLICE}/crio-{CONTAINER}.scope/user.slice/user-1000.slice{SCOPE}/job_12", POD_SLICE),
        (f"{POD_SLICE}/docker-{CONTAINER}.scope", POD_SLICE),
        (f"/kubepods.slice/kubepods-pod{UID_}.slice/crio-x.scope", f"/kubepods.slice/kubepods-pod{UID_}.slice"),
        (
            f"{KIND}/kubelet-kubepods-besteffort-pod{UID_}.slice/cri-containerd-{CONTAINER}.scope",
            f"{KIND}/kubelet-kubepods-besteffort-pod{UID_}.slice",
        ),
        (f"/kubepods/besteffort/pod{UID}/{CONTAINER}", f"/kubepods/besteffort/pod{UID}"),
        (f"/kubepods/pod{UID}/{CONTAINER}", f"/kubepods/pod{UID}"),
        (f"/k8s.io/kubepods/burstable/pod{UID}/{CONTAINER}", f"/k8s.io/kubepods/burstable/pod{UID}"),
        (f"/system.slice/containerd.service/kubepods-besteffort-pod{UID_}.slice:cri-containerd:{CONTAINER}", None),
        (f"/kubepods-besteffort-pod{UID_}.slice:cri-containerd:{CONTAINER}", None),
        (f"/../../pod{UID}/{CONTAINER}", None),
        (f"/../../burstable/pod{UID}/{CONTAINER}", None),
        (f"/../kubepods-burstable-pod{UID_}.slice/cri-containerd-{CONTAINER}.scope", None),
        (pod_container(UID, "c0ffee"), POD_SLICE),
    ],
)
def test_a_pod(path, group_path):
    group = Group("k8s", UID, None if group_path is None else (("", group_path),))
    assert parse(f"0::{path}\n") == group


def test_a_static_pod_has_the_hash_of_its_manifest_for_a_uid():
    uid = "6b0aeda8a9d0d1f3a1a8c7b2e4f5a6b7"
    path = f"/kubepods.slice/kubepods-pod{uid}.slice"
    assert parse(f"0::{path}/crio-x.scope") == Group("k8s", uid, (("", path),))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0::/",
        "0::/user.slice/user-1000.slice/session-3.scope\n",
        "0::/system.slice/docker-c0ffee.scope\n",
        "0::/system.slice/slurmstepd.scope/system\n",
        "0::/system.slice/slurmd.service\n",
        f"0::{SCOPE}/job_0\n",
        f"0::{SCOPE}/job_12x\n",
        f"0::{SCOPE}/job_-1\n",
        f"0::{SCOPE}/job_99999999999\n",
        f"0::{SCOPE}/job_١\n",
        "0::/system.slice/my.scope/job_12/step_0\n",
        "0::/job_12/step_0\n",
        "0::/home/uid_1000/job_12\n",
        f"0::/user.slice/user-1000.slice/user@1000.service{SCOPE}/job_12/step_0/user/task_0\n",
        f"0::/user.slice/user-1000.slice/user@1000.service/app.slice/kubepods/pod{UID}/c\n",
        f"0::/pod{UID}/c\n",
        "0::/kubepods/burstable/podinfo-thing.service\n",
        "0::/kubepods.slice/kubepods-burstable.slice\n",
        f"0::/kubepods/pod{'a' * 65}/c\n",
        f"5:cpu:{SCOPE}/job_1\n6:memory:{SCOPE}/job_2\n",
        "0:/kubepods",
        "::",
        "garbage\n\n::::\n",
    ],
)
def test_what_is_no_schedulers(text):
    assert parse(text) is None


def test_the_scope_of_a_job_is_where_other_jobs_are():
    assert slurm_scope(parse(f"0::{SCOPE}/job_1/step_0")) == SCOPE
    assert slurm_scope(parse("4:cpu:/slurm/uid_1/job_1")) is None
    assert slurm_scope(parse(f"0::/kubepods/pod{UID}/c")) is None


NAMES = st.one_of(
    st.sampled_from(
        [
            "system.slice",
            "slurmstepd.scope",
            "n1_slurmstepd.scope",
            "kubepods",
            "burstable",
            "slurm",
            "uid_1",
            "step_0",
            "..",
            "user.slice",
            f"pod{UID}",
            f"kubepods-pod{UID_}.slice",
            SLUID,
        ]
    ),
    st.integers(0, 2**33).map(lambda number: f"job_{number}"),
    st.text(st.characters(exclude_characters="/\n"), max_size=20),
)
PATHS = st.lists(NAMES, max_size=8).map(lambda names: "/" + "/".join(names))


@given(st.lists(st.tuples(st.sampled_from(["", "cpu", "cpu,cpuacct", "name=systemd"]), PATHS), max_size=4))
def test_a_group_lies_on_the_path_that_it_was_found_in(lines):
    group = parse("".join(f"{number}:{controllers}:{path}\n" for number, (controllers, path) in enumerate(lines)))
    for controller, found in (group.paths or ()) if group else ():
        assert ".." not in found.split("/")
        assert "user.slice" not in found.split("/")
        assert any(
            controller in controllers.split(",") and f"{path}/".startswith(f"{found}/") for controllers, path in lines
        )


@given(st.binary(max_size=300))
def test_any_bytes_have_an_owner_or_none(content):
    group = parse(content.decode(errors="surrogateescape"))
    assert group is None or (group.id.isascii() and len(group.id) <= 64)


@given(st.integers(1, 2**32 - 1), PATHS)
def test_nothing_below_a_job_can_take_it_away_unless_it_is_a_schedulers_own(job, below):
    group = parse(f"0::{SCOPE}/job_{job}{below}\n")
    own = {"user.slice", "slurmstepd.scope", "n1_slurmstepd.scope", "kubepods", "slurm", "burstable", ".."}
    # The kernel writes no NUL: text with one is no cgroup file at all.
    if not own & set(below.split("/")) and "kubepods" not in below and "\0" not in below:
        assert group == Group("slurm", str(job), (("", f"{SCOPE}/job_{job}"),))
