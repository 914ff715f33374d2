"""The API server of the tests answers what a real one was recorded to answer; what is not replayed is named.

Reads must be answered with equal JSON where the objects are those of the recording, writes with JSON of one shape
(names, uids and times are the server's own); a Status must say the same in the same words. The three seconds that a
server waits for a resource version are quickened here; watches are in test_kubernetes_recorded_watches,
policies and pod security in test_kubernetes_recorded_admission, server-side apply in test_kubernetes_recorded_applying.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.fakes.kubernetes import Clock, KubernetesServer
from tests.fakes.kubernetes import recorded as real
from tests.fakes.kubernetes.recorded import differences, exchange, keep, replay
from tests.fakes.test_kubernetes_recorded_admission import REPLAYED as ADMITTED
from tests.fakes.test_kubernetes_recorded_applying import REPLAYED as APPLIED
from tests.fakes.test_kubernetes_recorded_watches import REPLAYED as WATCHED

_ALREADY = "a namespace that is labelled looks at no pods that are there: they are refused when they come"
LEFT_OUT = {
    "02-pods/list-protobuf": "protobuf is not spoken: who accepts JSON as well gets JSON, else 406",
    "07-admission/psa-label-warning": _ALREADY,
    "06-authn/tokenrequest": "no tokens are issued: a test names the token of a user",
}
"""Recorded, not replayed, and why."""


def of(directory: str, stems: str) -> list[str]:
    return [f"{directory}/{stem}" for stem in stems.split()]


DISCOVERY = of(
    "01-discovery",
    """agg-api agg-apis api api-v1 apis apis-admissionregistration apis-admissionregistration-v1 apis-apps-v1
    apis-batch-v1 apis-coordination-v1 apis-policy-v1 healthz kubectl-accept-api livez readyz readyz-verbose version
    version-noauth""",
)
AT_375 = of(
    "02-pods",
    """deployment-get job-get list-all list-continue-bad list-empty-selector-result list-fieldselector-bad
    list-fieldselector-node list-fieldselector-node-phase list-fieldselector-phase-pending
    list-fieldselector-unassigned list-labelselector-bad list-labelselector-eq list-labelselector-exists
    list-labelselector-set list-limit-bad list-limit3-page1 list-limit3-page2 list-limit3-page3 list-rv-bad list-rv0
    list-rv0-limit3 pod-get-bare pod-get-deployment pod-get-unschedulable replicaset-get""",
)
AT_376 = of(
    "02-pods",
    """get-metadata-only head-pods list-accept-none list-accept-star list-metadata-only list-metadata-only-limit2
    list-nodes list-ns list-ns-nonexistent list-pretty list-rv-future list-rvmatch-without-rv list-yaml""",
)
CREATED = of(
    "02-pods",
    """ns-create-ml ns-create-restricted node-create-gpu-node-a node-status-patch-gpu-node-a deployment-create
    job-create statefulset-create pod-create-multi pod-create-unschedulable pod-create-bare""",
)
REFUSED = of(
    "04-errors",
    """400-bad-quantity 400-bad-type 400-empty-body 400-namespace-mismatch 400-not-json 400-wrong-kind 401-bad-token
    403-alice-other-namespace 403-no-token-anonymous 403-sa-create-pod 403-sa-delete-pod 403-sa-get-secret-ns
    403-sa-lease 403-sa-list-secrets 403-sa-node-proxy 403-sa-nonresource 403-sa-patch-pod 403-sa-patch-scale
    403-sa-pod-eviction 403-sa-pod-exec 403-sa-pod-log 403-sa-unknown-resource 404-create-in-missing-namespace
    404-crd-group 404-namespace 404-pod 404-pod-delete 404-unknown-group 404-unknown-path 404-unknown-resource
    405-delete-all-namespaces-pods 405-put-collection 406-accept-text 409-pod-already-exists 409-pod-put-stale
    415-patch-application-json 415-patch-no-content-type 415-post-text 422-bad-label 422-bad-name
    422-deployment-selector 422-gpu-fraction 422-gpu-request-lt-limit 422-gpu-request-ne-limit
    422-gpu-request-without-limit 422-no-containers 422-no-name 422-pod-immutable-spec json-patch-test-fails-422
    post-no-content-type""",
)
GRANTED = of("04-errors", "rbac-bind-gpumon-alerter rbac-role-gpumon-alerter rolebinding-alice-edit-ml sa-create")
LEASE = of(
    "04-errors",
    """lease-404 lease-1-create lease-2-already-exists-409 lease-3-get lease-4-update lease-5-stale-update-409
    lease-6-put-without-rv lease-7-patch-stale-rv-409 lease-8-wrong-uid-409 lease-9b-bad-time-400
    lease-9c-put-missing-creates lease-9d-name-mismatch-400 lease-9e-delete-precondition-409 lease-9f-delete-200
    lease-9-bad-duration-422""",
)
NO_ANONYMOUS = of(
    "04-errors",
    """401-bad-token-anonymous-off 401-no-token-anonymous-off 401-readyz-anonymous-off 401-version-anonymous-off""",
)
ODD_HEADERS = {"04-errors/401-basic-auth": "Basic YWxpY2U6eA==", "04-errors/401-malformed-bearer": "Bearer "}
REVIEWS = {
    **dict.fromkeys(
        of(
            "06-authn",
            """sar-403 sar-alice self-subject-review self-subject-review-sa ssar-admin ssar-allowed ssar-anonymous
            ssar-bad-422 ssar-denied ssar-nonresource ssar-scale ssar-unknown-resource ssrr tokenreview-403
            tokenreview-bad tokenreview-empty""",
        ),
        "",
    ),
    "06-authn/tokenreview-alice": "alice",
    **dict.fromkeys(
        of("06-authn", "tokenreview-sa tokenreview-sa-audience tokenreview-sa-wrong-audience"), "sa:gpumon:alerter"
    ),
}
"""And whose the token is that was taken out of the recording."""
WRITES = {
    "05-writes/default-unknown-field": "",
    "05-writes/ignore-unknown-field": "",
    "05-writes/warn-unknown-field": "",
    "05-writes/strict-400-unknown-field": "",
    "05-writes/strict-400-duplicate-field": "",
    "05-writes/dryrun-create-pod": "",
    "05-writes/dryrun-create-pod-404-after": "",
    "05-writes/dryrun-bad-value": "02-pods/pod-get-bare",
    "05-writes/dryrun-delete-pod": "02-pods/pod-get-bare",
    "05-writes/dryrun-delete-body": "02-pods/pod-get-bare",
    "05-writes/dryrun-delete-get-after": "02-pods/pod-get-bare",
    "05-writes/merge-patch-annotation": "05-writes/ssa-3-force",
    "05-writes/merge-patch-remove-annotation": "05-writes/merge-patch-annotation",
    "05-writes/pdb-create": "",
    "05-writes/pdb-get": "05-writes/pdb-get",
    "05-writes/scale-get": "02-pods/deployment-get",
    "05-writes/eviction-dryrun-201": "02-pods/list-all",
    "05-writes/eviction-429-pdb": "02-pods/list-all 05-writes/pdb-get",
    "05-writes/eviction-name-mismatch-400": "02-pods/list-all",
    "05-writes/eviction-precondition-409": "02-pods/list-all",
    "05-writes/eviction-404": "",
    "05-writes/eviction-201": "02-pods/list-all",
    "05-writes/eviction-201-get-after": "05-writes/eviction-201-get-after",
    "05-writes/scale-patch-to-zero": "02-pods/deployment-get",
    "05-writes/scale-get-after": "05-writes/deployment-get-scaled",
    "05-writes/deployment-get-scaled": "05-writes/deployment-get-scaled",
    "05-writes/scale-404": "",
    "05-writes/scale-patch-negative-422": "05-writes/deployment-get-scaled",
    "05-writes/scale-put-stale-409": "05-writes/deployment-get-scaled",
    "05-writes/scale-statefulset-patch": "02-pods/statefulset-create",
    "05-writes/job-suspend-patch": "02-pods/job-get",
    "05-writes/job-get-suspended": "05-writes/job-get-suspended",
    "05-writes/delete-options-propagation": "05-writes/job-get-suspended",
    "05-writes/event-create": "",
    "05-writes/apply-pod-404-ssa": "",
    "05-writes/delete-precondition-uid-409": "03-watch/expired-watch-no-chunk",
    "05-writes/delete-precondition-ok-200": "03-watch/expired-watch-no-chunk",
    "05-writes/namespace-delete": "03-watch/watch-table",
    "02-pods/pod-status-patch": "02-pods/pod-get-bare",
}
"""And what is there before. Where that is the answer itself: a controller made it so, and none runs here."""
READS = {
    name: name
    for name in (
        *of("02-pods", "list-gzip list-gzip-small"),
        *of("05-writes", "pods-after-scale"),
        *of("07-admission", "map-deployment-pods map-pod-get map2-deployment-pods psa-restricted-daemonset-events"),
        *of("09-podresources", "k8s-pod-admission-failed k8s-pod-running k8s-pod-succeeded"),
    )
}
"""Reads whose answers are all that is known of their moment: selected, framed and packed as recorded."""
PATHS = of("07-admission", "map-resources-v1 map-resources-v1alpha1 map-resources-v1beta1 map-create-v1beta1")
NOT_MODIFIED = "01-discovery/agg-apis-304"
SCHEMAS = "01-discovery/openapi-v3-index"
REPLAYED = (
    *(*DISCOVERY, NOT_MODIFIED, SCHEMAS, *AT_375, *AT_376, *CREATED, *REFUSED, *GRANTED, *LEASE, *NO_ANONYMOUS),
    *(*ODD_HEADERS, *REVIEWS, *WRITES, *READS, *PATHS, *WATCHED),
    *(*ADMITTED, *APPLIED),
)


def test_every_recorded_exchange_is_replayed_or_left_out_for_a_reason() -> None:
    listed = [*REPLAYED, *LEFT_OUT]
    assert sorted(listed) == sorted(set(listed)), "none is in both lists, and none twice"
    assert set(listed) == set(real.names())
    assert all(LEFT_OUT.values())


@pytest.fixture(scope="module")
def serving() -> Iterator[KubernetesServer]:
    with KubernetesServer(clock=Clock(pace=0.05), namespaces=()) as server:
        real.introduce(server)
        yield server


@pytest.fixture
def server(serving: KubernetesServer) -> KubernetesServer:
    """With the namespaces of the recordings, and nothing else."""
    serving.reset()
    keep(serving, "03-watch/watch-table")
    return serving


@pytest.fixture
def cluster(server: KubernetesServer) -> KubernetesServer:
    keep(server, "02-pods/list-all", "02-pods/list-nodes")
    keep(server, *of("02-pods", "deployment-get job-get replicaset-get"))
    return server


@pytest.mark.parametrize("name", [*DISCOVERY, *PATHS])
def test_discovery(server: KubernetesServer, name: str) -> None:
    one = exchange(name)
    assert differences(one, replay(server, one)) == []


def test_discovery_says_the_same_of_each_resource(server: KubernetesServer) -> None:
    for name in of("01-discovery", "api-v1 apis-apps-v1 apis-batch-v1 apis-coordination-v1 apis-policy-v1"):
        one = exchange(name)
        theirs = {each["name"]: each for each in one.object()["resources"]}
        mine = {each["name"]: each for each in real.answered(server, one)["resources"]}
        assert mine == {each: theirs[each] for each in mine}


def test_the_index_of_schemas(server: KubernetesServer) -> None:
    """Of the groups that are here; the documents themselves are this server's own, and so are their digests."""
    one = exchange(SCHEMAS)
    answer = replay(server, one)
    assert (answer.code, answer.headers["Content-Type"]) == (one.code, one.answered["Content-Type"])
    mine, theirs = json.loads(answer.body)["paths"], json.loads(one.answer)["paths"]
    for path, shown in mine.items():
        url, _, digest = shown["serverRelativeURL"].partition("?hash=")
        assert (url, len(digest)) == (theirs[path]["serverRelativeURL"].partition("?")[0], 128)
    assert {path for path in theirs if path.startswith(("apis/apps/v", "apis/batch/v", "api/v"))} <= set(mine)


