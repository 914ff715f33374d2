"""Single objects, whatever their kind: where they are, what may not be read, what is not there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dutycycle_alerter.errors import SourceError
from dutycycle_alerter.kubernetes.access import Access
from dutycycle_alerter.kubernetes.client import Client
from dutycycle_alerter.kubernetes.fetching import Fetcher
from dutycycle_alerter.kubernetes.model import Reference
from dutycycle_alerter.settings.kubernetes import KubernetesCluster
from tests.alerter.kubernetes.watched import kubeconfig
from tests.fakes.kubernetes import KubernetesServer, Rule, builders

JOB = Reference("batch/v1", "Job", "train", "job-1")


@pytest.fixture
def server() -> Iterator[KubernetesServer]:
    with KubernetesServer() as found:
        found.put(builders.workload("Job", "train", uid="job-1", labels={"team": "nlp"}))
        yield found


class Asked(Fetcher):
    """Counts its requests."""

    def __init__(
        self, directory: Path, server: KubernetesServer, token: str = "admin", remembered: float = 600.0
    ) -> None:
        self.count = 0
        path = kubeconfig(directory, server.url, {"token": token})
        self._access = Access(KubernetesCluster(kubeconfig=path))
        super().__init__(Client(self._access, 5.0), self._ask_one, remembered=remembered)

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


@pytest.mark.parametrize(
    "reference",
    [
        pytest.param(Reference("batch/v1", "Job", "other", "job-2"), id="deleted"),
        pytest.param(Reference("batch/v1", "Job", "train", "job-0"), id="made anew under its name"),
    ],
)
def test_what_is_not_there(fetcher: Asked, reference: Reference) -> None:
    assert fetcher.fetch("ml", reference) is None
    assert fetcher.count == 1


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


def test_a_kind_that_may_not_be_read(tmp_path: Path, server: KubernetesServer) -> None:
    """It is not asked for again and again, and the status says what to grant; elsewhere it may be readable."""
    server.install("kubeflow.org", "v1", "PyTorchJob", "pytorchjobs")
    server.add_user("alerter", "token", Rule(("get",), ("jobs",), ("batch",), ("lab",)))
    server.put(builders.workload("Job", "train", uid="job-1", namespace="lab"))
    fetcher = Asked(tmp_path, server, "token")
    torch = Reference("kubeflow.org/v1", "PyTorchJob", "big", "big-1")
    for _ in range(3):
        assert fetcher.fetch("ml", torch) is None
        assert fetcher.fetch("ml", JOB) is None
    assert fetcher.count == 2
    assert fetcher.fetch("lab", JOB) is not None
    assert fetcher.note() == (
        "may not read jobs.batch, pytorchjobs.kubeflow.org: grant get on them, or jobs end at what they own"
    )
    fetcher.close()


def test_that_it_may_not_be_read_is_believed_for_a_while(tmp_path: Path, server: KubernetesServer) -> None:
    server.add_user("alerter", "token")
    fetcher = Asked(tmp_path, server, "token", remembered=0.0)
    assert fetcher.fetch("ml", JOB) is None
    assert fetcher.note() == ""
    server.add_user("alerter", "token", *server.users["admin"].rules)
    assert fetcher.fetch("ml", JOB) is not None
    fetcher.close()


def test_a_server_that_knows_no_partial_objects(server: KubernetesServer, fetcher: Asked) -> None:
    with server.inject("error", code=406, times=1):
        found = fetcher.fetch("ml", JOB)
    assert found is not None
    assert (found.uid, fetcher.count) == ("job-1", 2)


@pytest.mark.parametrize(
    ("action", "how"),
    [("error", {"code": 500}), ("error", {"code": 429}), ("error", {"code": 401}), ("close", {}), ("garbage", {})],
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


def test_names_are_no_paths(server: KubernetesServer, fetcher: Asked) -> None:
    assert fetcher.fetch("ml", Reference("batch/v1", "Job", "a/../../b?c#d", "job-1")) is None
    assert server.requests[-1].path in ("/apis/batch/v1/namespaces/ml/jobs/a%2F..%2F..%2Fb%3Fc%23d", "/apis/batch/v1")
