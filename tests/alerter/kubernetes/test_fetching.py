"""Single objects, whatever their kind: where they are, what may not be read, what is not there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from dutycycle_alerter.errors import SourceError
from dutycycle_alerter.kubernetes import fetching
from dutycycle_alerter.kubernetes.access import Access
from dutycycle_alerter.kubernetes.client import Client
from dutycycle_alerter.kubernetes.fetching import Fetcher
from dutycycle_alerter.kubernetes.model import DENIED, Reference
from dutycycle_alerter.settings.kubernetes import KubernetesCluster
from tests.alerter.kubernetes.watched import kubeconfig
from tests.fakes.clock import FakeClock
from tests.fakes.kubernetes import KubernetesServer, Rule, builders

JOB = Reference("batch/v1", "Job", "train", "job-1")


@pytest.fixture(autouse=True)
def restless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kinds that failed are asked again at once."""
    monkeypatch.setattr(fetching, "_FIRST_REST", 0.0)


@pytest.fixture
def server() -> Iterator[KubernetesServer]:
    with KubernetesServer() as found:
        found.put(builders.workload("Job", "train", uid="job-1", labels={"team": "nlp"}))
        yield found


class Asked(Fetcher):
    """Counts its requests."""

    def __init__(self, directory: Path, server: KubernetesServer, token: str = "admin") -> None:
        self.count = 0
        path = kubeconfig(directory, server.url, {"token": token})
        self._access = Access(KubernetesCluster(kubeconfig=path))
        super().__init__(Client(self._access, 5.0), self._ask_one)

    def _ask_one(self) -> None:
        self.count += 1

    def close(self) -> None:
        self._access.close()


@pytest.fixture
def fetcher(tmp_path: Path, server: KubernetesServer) -> Iterator[Asked]:
    found = Asked(tmp_path, server)
    yield found
    found.close()


def custom(server: KubernetesServer, version: str = "v2", kind: str = "TrainingMatrix", **fields: object) -> None:
    server.put(builders.workload(kind, "big", uid="big-1", api_version=f"lab.example/{version}", **fields))  # type: ignore[arg-type]


def test_a_well_known_kind_takes_one_request(fetcher: Asked) -> None:
    found = fetcher.fetch("ml", JOB)
    assert found is not None
    assert (found.uid, found.labels, found.owner) == ("job-1", {"team": "nlp"}, None)
    assert fetcher.count == 1


def test_what_is_not_there(fetcher: Asked) -> None:
    assert fetcher.fetch("ml", Reference("batch/v1", "Job", "other", "job-2")) is None
    assert fetcher.count == 1


def test_names_of_all_sorts(server: KubernetesServer, fetcher: Asked) -> None:
    for name in ("train-0", "a.b-c.1", "Old:style", "..."):
        server.put(builders.workload("Job", name, uid=name))
        found = fetcher.fetch("ml", Reference("batch/v1", "Job", name, name))
        assert found is not None
        assert found.uid == name


def test_any_kind_that_is_installed(server: KubernetesServer, fetcher: Asked) -> None:
    """Its plural is asked for, once."""
    server.install("lab.example", "v2", "TrainingMatrix", "trainingmatrices")
    custom(server)
    for _ in range(2):
        found = fetcher.fetch("ml", Reference("lab.example/v2", "TrainingMatrix", "big", "big-1"))
        assert found is not None
        assert found.uid == "big-1"
    assert fetcher.count == 3


def test_a_kind_outside_namespaces(server: KubernetesServer, fetcher: Asked) -> None:
    server.install("lab.example", "v2", "Campaign", "campaigns", namespaced=False)
    custom(server, kind="Campaign")
    assert fetcher.fetch("ml", Reference("lab.example/v2", "Campaign", "big", "big-1")) is not None


@pytest.mark.parametrize("kind", ["TrainingMatrix", "PyTorchJob"])
def test_a_version_that_is_no_longer_served(server: KubernetesServer, fetcher: Asked, kind: str) -> None:
    """The reference keeps the version with which the pod was made."""
    group = "kubeflow.org" if kind == "PyTorchJob" else "lab.example"
    server.install(group, "v2", kind, f"{kind.lower()}s")
    server.put(builders.workload(kind, "big", uid="big-1", api_version=f"{group}/v2"))
    reference = Reference(f"{group}/v1", kind, "big", "big-1")
    assert fetcher.fetch("ml", reference) is not None
    count = fetcher.count
    assert fetcher.fetch("ml", reference) is not None
    assert fetcher.count == count + 1


