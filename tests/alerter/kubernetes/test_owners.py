"""From pods to jobs: every operator's chain, what ends one, and graphs that make no sense."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dutycycle_alerter.errors import SourceError
from dutycycle_alerter.kubernetes.model import DENIED, Metadata, Owner, Pod, Reference
from dutycycle_alerter.kubernetes.owners import DEEPEST, OwnerFinder

CHAINS = {
    # The controllers from the pod's up, as `apiVersion Kind`; the job is marked by *.
    "a Deployment": ("apps/v1 ReplicaSet", "apps/v1 Deployment*"),
    "a ReplicaSet of nobody": ("apps/v1 ReplicaSet*",),
    "a StatefulSet": ("apps/v1 StatefulSet*",),
    "a DaemonSet": ("apps/v1 DaemonSet*",),
    "a Job": ("batch/v1 Job*",),
    "one run of a CronJob": ("batch/v1 Job*", "batch/v1 CronJob"),
    "a JobSet": ("batch/v1 Job", "jobset.x-k8s.io/v1alpha2 JobSet*"),
    "a TrainJob": ("batch/v1 Job", "jobset.x-k8s.io/v1alpha2 JobSet", "trainer.kubeflow.org/v1alpha1 TrainJob*"),
    "a PyTorchJob": ("kubeflow.org/v1 PyTorchJob*",),
    "a TFJob": ("kubeflow.org/v1 TFJob*",),
    "an XGBoostJob": ("kubeflow.org/v1 XGBoostJob*",),
    "a PaddleJob": ("kubeflow.org/v1 PaddleJob*",),
    "a JAXJob": ("kubeflow.org/v1 JAXJob*",),
    "an MPIJob's worker": ("kubeflow.org/v2beta1 MPIJob*",),
    "an MPIJob's launcher": ("batch/v1 Job", "kubeflow.org/v2beta1 MPIJob*"),
    "a RayCluster": ("ray.io/v1 RayCluster*",),
    "a RayJob": ("ray.io/v1 RayCluster", "ray.io/v1 RayJob*"),
    "a RayJob's submitter": ("batch/v1 Job", "ray.io/v1 RayJob*"),
    "one run of a RayCronJob": ("ray.io/v1 RayCluster", "ray.io/v1 RayJob*", "ray.io/v1 RayCronJob"),
    "a RayService": ("ray.io/v1 RayCluster", "ray.io/v1 RayService*"),
    "a LeaderWorkerSet's leader": ("apps/v1 StatefulSet", "leaderworkerset.x-k8s.io/v1 LeaderWorkerSet*"),
    "a LeaderWorkerSet's worker": (
        "apps/v1 StatefulSet",
        "v1 Pod",
        "apps/v1 StatefulSet",
        "leaderworkerset.x-k8s.io/v1 LeaderWorkerSet*",
    ),
    "a notebook": ("apps/v1 StatefulSet", "kubeflow.org/v1 Notebook*"),
    "an Argo Workflow": ("argoproj.io/v1alpha1 Workflow*",),
    "one run of a CronWorkflow": ("argoproj.io/v1alpha1 Workflow*", "argoproj.io/v1alpha1 CronWorkflow"),
    "a pipeline's run": ("argoproj.io/v1alpha1 Workflow*", "kubeflow.org/v1beta1 ScheduledWorkflow"),
    "a Rollout": ("apps/v1 ReplicaSet", "argoproj.io/v1alpha1 Rollout*"),
    "a TaskRun": ("tekton.dev/v1 TaskRun*",),
    "a PipelineRun": ("tekton.dev/v1 TaskRun", "tekton.dev/v1 PipelineRun*"),
    "a Katib trial": ("batch/v1 Job", "kubeflow.org/v1beta1 Trial*", "kubeflow.org/v1beta1 Experiment"),
    "a distributed trial": (
        "kubeflow.org/v1 PyTorchJob",
        "kubeflow.org/v1beta1 Trial*",
        "kubeflow.org/v1beta1 Experiment",
    ),
    "an InferenceService on Knative": (
        "apps/v1 ReplicaSet",
        "apps/v1 Deployment",
        "serving.knative.dev/v1 Revision",
        "serving.knative.dev/v1 Configuration",
        "serving.knative.dev/v1 Service",
        "serving.kserve.io/v1beta1 InferenceService*",
    ),
    "an InferenceService": (
        "apps/v1 ReplicaSet",
        "apps/v1 Deployment",
        "serving.kserve.io/v1beta1 InferenceService*",
    ),
    "a Volcano job": ("batch.volcano.sh/v1alpha1 Job*",),
    "a Spark executor": ("v1 Pod", "sparkoperator.k8s.io/v1beta2 SparkApplication*"),
    "one run of scheduled Spark": (
        "v1 Pod",
        "sparkoperator.k8s.io/v1beta2 SparkApplication*",
        "sparkoperator.k8s.io/v1beta2 ScheduledSparkApplication",
    ),
    "a Spark executor without an operator": ("v1 Pod*",),
    "a Flink task manager": ("apps/v1 Deployment*",),
    "a wrapped job": ("kubeflow.org/v1 PyTorchJob*", "workload.codeflare.dev/v1beta2 AppWrapper"),
    "a custom controller's": ("batch/v1 Job", "example.com/v1 Sweep*"),
    "a custom controller's, by a schedule": ("batch/v1 Job", "example.com/v1 Sweep*", "batch/v1 CronJob"),
    "a daemon of the GPU operator": ("apps/v1 DaemonSet*", "nvidia.com/v1 ClusterPolicy"),
    "a runner": ("actions.github.com/v1alpha1 EphemeralRunner*", "actions.github.com/v1alpha1 EphemeralRunnerSet"),
}


class Server:
    """Objects by reference, with a count of the questions for each."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, Reference], Metadata | None] = {}
        self.asked: Counter[str] = Counter()
        self.silent = False

    def fetch(self, namespace: str, reference: Reference) -> Metadata | None:
        self.asked[reference.uid] += 1
        if self.silent:
            raise SourceError("the API server does not answer")
        return self.objects.get((namespace, reference))

    def add(self, kinds: Iterable[str], prefix: str = "") -> Reference | None:
        """The objects of a chain, given from the pod's controller up; the reference to the first."""
        owner: Reference | None = None
        for at, kind in reversed(list(enumerate(kinds))):
            version, _, name = kind.rstrip("*").partition(" ")
            reference = Reference(version, name, f"{prefix}{name.lower()}-{at}", f"{prefix}uid-{at}")
            self.objects["ml", reference] = Metadata(
                reference.uid, owner, 100.0 + at, {"level": name}, {name.lower(): "yes", "level": name}
            )
            owner = reference
        return owner