def test_discovery_that_is_known_already(server: KubernetesServer) -> None:
    """Its tag is a digest of what is installed, so it is this server's own that is sent."""
    one = exchange(NOT_MODIFIED)
    tag = replay(server, exchange("01-discovery/agg-apis")).headers["Etag"]
    assert len(tag) == len(one.headers["If-None-Match"])
    answer = replay(server, replace(one, headers={**one.headers, "If-None-Match": tag}))
    assert (answer.code, answer.body, answer.headers["Etag"]) == (one.code, b"", tag)


@pytest.mark.parametrize("name", [*AT_375, *AT_376])
def test_reads_of_a_small_cluster(cluster: KubernetesServer, name: str) -> None:
    cluster.skip_to(375 if name in AT_375 else 376)
    one = exchange(name)
    assert differences(one, replay(cluster, one), exact=True) == []


@pytest.mark.parametrize(("name", "there"), READS.items())
def test_reads_of_other_moments(server: KubernetesServer, name: str, there: str) -> None:
    keep(server, there)
    one = exchange(name)
    found = real.object_of(one.answer)
    if "items" in found:
        server.skip_to(int(found["metadata"]["resourceVersion"]))
    assert differences(one, replay(server, one), exact=True) == []


def test_what_was_created(server: KubernetesServer) -> None:
    """In turn; after each the server has what the real one had."""
    for name in ("ml", "restricted"):
        server.delete("Namespace", "", name)
    for name in CREATED:
        one = exchange(name)
        assert differences(one, replay(server, one)) == []
        keep(server, name)