@pytest.mark.parametrize(
    "reference",
    [
        Reference("gone.example/v1", "Thing", "big", "big-1"),
        Reference("kubeflow.org/v1", "PyTorchJob", "big", "big-1"),
        Reference("batch/v1", "Thing", "big", "big-1"),
        Reference("v1", "Thing", "big", "big-1"),
    ],
)
def test_a_kind_that_is_not_installed(fetcher: Asked, reference: Reference) -> None:
    assert fetcher.fetch("ml", reference) is None
    count = fetcher.count
    assert fetcher.fetch("ml", reference) is None
    assert fetcher.count == count
    assert fetcher.note() == ""


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    """The fetcher's."""
    found = FakeClock()
    monkeypatch.setattr(fetching, "time", SimpleNamespace(monotonic=found))
    return found


def refused(fetcher: Asked, reference: Reference, clock: FakeClock, times: int = 4) -> None:
    """Fetches every 20 s, once less than it takes to believe the refusals."""
    for _ in range(times - 1):
        with pytest.raises(SourceError, match="403"):
            fetcher.fetch("ml", reference)
        clock.advance(20.0)


def test_a_kind_that_may_not_be_read(tmp_path: Path, server: KubernetesServer, clock: FakeClock) -> None:
    """It is not asked for again and again, and the status says what to grant; elsewhere it may be readable."""
    server.install("kubeflow.org", "v1", "PyTorchJob", "pytorchjobs")
    server.add_user("alerter", "token", Rule(("get",), ("jobs",), ("batch",), ("lab",)))
    server.put(builders.workload("Job", "train", uid="job-1", namespace="lab"))
    fetcher = Asked(tmp_path, server, "token")
    torch = Reference("kubeflow.org/v1", "PyTorchJob", "big", "big-1")
    for reference in (torch, JOB):
        refused(fetcher, reference, clock)
        assert fetcher.fetch("lab", JOB) is not None, "a refusal in one namespace holds up no other"
        for _ in range(3):
            assert fetcher.fetch("ml", reference) is DENIED
    assert fetcher.count == 2 * (4 + 1)
    assert fetcher.note() == (
        "may not read jobs.batch, pytorchjobs.kubeflow.org: grant get on them, or jobs end at what they own"
    )
    fetcher.close()