def pod(owner: Reference | None, name: str = "pod", **rest: object) -> Pod:
    return Pod("ml", name, f"uid-of-{name}", owner, created=7.0, **rest)  # type: ignore[arg-type]


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.mark.parametrize("kinds", CHAINS.values(), ids=CHAINS.keys())
def test_the_job_is_the_object_that_people_know(server: Server, kinds: tuple[str, ...]) -> None:
    """It is found for each operator, with what is written from it down to the pod, and the kinds on the way."""
    at = next(i for i, kind in enumerate(kinds) if kind.endswith("*"))
    finder = OwnerFinder(server.fetch)
    found = finder.find(pod(server.add(kinds), annotations={"pod": "yes", "level": "pod"}))
    names = [kind.rstrip("*").partition(" ")[2] for kind in kinds]
    assert (found.kind, found.uid, found.created) == (names[at], f"uid-{at}", 100.0 + at)
    assert found.namespace == "ml"
    assert found.name == f"{names[at].lower()}-{at}"
    assert found.group == kinds[at].partition(" ")[0].rpartition("/")[0]
    assert found.chain == tuple(reversed(names[: at + 1]))
    assert found.annotations["level"] == names[at]
    assert found.labels["level"] == names[at]
    assert {"pod", *(name.lower() for name in names[: at + 1])} <= found.annotations.keys()


@pytest.mark.parametrize("kinds", CHAINS.values(), ids=CHAINS.keys())
@pytest.mark.parametrize("level", range(4))
def test_an_object_that_may_not_be_read_is_known_by_the_reference_to_it(
    server: Server, kinds: tuple[str, ...], level: int
) -> None:
    """It is the job, unless the job is below it; the same for each of the job's pods."""
    first = server.add(kinds)
    job = next(i for i, kind in enumerate(kinds) if kind.endswith("*"))
    for key in server.objects:
        if key[1].uid == f"uid-{level}":
            server.objects[key] = None
    finder = OwnerFinder(server.fetch)
    one, other = finder.find(pod(first)), finder.find(pod(first, "other"))
    assert one.uid == f"uid-{min(level, job)}"
    assert one.workload == other.workload
    assert one.created == (None if level <= job else 100.0 + job)