@pytest.mark.parametrize("name", [*REFUSED, *GRANTED])
def test_errors(server: KubernetesServer, name: str) -> None:
    keep(server, "02-pods/pod-get-bare", "02-pods/deployment-get")
    one = exchange(name)
    assert differences(one, replay(server, one)) == []


@pytest.mark.parametrize("name", ODD_HEADERS)
def test_what_is_no_bearer_token_counts_as_none(server: KubernetesServer, name: str) -> None:
    one = exchange(name)
    assert differences(one, replay(server, one, ODD_HEADERS[name])) == []


def test_a_lease(server: KubernetesServer) -> None:
    """In turn; after each write the server has what the real one had."""
    for name in LEASE:
        one = exchange(name)
        assert differences(one, replay(server, one), exact=one.method == "GET") == []
        if one.method != "DELETE" and one.code in (200, 201):
            keep(server, name)


def test_without_anonymous_requests() -> None:
    with KubernetesServer(anonymous=False) as server:
        for name in NO_ANONYMOUS:
            one = exchange(name)
            assert differences(one, replay(server, one)) == []


@pytest.mark.parametrize(("name", "whose"), REVIEWS.items())
def test_reviews(server: KubernetesServer, name: str, whose: str) -> None:
    if whose:
        server.users["<redacted-token>"] = server.users[whose]
    one = exchange(name)
    try:
        assert differences(one, replay(server, one)) == []
    finally:
        server.users.pop("<redacted-token>", None)


@pytest.mark.parametrize(("name", "there"), WRITES.items())
def test_writes(server: KubernetesServer, name: str, there: str) -> None:
    keep(server, *there.split())
    one = exchange(name)
    assert differences(one, replay(server, one), exact=there == name) == []


def test_the_comparison_sees_what_is_wrong(server: KubernetesServer) -> None:
    keep(server, "02-pods/pod-get-bare")
    one = exchange("02-pods/pod-get-bare")
    server.patch("Pod", "ml", "notebook-carol", {"spec": {"nodeName": None}, "status": {"phase": 1, "podIPs": []}})
    found = differences(one, replay(server, one))
    assert found == [
        f"{one.name}: .spec.nodeName is missing",
        f"{one.name}: .status.phase is int for str",
        f"{one.name}: .status.podIPs[] is None for {{'ip': 'str'}}",
    ]
    assert differences(replace(one, code=201), replay(server, one))
    assert differences(replace(one, answered={**one.answered, "Warning": "x"}), replay(server, one))
    missing = exchange("04-errors/404-pod")
    other = replace(missing, url=missing.url.replace("nope", "nobody"))
    assert differences(missing, replay(server, other))
