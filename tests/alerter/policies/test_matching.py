"""Which jobs an entry of the configuration is about."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutycycle_alerter.model import Gpu, Job, JobKind
from dutycycle_alerter.policies.exceptions import effects
from dutycycle_alerter.settings import JobMatch, KindMatch, Policy
from dutycycle_alerter.settings.matching import kind_of
from tests.alerter import cases

JOB = replace(
    cases.job(2),
    id="alpha/slurm/7",
    cluster="alpha",
    name="train",
    account="vision",
    partition="gpu",
    qos="normal",
    namespace="ml",
    labels={"team": "vision-a", "app": "x=y"},
)


@pytest.mark.parametrize(
    ("fields", "matches"),
    [
        ({}, True),
        ({"user": "alice"}, True),
        ({"user": "Alice"}, False),
        ({"user": ["bob", "ali*"]}, True),
        ({"user": ["bob", "carol"]}, False),
        ({"user": "alice", "partition": "debug"}, False),
        ({"user": "alice", "partition": ["debug", "gpu"]}, True),
        ({"account": "vis?on"}, True),
        ({"qos": "high"}, False),
        ({"qos": "nor*"}, True),
        ({"workload": "slurm/7"}, True),
        ({"workload": "alpha/*"}, False),
        ({"cluster": "alpha"}, True),
        ({"scheduler": "k8s"}, False),
        ({"job_name": "tr*"}, True),
        ({"namespace": "[mn]l"}, True),
        ({"label": "team=vision-*"}, True),
        ({"label": "team=speech"}, False),
        ({"label": "*=vision-a"}, True),
        ({"label": "missing=*"}, False),
        ({"label": ["missing=*", "team=*"]}, True),
        ({"label": "app=x=y"}, True),
        ({"model": "H2*"}, True),
        ({"model": ["*A100*", "*H100*"]}, False),
    ],
    ids=str,
)
def test_every_field_must_match_and_of_a_list_one(fields: dict[str, object], *, matches: bool) -> None:
    assert JobMatch.model_validate(fields).matches_job(JOB) is matches


@pytest.mark.parametrize(("kind", "matches"), [("batch", True), (["serving", "b*"], True), ("interactive", False)])
def test_a_policy_may_be_about_a_kind_of_jobs(kind: object, *, matches: bool) -> None:
    entry = Policy.model_validate({"name": "x", "reason": "y", "exclude": True, "kind": kind})
    assert bool(effects(JOB, [entry]).policies) is matches


def test_some_gpu_of_a_mixed_job_decides_and_a_job_without_gpus_has_no_model() -> None:
    mixed = replace(JOB, gpus=(Gpu("n", "0", model="A100"), Gpu("n", "1", model="H100")))
    assert JobMatch(model="*H100*").matches_job(mixed)
    assert not JobMatch(model="?*").matches_job(replace(JOB, gpus=()))
    assert JobMatch().matches_job(replace(JOB, gpus=()))


def test_what_a_job_does_not_tell_is_not_matched() -> None:
    alice = Job("slurm/1", (), 0.0, user="alice")
    assert not JobMatch(label="team=*").matches_job(alice)
    assert not JobMatch(model="H*").matches_job(alice)
    assert JobMatch(user=("bob", "alice")).matches_job(alice)


def test_the_first_entry_says_the_kind() -> None:
    kinds = (KindMatch(kind=JobKind.SERVING, user="bob"), KindMatch(kind=JobKind.INTERACTIVE, user="*"))
    assert kind_of(JOB, kinds) is JobKind.INTERACTIVE
    assert kind_of(JOB, kinds[:1]) is None


NAMES = st.text("ab*?[", max_size=4)
JOBS = st.builds(
    lambda user, account, label: replace(JOB, user=user, account=account, labels={"team": label}),
    NAMES, NAMES, NAMES,
)  # fmt: skip


@given(JOBS, st.lists(NAMES, min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_the_order_of_patterns_changes_nothing(job: Job, patterns: list[str], random: object) -> None:
    shuffled = list(patterns)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert JobMatch(user=tuple(patterns)).matches_job(job) == JobMatch(user=tuple(shuffled)).matches_job(job)


@given(JOBS, st.lists(NAMES, min_size=1, max_size=4))
def test_a_list_matches_where_one_of_its_patterns_does(job: Job, patterns: list[str]) -> None:
    assert JobMatch(account=tuple(patterns)).matches_job(job) == any(
        JobMatch(account=pattern).matches_job(job) for pattern in patterns
    )


@given(JOBS, NAMES, NAMES)
def test_another_field_never_makes_an_entry_match_more(job: Job, user: str, account: str) -> None:
    if JobMatch(user=user, account=account).matches_job(job):
        assert JobMatch(user=user).matches_job(job)
        assert JobMatch(account=account).matches_job(job)


ENTRIES = st.lists(
    st.tuples(NAMES, st.sampled_from([None, True]), st.sampled_from([None, "info", "critical"])), max_size=5
)


@given(JOBS, ENTRIES, st.randoms(use_true_random=False))
def test_policies_that_only_exclude_may_stand_in_any_order(job: Job, entries: list[object], random: object) -> None:
    made = [
        Policy(name=f"p{place}", reason="r", user=user, exclude=True)
        for place, (user, _, _) in enumerate(entries)  # type: ignore[misc]
    ]
    shuffled = list(made)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert (effects(job, made).excluding("idle") is None) == (effects(job, shuffled).excluding("idle") is None)


@given(JOBS, ENTRIES)
def test_policies_that_are_about_others_change_nothing(job: Job, entries: list[object]) -> None:
    """Each effect is that of the first policy that has it, wherever those stand that are about other jobs."""
    made = [
        Policy(name=f"p{place}", reason="r", user=user, exclude=exclude, user_severity=severity or "warning")
        for place, (user, exclude, severity) in enumerate(entries)  # type: ignore[misc]
    ]
    mine = [policy for policy in made if policy.matches_job(job)]
    found = effects(job, made)
    assert found.for_user("idle") == (mine[0].user_severity if mine else None)
    assert (found.excluding("idle") is not None) == any(policy.exclude for policy in mine)
