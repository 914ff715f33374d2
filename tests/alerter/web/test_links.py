"""The links of messages: what they say, and that nobody else can say it."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dutycycle_alerter.model import Gpu
from dutycycle_alerter.notify.links import LIFETIME, Action, ActionLink, LinkError, Links, UnsubscribeLink
from dutycycle_alerter.notify.model import OPERATORS, Recipient, To
from tests.alerter.web.doubles import NOW, incident

LINKS = Links("https://host.example/gpus", bytes(range(32)), "https://graphs.example/d/1?var-user={user}&from={from}")
ALICE = Recipient(To.OWNER, "alice")

names = st.text(max_size=60)


def token(url: str) -> str:
    return url.rpartition("/")[2]


def reason(token: str, *, links: Links = LINKS, now: float = NOW) -> str:
    with pytest.raises(LinkError) as refused:
        links.read(token, now=now)
    return refused.value.reason


@given(st.integers(0, 2**63), st.sampled_from(Action), st.sampled_from(To), names)
@example(7, Action.RESOLVE, To.OWNER, "\udcff")
def test_what_an_action_says_is_read(number: int, action: Action, to: To, user: str) -> None:
    url = LINKS.action(number, action, Recipient(to, user), now=NOW)
    assert url.startswith("https://host.example/gpus/act/")
    expected = ActionLink(number, action, Recipient(to, user), NOW + LIFETIME)
    assert LINKS.read(token(url), now=NOW + LIFETIME - 1) == expected


@given(names, names)
def test_what_unsubscribing_says_is_read(receiver: str, user: str) -> None:
    url = LINKS.unsubscribe(receiver, user, now=NOW)
    found = LINKS.read(token(url), now=NOW)
    assert isinstance(found, UnsubscribeLink)
    assert (found.receiver, found.user) == (receiver, user)


def test_a_link_expires() -> None:
    made = token(LINKS.action(7, Action.RESOLVE, OPERATORS, now=NOW))
    assert reason(made, now=NOW + LIFETIME) == "expired"
    assert reason(made, now=NOW + 1000 * LIFETIME) == "expired"


MADE = (
    token(LINKS.action(7, Action.RESOLVE, ALICE, now=NOW)),
    token(LINKS.unsubscribe("mail", "alice", now=NOW)),
)


@given(st.sampled_from(MADE), st.integers(0, 10_000), st.characters())
def test_any_changed_character_is_refused(made: str, place: int, character: str) -> None:
    place %= len(made)
    changed = made[:place] + character + made[place + 1 :]
    if changed != made:
        assert reason(changed) in ("forged", "malformed")


@given(st.sampled_from(MADE), st.integers(0, 10_000), st.text(max_size=5))
def test_what_is_cut_or_added_is_refused(made: str, place: int, added: str) -> None:
    place %= len(made)
    for changed in (made[:place], made[place + 1 :], made + added, added + made):
        if changed != made:
            assert reason(changed) in ("forged", "malformed")


@given(st.text() | st.text("ABCDEFabcdef0123456789-_", max_size=300))
@example("")
@example("AQ")
@example("A" * 100_000)
@example("=" * 40)
def test_nonsense_is_refused(nonsense: str) -> None:
    assert reason(nonsense) in ("forged", "malformed")


def test_another_installations_link_is_refused() -> None:
    assert reason(MADE[0], links=Links("https://host.example/gpus", bytes(32))) == "forged"


def test_a_signature_counts_for_its_own_purpose_alone() -> None:
    """The purpose is within what is signed, and has a key of its own."""
    import base64

    data = bytearray(base64.urlsafe_b64decode(MADE[1] + "=" * (-len(MADE[1]) % 4)))
    assert data[1:2] == b"u"
    data[1:2] = b"a"
    assert reason(base64.urlsafe_b64encode(data).rstrip(b"=").decode()) == "forged"


def test_links_go_nowhere_without_an_address() -> None:
    links = Links("", bytes(32))
    assert links.incident(7) == ""
    assert links.action(7, Action.RESOLVE, OPERATORS, now=NOW) == ""
    assert links.unsubscribe("mail", "alice", now=NOW) == ""
    assert links.dashboard(incident(), now=NOW) == ""


def test_a_name_of_a_megabyte_gets_no_link() -> None:
    assert LINKS.action(7, Action.RESOLVE, Recipient(To.OWNER, "x" * 2**20), now=NOW) == ""
    assert LINKS.unsubscribe("mail", "é" * 128, now=NOW) == ""
    longest = LINKS.unsubscribe("m" * 255, "u" * 255, now=NOW)
    assert isinstance(LINKS.read(token(longest), now=NOW), UnsubscribeLink)


def test_the_dashboards_address_is_filled_in_once_and_quoted() -> None:
    links = Links("", bytes(32), "https://g.example/{job}?u={user}&c={cluster}&from={from}&to={to}&x={other}")
    one = incident(subject="lab/slurm/1", user="a&b={to} \udcff", cluster="lab")
    assert links.dashboard(one, now=NOW) == (
        "https://g.example/slurm%2F1?u=a%26b%3D%7Bto%7D%20%3F&c=lab"
        f"&from={NOW - 9000:.0f}000&to={NOW:.0f}000&x={{other}}"
    )
    ended = incident(resolved_at=NOW - 3600)
    assert f"to={NOW - 3600:.0f}000" in links.dashboard(ended, now=NOW)


GRAFANA = Links(
    "", bytes(32), "https://grafana.example.org/d/dutycycle-job?var-workload={workloads}&from={from}&to={to}#{user}"
)
NODES = Links("", bytes(32), "https://grafana.example.org/d/dutycycle-node?var-node={node}&to={to}")


def parameters(url: str, name: str) -> list[str]:
    """A parameter's values, as a browser reads them."""
    return [value for key, value in parse_qsl(urlsplit(url).query, keep_blank_values=True) if key == name]