@pytest.mark.parametrize("owner", [None, Reference("v1", "Node", "node-1", "uid-of-node")], ids=["bare", "static"])
def test_a_pod_that_no_job_controls_is_one(server: Server, owner: Reference | None) -> None:
    """Also one that a node runs by itself, and nobody is asked for the node."""
    found = OwnerFinder(server.fetch).find(pod(owner, labels={"a": "b"}, annotations={"c": "d"}))
    assert found == Owner("ml", "Pod", "pod", "uid-of-pod", "", 7.0, {"a": "b"}, {"c": "d"}, ())
    assert found.workload == "k8s/ml/pod/uid-of-pod"
    assert not server.asked


def test_what_is_in_no_namespace_is_no_job(server: Server) -> None:
    """An installer, a machine, or whatever else a cluster has: the job is below it, and says nothing of it."""
    first = server.add(["apps/v1 DaemonSet", "example.com/v1 Stack"])
    for key in server.objects:
        if key[1].kind == "Stack":
            server.objects[key] = Metadata(key[1].uid, annotations={"a": "b"}, cluster_scoped=True)
    found = OwnerFinder(server.fetch).find(pod(first))
    assert (found.kind, found.chain) == ("DaemonSet", ("DaemonSet",))
    assert "a" not in found.annotations


def test_what_is_gone_and_made_anew_is_another(server: Server) -> None:
    """The object under the owner's name has another uid: the one that is gone is the job, and it has no annotations."""
    first = server.add(["batch/v1 Job", "jobset.x-k8s.io/v1alpha2 JobSet"])
    assert first is not None
    server.objects["ml", first] = Metadata("another", None, 5.0, {"x": "y"}, {"user": "somebody else"})
    found = OwnerFinder(server.fetch).find(pod(first))
    assert (found.kind, found.uid, found.created, found.annotations) == ("Job", "uid-0", None, {})


def test_a_job_under_a_used_name_is_a_new_one(server: Server) -> None:
    """The first is known by what was written on it, the second is asked for."""
    before, after = (Reference("batch/v1", "Job", "train", uid) for uid in ("old", "new"))
    finder = OwnerFinder(server.fetch)
    server.objects = {("ml", before): Metadata("old", annotations={"run": "1"})}
    first = finder.find(pod(before))
    server.objects = {("ml", after): Metadata("new", annotations={"run": "2"})}
    second = finder.find(pod(after))
    assert (first.uid, first.annotations["run"], second.uid, second.annotations["run"]) == ("old", "1", "new", "2")
    assert finder.find(pod(before)) == first


def test_each_object_is_asked_for_once(server: Server) -> None:
    """Whatever the number of pods, and also where it is not there."""
    first = server.add(["apps/v1 ReplicaSet", "apps/v1 Deployment", "example.com/v1 App"])
    server.objects = {key: it for key, it in server.objects.items() if key[1].kind != "App"}
    finder = OwnerFinder(server.fetch)
    assert len({finder.find(pod(first, f"pod-{n}")).workload for n in range(50)}) == 1
    assert server.asked == {"uid-0": 1, "uid-1": 1, "uid-2": 1}


def test_a_silent_server_is_not_remembered(server: Server) -> None:
    """Its error is passed on, and the next question is asked again; what it said before is not forgotten."""
    first = server.add(["apps/v1 ReplicaSet", "apps/v1 Deployment"])
    finder = OwnerFinder(server.fetch)
    server.silent = True
    with pytest.raises(SourceError):
        finder.find(pod(first))
    assert len(finder) == 0
    server.silent = False
    known = finder.find(pod(first))
    assert known.kind == "Deployment"
    server.silent = True
    assert finder.find(pod(first)) == known


def test_what_is_written_later_is_read_when_renewed(server: Server) -> None:
    """The job stays the same, whatever the server now says of its owners, or where it says nothing."""
    first = server.add(["batch/v1 Job"])
    assert first is not None
    finder = OwnerFinder(server.fetch)
    before = finder.find(pod(first))
    other = Reference("example.com/v1", "Sweep", "sweep", "uid-of-sweep")
    server.objects["ml", first] = Metadata("uid-0", other, 100.0, {}, {"dutycycle.io/ignore": "idle"})
    assert finder.find(pod(first)) == before
    finder.renew()
    after = finder.find(pod(first))
    assert after.annotations == {"dutycycle.io/ignore": "idle"}
    assert after.workload == before.workload
    for gone in (None, Metadata("another")):
        server.objects["ml", first] = gone
        finder.renew()
        assert finder.find(pod(first)) == after
    finder.renew()
    server.silent = True
    asked = server.asked.total()
    assert finder.find(pod(first)) == finder.find(pod(first)) == after
    assert server.asked.total() == asked + 1


