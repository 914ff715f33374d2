"""Whose job it is: what is written on it, by whom, and what counts as nobody."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutycycle_alerter.kubernetes.model import Owner, Pod
from dutycycle_alerter.kubernetes.users import user_of
from dutycycle_alerter.settings.kubernetes import KubernetesCluster

NOBODY = {
    "empty": "",
    "blank": "  \n",
    "a controller's account": "system:serviceaccount:kube-system:replicaset-controller",
    "the cluster's own": "system:node:node-1",
    "the first administrator": "kubernetes-admin",
    "OpenShift's": "kube:admin",
    "two lines": "alice\nbob",
    "a control character": "alice\x1b[31m",
    "turned round": "alice\u202ebob",
    "not of UTF-8": "alice\ud800",
    "too long": "a" * 257,
}


def user(
    *,
    job: Mapping[str, str] | None = None,
    job_labels: Mapping[str, str] | None = None,
    pod: Mapping[str, str] | None = None,
    pod_labels: Mapping[str, str] | None = None,
    namespace: str = "ml-vision",
    **options: object,
) -> str:
    settings = KubernetesCluster.model_validate(options)
    return user_of(
        Pod(namespace, "pod", "uid-1", labels=pod_labels or {}, annotations=pod or {}),
        Owner(namespace, "Job", "job", "uid-2", "batch", labels=job_labels or {}, annotations=job or {}),
        settings,
    )


def test_the_namespace_is_the_user_where_nothing_else_is_known() -> None:
    """As the exporters have it."""
    assert user() == "ml-vision"


def test_the_annotation_on_the_job_counts_first() -> None:
    """Before that on the pod, the label, other programs' words, and the namespace's user."""
    job, pod = {"example.com/who": "alice", "hub.jupyter.org/username": "eve"}, {"example.com/who": "bob"}
    options = {
        "user_annotation": "example.com/who",
        "user_label": "who",
        "users": {"ml-*": "dora"},
        "job_labels": {"who": "carol"},
    }
    assert user(job=job, pod=pod, **options) == "alice"  # type: ignore[arg-type]
    assert user(pod=pod, **options) == "bob"  # type: ignore[arg-type]
    assert user(job={"hub.jupyter.org/username": "eve"}, **options) == "carol"  # type: ignore[arg-type]
    options["job_labels"] = {}
    assert user(pod_labels={"who": "carol"}, **options) == "carol"  # type: ignore[arg-type]
    assert user(job={"hub.jupyter.org/username": "eve"}, **options) == "eve"  # type: ignore[arg-type]
    assert user(**options) == "dora"  # type: ignore[arg-type]


@pytest.mark.parametrize("text", NOBODY.values(), ids=NOBODY.keys())
def test_what_names_no_person_counts_as_absent(text: str) -> None:
    """The next one that says something is taken: a controller's stamp on the job does not hide the user on the pod."""
    assert user(job={"dutycycle.io/user": text}, pod={"dutycycle.io/user": "alice"}) == "alice"
    assert user(job={"dutycycle.io/user": text}, users={"ml-*": text or "x"}) in (text, "x")
    assert user(job={"dutycycle.io/user": text}) == "ml-vision"


def test_a_name_may_be_an_address_of_any_script_with_blanks_around() -> None:
    """256 characters are taken, and a line's end, such as YAML's blocks have, is not of the name."""
    for name in ("alice@example.com", "Zoë Müller", "李雷", "a" * 256, "oidc:alice", "arn:aws:iam::1:user/alice"):
        assert user(job={"dutycycle.io/user": f" {name}\n"}) == name


def test_no_annotation_and_no_label_can_be_asked_for() -> None:
    """An empty name is none, even where an object has such a key."""
    assert user(job={"": "eve", "dutycycle.io/user": "eve"}, job_labels={"": "eve"}, user_annotation="") == "ml-vision"


@pytest.mark.parametrize(
    ("key", "annotation"),
    [
        ("hub.jupyter.org/username", True),
        ("notebooks.kubeflow.org/creator", True),
        ("opendatahub.io/username", True),
        ("com.coder.user.username", False),
        ("workload.codeflare.dev/user", False),
        ("workflows.argoproj.io/creator-preferred-username", False),
        ("skypilot-user", False),
    ],
)
@pytest.mark.parametrize("on_the_job", [True, False])
def test_programs_that_write_a_persons_name_are_known(key: str, annotation: bool, on_the_job: bool) -> None:
    """Where they write it, on the job or on its pods, before the namespace's user."""
    where = ("job" if on_the_job else "pod") + ("" if annotation else "_labels")
    assert user(**{where: {key: "alice"}}, users={"*": "dora"}) == "alice"  # type: ignore[arg-type]


def test_the_first_pattern_of_the_namespace_counts() -> None:
    """In the order of the configuration; one that says nothing does not."""
    users = {"ml-vision": "", "ml-*": "carol", "*": "root"}
    assert user(users=users) == "carol"
    assert user(users=users, namespace="other") == "root"
    assert user(users={"other": "x"}) == "ml-vision"


@given(st.dictionaries(st.sampled_from(["dutycycle.io/user", "hub.jupyter.org/username"]), st.text()))
def test_a_user_can_be_shown_whatever_is_written(annotations: dict[str, str]) -> None:
    """And there always is one."""
    found = user(job=annotations)
    assert found
    assert found.isprintable()
    assert found == found.strip()
    assert len(found) <= 256
