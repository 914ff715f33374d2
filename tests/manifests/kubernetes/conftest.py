"""A kubectl, old or new, that talks to an API server without the kinds of any operator, or with them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.kubernetes import KubernetesServer
from tests.fakes.kubernetes.kubectl import NEWEST, OLDEST, Kubectl, serving
from tests.required import lacking

SCHEMAS = Path(sys.prefix) / "crd-schemas.json"
CUSTOM = {
    "monitoring.coreos.com/v1/PodMonitor": "podmonitors",
    "monitoring.coreos.com/v1/Prometheus": "prometheuses",
    "monitoring.coreos.com/v1/PrometheusRule": "prometheusrules",
    "monitoring.coreos.com/v1/ServiceMonitor": "servicemonitors",
    "monitoring.coreos.com/v1/ThanosRuler": "thanosrulers",
    "security.openshift.io/v1/SecurityContextConstraints": "securitycontextconstraints",
}
"""The kinds that operators bring, and the names of their resources."""
CLUSTER_WIDE = ("SecurityContextConstraints",)


@pytest.fixture(scope="module")
def serving_api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[KubernetesServer, Path]]:
    with serving(tmp_path_factory.mktemp("api"), namespaces=("default", "kube-system", "monitoring")) as both:
        yield both


@pytest.fixture
def server(serving_api: tuple[KubernetesServer, Path]) -> KubernetesServer:
    """Without the kinds of any operator."""
    serving_api[0].reset()
    return serving_api[0]


@pytest.fixture(params=[NEWEST, OLDEST], ids=lambda program: program.name)
def kubectl(
    server: KubernetesServer,
    serving_api: tuple[KubernetesServer, Path],
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> Kubectl:
    return Kubectl(server, tmp_path, serving_api[1], request.param)


@pytest.fixture
def operators(server: KubernetesServer) -> Iterator[None]:
    """With the kinds of the operators, as their definitions describe them."""
    if not SCHEMAS.exists():
        lacking(f"{SCHEMAS.name} (`make test` fetches it)")
    published = json.loads(SCHEMAS.read_text())["$defs"]
    for name, plural in CUSTOM.items():
        group, version, kind = name.split("/")
        namespaced = kind not in CLUSTER_WIDE
        server.install(group, version, kind, plural, namespaced=namespaced, status=False, schema=published[name])
    yield
    for name in CUSTOM:
        server.uninstall(name.rpartition("/")[2])