def test_each_workload_of_a_job_is_a_value_of_the_dashboards_variable() -> None:
    pods = ("k8s/lab/a/uid-1", "k8s/lab/b/uid-2")
    assert GRAFANA.dashboard(incident(workloads=pods, resolved_at=NOW), now=NOW) == (
        "https://grafana.example.org/d/dutycycle-job?var-workload=k8s%2Flab%2Fa%2Fuid-1&var-workload=k8s%2Flab%2Fb%2Fuid-2"
        f"&from={NOW - 9000:.0f}000&to={NOW:.0f}000#alice"
    )
    slurm = incident(subject="north/slurm/1234", cluster="north")
    assert parameters(GRAFANA.dashboard(slurm, now=NOW), "var-workload") == ["slurm/1234"]


def test_of_very_many_pods_the_newest_are_in_the_address() -> None:
    pods = tuple(f"k8s/ns/pod-{number}/uid" for number in range(200_000))
    url = GRAFANA.dashboard(incident(workloads=pods), now=NOW)
    assert "pod-199999" in url
    assert "pod-199900" not in url
    assert 1900 < len(url) < 2000


def test_where_the_address_alone_is_too_long_no_pod_is_in_it() -> None:
    long = Links("", bytes(32), f"https://g.example/{'d' * 3000}?w={{workloads}}&from={{from}}")
    assert "w=" not in long.dashboard(incident(workloads=("slurm/1",)), now=NOW)


def test_an_incident_of_no_job_has_no_workloads_and_leaves_the_parameter_out() -> None:
    lost = incident(subject="gpu/gpu1/GPU-1", kind="gpu_fault")
    assert "var-workload" not in GRAFANA.dashboard(lost, now=NOW)
    assert Links("", b"k", "https://g.example/d/1?w={workloads}").dashboard(lost, now=NOW) == "https://g.example/d/1"


def test_the_one_node_of_an_incident_is_filled_in() -> None:
    assert parameters(NODES.dashboard(incident(), now=NOW), "var-node") == ["gpu1"]
    two = incident(gpus=(Gpu("gpu1", "0"), Gpu("gpu2", "0")))
    assert parameters(NODES.dashboard(two, now=NOW), "var-node") == []
    assert parameters(NODES.dashboard(two, now=NOW), "to") == [f"{NOW:.0f}000"]


@given(st.lists(st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=300), max_size=40))
@example([f"k8s/lab/pod-{number}/0123456789ab" for number in range(1000)])
@example(["a&var-workload=b", "{to}", "#x", "?y", "%00", "\r\nHost: evil"])
@example(["x" * 5000])
def test_whatever_workloads_are_called_the_address_has_the_newest_of_them_and_no_more(names: list[str]) -> None:
    url = GRAFANA.dashboard(incident("alice", subject="slurm/1", workloads=tuple(names)), now=NOW)
    shown = parameters(url, "var-workload")
    assert len(url) < 2000
    assert url.isascii()
    assert url.isprintable()
    assert shown == (names[len(names) - len(shown) :] if names else ["slurm/1"])
    assert parameters(url, "to") == [f"{NOW:.0f}000"]
    if 0 < len(shown) < len(names):
        longer = incident("alice", subject="slurm/1", workloads=tuple(names[-len(shown) - 1 :]))
        assert len(parameters(GRAFANA.dashboard(longer, now=NOW), "var-workload")) == len(shown)
