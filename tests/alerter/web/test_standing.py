"""Which of several alerters evaluates: on every page, in the API, in the metrics, and for whoever asks for health."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from dutycycle_alerter.scheduler import TaskRuns
from dutycycle_alerter.views import Evaluating, Standing, Status
from tests.alerter.web.conftest import Client
from tests.alerter.web.doubles import NOW, FixedReader, status
from tests.alerter.web.people import AUTH, bearer
from tests.alerter.web.test_metrics import values

Serve = Callable[..., Client]

LEADS = Standing(replica="b", shared=True, leads=True, epoch=7, age=1.5, lost=2)
FOLLOWS = Standing(replica="b", shared=True, leads=False, epoch=7, age=None, lost=0)
ALONE = Standing(replica="b", shared=False, leads=True, epoch=7, age=1.5, lost=0)
HELD = Evaluating("a", 7, NOW + 30)
OVER = Evaluating("a", 7, NOW - 30)


def served(serve: Serve, standing: Standing | None, shown: Status) -> Client:
    return serve(FixedReader(shown=shown), standing=lambda: standing)


@pytest.mark.parametrize(
    ("standing", "evaluating", "said"),
    [
        pytest.param(LEADS, Evaluating("b", 7, NOW + 30), "b, which serves this, evaluates", id="this one"),
        pytest.param(LEADS, Evaluating("a", 8, NOW + 30), "a evaluates; b serves this", id="another, since just now"),
        pytest.param(LEADS, Evaluating("a", 6, NOW + 30), "b, which serves this, evaluates", id="this one, just now"),
        pytest.param(FOLLOWS, HELD, "a evaluates; b serves this", id="another"),
        pytest.param(FOLLOWS, OVER, "No alerter evaluates; b serves this", id="nobody since a while"),
        pytest.param(FOLLOWS, None, "No alerter evaluates; b serves this", id="nobody ever"),
        pytest.param(ALONE, Evaluating("b", 7, NOW + 30), "", id="no other can"),
        pytest.param(None, None, "", id="a page without an alerter"),
    ],
)
def test_pages_and_health_say_who_evaluates_where_it_may_be_another(
    serve: Serve, standing: Standing | None, evaluating: Evaluating | None, said: str
) -> None:
    client = served(serve, standing, status(evaluating=evaluating))
    assert client.page("/-/ready") == "\n".join(filter(None, ["ready", said])) + "\n"
    for path in ("/", "/users", "/gpus"):
        page = client.page(path)
        assert said in page
        assert ("evaluates" in page) == bool(said)


def test_who_sees_their_own_jobs_only_is_not_told_of_machines(serve: Serve) -> None:
    client = serve(FixedReader(shown=status(evaluating=HELD)), standing=lambda: FOLLOWS, auth=AUTH)
    for name, told in (("olga", True), ("alice", False)):
        assert ("serves this" in client.get("/users", **bearer(name)).data.decode()) is told
        assert ('"replica"' in client.get("/api/v1/status", **bearer(name)).data.decode()) is told


@pytest.mark.parametrize(
    ("last_pass", "said"),
    [(NOW - 20, ""), (NOW - 900, "the last pass is 900 s old\n"), (None, "no pass yet\n")],
)
def test_a_follower_whose_leader_is_late_says_so_and_still_answers(
    serve: Serve, last_pass: float | None, said: str
) -> None:
    client = served(serve, FOLLOWS, status(evaluating=HELD, last_pass=last_pass))
    assert client.page("/-/ready") == f"ready\na evaluates; b serves this\n{said}"
    assert client.get("/-/healthy").status == 200


@pytest.mark.parametrize(
    ("standing", "runs", "ready"),
    [
        pytest.param(ALONE, TaskRuns(9, 9), False, id="no evaluation since the start succeeded"),
        pytest.param(ALONE, TaskRuns(99, 9, last_success=NOW - 900), False, id="none since a while"),
        pytest.param(ALONE, TaskRuns(9, 0), True, id="none failed"),
        pytest.param(ALONE, TaskRuns(9, 8, last_success=NOW - 20), True, id="the newest succeeded"),
        pytest.param(FOLLOWS, TaskRuns(9, 9), True, id="another evaluates"),
    ],
)
def test_an_alerter_whose_evaluations_all_fail_is_not_ready(
    serve: Serve, standing: Standing, runs: TaskRuns, ready: bool
) -> None:
    shown = status(evaluating=HELD, last_pass=NOW - 900)
    answer = serve(FixedReader(shown=shown), standing=lambda: standing, tasks=lambda: {"pass": runs}).get("/-/ready")
    assert answer.status == (200 if ready else 503)
    assert ("not ready: evaluations fail, the last pass is 900 s old" in answer.data.decode()) is not ready


def test_what_hangs_is_told_to_whoever_asks_for_health(serve: Serve) -> None:
    client = served(serve, replace(FOLLOWS, left=2), status(evaluating=HELD))
    assert "in 2 former terms of b has not ended: restart it" in client.page("/-/ready")


def test_a_replicas_name_is_text(serve: Serve) -> None:
    name = "<script>alert(1)</script>"
    client = served(serve, FOLLOWS, status(evaluating=Evaluating(name, 7, NOW + 30)))
    assert "<script>alert" not in client.page("/")


def test_the_api_tells_the_lease(serve: Serve) -> None:
    client = served(serve, FOLLOWS, status(evaluating=HELD))
    told = client.get("/api/v1/status").json()["evaluating"]
    assert (told["replica"], told["epoch"]) == ("a", 7)
    assert served(serve, FOLLOWS, status()).get("/api/v1/status").json()["evaluating"] is None


@pytest.mark.parametrize(
    ("standing", "leader", "epoch", "age", "lost"),
    [
        pytest.param(LEADS, [1], [7], [1.5], [2], id="leads"),
        pytest.param(FOLLOWS, [0], [7], [], [0], id="follows"),
        pytest.param(ALONE, [1], [7], [1.5], [0], id="alone"),
        pytest.param(Standing("b", True, False, None, None, 0), [0], [], [], [0], id="has not looked yet"),
        pytest.param(None, [], [], [], [], id="no alerter"),
    ],
)
def test_each_replicas_metrics_tell_its_own_part(
    serve: Serve,
    standing: Standing | None,
    leader: list[float],
    epoch: list[float],
    age: list[float],
    lost: list[float],
) -> None:
    """Also while the store does not answer: that is when it matters most."""
    for broken in (False, True):
        client = serve(FixedReader(broken=broken), standing=lambda: standing)
        page = client.page("/metrics")
        for name, wanted in (
            ("dutycycle_alerter_leader", leader),
            ("dutycycle_alerter_lease_epoch", epoch),
            ("dutycycle_alerter_lease_age_seconds", age),
            ("dutycycle_alerter_leases_lost_total", lost),
        ):
            assert list(values(page, name).values()) == wanted, name