def test_a_refusal_is_believed_after_a_minute_of_refusals(
    server: KubernetesServer, fetcher: Asked, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Another answer, or a long time without a request, starts the minute again. So it is for discovery."""
    other = Reference("lab.example/v2", "TrainingMatrix", "big", "big-1")
    server.install("lab.example", "v2", "TrainingMatrix", "trainingmatrices")
    custom(server)
    for reference in (JOB, other):
        with server.inject("error", code=403):
            refused(fetcher, reference, clock, times=3)
        assert fetcher.fetch("ml", reference) is not None
        with server.inject("error", code=403):
            refused(fetcher, reference, clock, times=3)
            clock.advance(1000.0)
            refused(fetcher, reference, clock, times=3)
        clock.advance(1000.0)
        assert fetcher.fetch("ml", reference) is not None
    refusals = [record for record in caplog.records if "403" in record.message]
    assert refusals, "operators see it"
    assert len(refusals) < 9, "and not every one of them"


def test_a_forbidden_kind_is_asked_for_again(tmp_path: Path, server: KubernetesServer, clock: FakeClock) -> None:
    server.add_user("alerter", "token")
    fetcher = Asked(tmp_path, server, "token")
    refused(fetcher, JOB, clock)
    assert fetcher.note() == ""
    assert fetcher.fetch("ml", JOB) is DENIED
    count = fetcher.count
    clock.advance(fetching.REMEMBERED - 1.0)
    assert fetcher.fetch("ml", JOB) is DENIED
    assert fetcher.count == count
    clock.advance(1.0)
    assert fetcher.note() == ""
    assert fetcher.fetch("ml", JOB) is DENIED, "one more refusal is enough then"
    assert fetcher.count == count + 1
    server.add_user("alerter", "token", *server.users["admin"].rules)
    clock.advance(fetching.REMEMBERED)
    assert fetcher.fetch("ml", JOB) is not None
    assert fetcher.note() == ""
    fetcher.close()


def test_a_server_that_knows_no_partial_objects(server: KubernetesServer, fetcher: Asked) -> None:
    with server.inject("error", code=406, times=1):
        found = fetcher.fetch("ml", JOB)
    assert found is not None
    assert (found.uid, fetcher.count) == ("job-1", 2)


@pytest.mark.parametrize(
    ("action", "how"),
    [
        ("error", {"code": 500}),
        ("error", {"code": 429, "retry_after": 0}),
        ("error", {"code": 401}),
        ("close", {}),
        ("garbage", {}),
    ],
)
def test_what_may_pass_is_an_error(server: KubernetesServer, fetcher: Asked, action: str, how: dict[str, int]) -> None:
    """And not the end of a job."""
    with server.inject(action, **how), pytest.raises(SourceError, match="Kubernetes cluster"):
        fetcher.fetch("ml", JOB)
    server.install("lab.example", "v2", "TrainingMatrix", "trainingmatrices")
    custom(server)
    other = Reference("lab.example/v2", "TrainingMatrix", "big", "big-1")
    with server.inject(action, **how), pytest.raises(SourceError):
        fetcher.fetch("ml", other)
    assert fetcher.fetch("ml", JOB) is not None
    assert fetcher.fetch("ml", other) is not None


@pytest.mark.parametrize(
    "reference",
    [
        *(Reference("batch/v1", "Job", name, "u") for name in ("a/../../b?c#d", "..", ".", "a%2fb", "a b", "a\n", "")),
        *(Reference(f"{group}/v1", "Job", "train", "u") for group in ("..", "a..b", "-a", "a.", "A", "a%2e", "x/..")),
        *(
            Reference(version, "Job", "train", "u")
            for version in ("../metrics", "batch/..", "batch/", "..", "", "v%31")
        ),
        *(Reference(version, "Thing", "train", "u") for version in ("../metrics", "batch/..", "a/b/c", "batch/v1?x=y")),
    ],
)
def test_names_are_no_paths(server: KubernetesServer, fetcher: Asked, reference: Reference) -> None:
    """Anybody can write anything into a reference: it would lead to what the alerter may read, and he may not."""
    assert fetcher.fetch("ml", reference) is None
    assert fetcher.fetch("../../..", JOB) is None
    assert not server.requests


def test_a_server_cannot_lead_elsewhere(server: KubernetesServer, fetcher: Asked) -> None:
    kinds = {"resources": [{"name": "../../../metrics", "kind": "Thing"}]}
    with server.inject("garbage", body=json.dumps(kinds).encode(), path="/apis/lab.example/v2$"):
        assert fetcher.fetch("ml", Reference("lab.example/v2", "Thing", "big", "big-1")) is None
    group = {"preferredVersion": {"version": "../../metrics"}}
    with server.inject("garbage", body=json.dumps(group).encode(), path="/apis/other.example$"):
        assert fetcher.fetch("ml", Reference("other.example/v2", "Thing", "big", "big-1")) is None
    assert not [request for request in server.requests if "metrics" in request.path]


def test_credentials_are_read_again(tmp_path: Path, server: KubernetesServer) -> None:
    fetcher = Asked(tmp_path, server, "ended")
    kubeconfig(tmp_path, server.url, {"token": "admin"})
    with pytest.raises(SourceError, match="has it ended"):
        fetcher.fetch("ml", JOB)
    assert fetcher.fetch("ml", JOB) is not None
    fetcher.close()


def test_a_kind_that_fails_is_left_alone_for_a_while(
    server: KubernetesServer, fetcher: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Longer each time: each may take long to fail. Others go on, and it is well again with its first answer."""
    monkeypatch.setattr(fetching, "_FIRST_REST", 1000.0)
    monkeypatch.setattr(fetching, "_LONGEST_REST", 3000.0)
    other = Reference("apps/v1", "ReplicaSet", "web", "web-1")
    with server.inject("error", code=500, path="/jobs/") as fault:
        clock = 0.0
        monkeypatch.setattr(fetching, "time", SimpleNamespace(monotonic=lambda: clock))
        for at, count in (
            (0, 1),
            (999, 1),
            (1001, 2),
            (3000, 2),
            (3002, 3),
            (6001, 3),
            (6003, 4),
            (9002, 4),
            (9004, 5),
        ):
            clock = at
            with pytest.raises(SourceError, match="the server says 500"):
                fetcher.fetch("ml", JOB)
            assert (at, fault.count) == (at, count)
        assert fetcher.fetch("ml", other) is None
    clock = 20_000.0
    assert fetcher.fetch("ml", JOB) is not None
    with server.inject("error", code=429, retry_after=500, path="/jobs/") as fault:
        monkeypatch.setattr(fetching, "_FIRST_REST", 1.0)
        for at, count in ((20_001, 1), (20_500, 1), (20_502, 2)):
            clock = at
            with pytest.raises(SourceError, match="429"):
                fetcher.fetch("ml", JOB)
            assert fault.count == count


def test_one_object_may_not_take_as_long_as_a_list(
    server: KubernetesServer, fetcher: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetching, "_ANSWER", 0.3)
    with server.inject("hang"), pytest.raises(SourceError, match=r"no answer within 0\.3 s"):
        fetcher.fetch("ml", JOB)