def test_an_object_that_was_not_there_stays_so_when_renewed(server: Server) -> None:
    """Else a job would become another one in its life, as soon as a right is granted."""
    first = server.add(["batch/v1 Job", "jobset.x-k8s.io/v1alpha2 JobSet"])
    finder = OwnerFinder(lambda namespace, reference: None)
    before = finder.find(pod(first))
    finder._fetch = server.fetch
    finder.renew()
    assert finder.find(pod(first)) == before


def test_what_no_pod_needs_is_forgotten(server: Server) -> None:
    """What is above a pod that is left is kept, also what its job was made by."""
    kept, gone = server.add(CHAINS["one run of scheduled Spark"], "kept-"), server.add(CHAINS["a Deployment"], "gone-")
    finder = OwnerFinder(server.fetch)
    pods = [pod(kept, "a"), pod(kept, "b"), pod(gone, "c"), pod(None, "d")]
    found = [finder.find(each) for each in pods]
    assert len(finder) == 5
    finder.forget_all_but([*pods[:2], pods[3]])
    assert len(finder) == 3
    server.silent = True
    assert [finder.find(each) for each in pods[:2]] == found[:2]
    with pytest.raises(SourceError):
        finder.find(pods[2])


def test_memory_has_an_end(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where nothing is ever forgotten, and of texts as long as a whole manifest."""
    monkeypatch.setattr("dutycycle_alerter.kubernetes.owners._MOST", 10)
    finder = OwnerFinder(lambda _, reference: Metadata(reference.uid, None, None, {}, {"a": "b", "c": "x" * 4097}))
    for n in range(50):
        reference = Reference("batch/v1", "Job", f"job-{n}", f"uid-{n}")
        assert finder.find(pod(reference)).annotations == {"a": "b"}
    assert len(finder) == 10


@pytest.mark.parametrize(
    ("job", "below", "on_the_pod", "schedule", "expected"),
    [
        ("alice", None, "system:serviceaccount:kube-system:replicaset-controller", None, "alice"),
        ("system:serviceaccount:ray:operator", None, "alice", None, "alice"),
        ("system:serviceaccount:kube-system:cronjob-controller", None, None, "alice", "alice"),
        (None, "alice", "bob", "carol", "alice"),
        (None, None, "bob", "carol", "bob"),
        ("system:a", "system:b", "system:c", None, "system:a"),
    ],
)
def test_a_controllers_stamp_gives_way(
    server: Server, job: str | None, below: str | None, on_the_pod: str | None, schedule: str | None, expected: str
) -> None:
    """The job's annotation counts, then what is nearest to it, then the schedule's; a controller's account last."""
    first = server.add(["batch/v1 Job", "jobset.x-k8s.io/v1alpha2 JobSet", "batch/v1 CronJob"])
    for uid, user in (("uid-0", below), ("uid-1", job), ("uid-2", schedule)):
        for key, it in server.objects.items():
            if it is not None and it.uid == uid:
                server.objects[key] = Metadata(uid, it.owner, annotations={"user": user} if user else {})
    found = OwnerFinder(server.fetch).find(pod(first, annotations={"user": on_the_pod} if on_the_pod else {}))
    assert found.kind == "JobSet"
    assert found.annotations["user"] == expected


@pytest.mark.parametrize(
    "reference",
    [
        Reference("v1", "Pod/../../secrets", "x", "u"),
        Reference("batch/v1", "Job", "../../x", "u"),
        Reference("batch/v1", "Job", "..", "u"),
        Reference("batch/v1", "Job", "a\nb", "u"),
        Reference("batch/v1", "Job", "x" * 254, "u"),
        Reference("batch/v1", "Job", "", "u"),
        Reference("batch/v1", "Job", "x", ""),
        Reference("batch/v1", "Job", "x", "k8s/ml/other"),
        Reference("a/b/v1", "Job", "x", "u"),
        Reference("", "Job", "x", "u"),
        Reference("batch/v1", "", "x", "u"),
        Reference("batch/v1", "Jöb", "x", "u"),
        Reference("batch/v1\n", "Job", "x", "u"),
    ],
    ids=repr,
)
def test_a_reference_that_can_be_no_object_is_none(server: Server, reference: Reference) -> None:
    """API servers take any text there. Nothing is asked for by such a name, and no job is called by it."""
    assert OwnerFinder(server.fetch).find(pod(reference)).kind == "Pod"
    assert not server.asked


def test_a_forged_reference_spoils_nobody_elses_job(server: Server) -> None:
    """A pod of another namespace, or under another name, with the uid of somebody's job: the job's own pods still find
    it, and the other one is not among them.
    """
    first = server.add(["apps/v1 ReplicaSet", "apps/v1 Deployment"])
    assert first is not None
    finder = OwnerFinder(server.fetch)
    named = finder.find(pod(Reference("apps/v1", "ReplicaSet", "forged", first.uid)))
    foreign = finder.find(Pod("evil", "pod", "uid-of-evil", first))
    true = finder.find(pod(first))
    assert true.kind == "Deployment"
    assert true.workload not in (named.workload, foreign.workload)


def test_a_chain_ends_in_the_depth_and_in_cycles(server: Server) -> None:
    """Ten controllers at most; an object that controls itself, or its own pod, is passed once."""
    deep = server.add([f"example.com/v1 Kind{n}" for n in range(DEEPEST + 5)])
    assert OwnerFinder(server.fetch).find(pod(deep)).kind == f"Kind{DEEPEST - 1}"
    assert server.asked.total() == DEEPEST
    ring = [Reference("example.com/v1", "Ring", name, f"uid-of-{name}") for name in ("one", "two", "three")]
    server.objects = {("ml", it): Metadata(it.uid, owner) for it, owner in zip(ring, [*ring[1:], ring[0]], strict=True)}
    assert OwnerFinder(server.fetch).find(pod(ring[0])).name == "three"
    self_made = Reference("v1", "Pod", "pod", "uid-of-pod")
    server.objects = {("ml", self_made): Metadata("uid-of-pod", self_made)}
    assert OwnerFinder(server.fetch).find(pod(self_made)).chain == ()


KINDS = st.sampled_from(["batch/v1 Job", "v1 Pod", "example.com/v1 Thing", "batch/v1 CronJob", "v1 Node", "apps/v1 !"])


@settings(max_examples=150, deadline=None)
@given(
    kinds=st.lists(KINDS, min_size=1, max_size=14),
    owners=st.lists(st.integers(-1, 13), min_size=14, max_size=14),
    present=st.lists(st.sampled_from(["there", "gone", "anew"]), min_size=14, max_size=14),
    pods=st.lists(st.integers(-1, 13), min_size=1, max_size=8),
)
def test_any_graph_of_owners_ends(kinds: list[str], owners: list[int], present: list[str], pods: list[int]) -> None:
    """The job is the pod, or above it; nothing is asked for twice, and pods with one controller have one job."""
    server = Server()

    def reference(at: int) -> Reference | None:
        if not 0 <= at < len(kinds):
            return None
        version, _, kind = kinds[at].partition(" ")
        return Reference(version, kind, f"name-{at}", f"uid-{at}")

    for at in range(len(kinds)):
        it = reference(at)
        assert it is not None
        uid = it.uid if present[at] == "there" else "other"
        server.objects["ml", it] = None if present[at] == "gone" else Metadata(uid, reference(owners[at]))
    finder = OwnerFinder(server.fetch)
    jobs: dict[int, set[str]] = {}
    for number, controller in enumerate(pods):
        each = pod(reference(controller), f"pod-{number}")
        found = finder.find(each)
        above, at = {each.uid}, controller
        while 0 <= at < len(kinds) and f"uid-{at}" not in above:
            above.add(f"uid-{at}")
            at = owners[at]
        assert found.uid in above
        assert found.kind not in ("CronJob", "Node", "!")
        if found.chain:
            jobs.setdefault(controller, set()).add(found.workload)
    assert all(count == 1 for count in server.asked.values())
    assert all(len(ids) == 1 for ids in jobs.values())


def test_an_object_that_may_not_be_read_is_read_once_it_may(server: Server) -> None:
    """It is the job until then. What was read before is not given up for a later refusal."""
    first = server.add(["batch/v1 Job", "jobset.x-k8s.io/v1alpha2 JobSet"])
    assert first is not None
    readable = server.objects["ml", first]
    server.objects["ml", first] = DENIED
    finder = OwnerFinder(server.fetch)
    assert finder.find(pod(first)).kind == "Job"
    for now in (DENIED, None):
        server.objects["ml", first] = now
        finder.renew()
        assert finder.find(pod(first)).kind == "Job"
    server.objects["ml", first] = readable
    assert finder.find(pod(first)).kind == "Job", "it is asked for again with the next renewal"
    finder.renew()
    known = finder.find(pod(first))
    assert known.kind == "JobSet"
    server.objects = dict.fromkeys(server.objects, DENIED)
    finder.renew()
    assert finder.find(pod(first)) == known
