"""What holds of every message: to whom, at which scale, how long, with which pictures."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from dutycycle_alerter.errors import ConfigError, StoreError
from dutycycle_alerter.incidents.model import Incident, Resolution, Severity, State
from dutycycle_alerter.model import Gpu
from dutycycle_alerter.notify.composing import pictures
from dutycycle_alerter.notify.composing.blocks import blocks
from dutycycle_alerter.notify.model import OPERATORS, Item, Parcel, ParcelKind, Recipient, Telling
from dutycycle_alerter.settings.notify import News
from dutycycle_alerter.views import GpuSeries, Point
from tests.alerter.notify.composing.parcels import (
    ALICE,
    NOW,
    composition,
    curves,
    fault,
    hesitating,
    idle_on_slurm,
    many,
    parcels,
    resolved,
    settings,
    told,
    weekly,
)
from tests.alerter.web.html import parse
from tests.fakes.slack.blocks import too_long, wrong
from tests.fakes.slack.rendering import links, seen

COMPOSER = composition(weekly=weekly)
ROOT = Path(__file__).parents[4]
IDLE = told(idle_on_slurm(), Telling(News.OPENED, NOW), to=ALICE)
ACTIONS = {"I'll take care of it", "Snooze", "This was intended"}


def biggest() -> Incident:
    """512 GPUs of 64 nodes, each held by a pod with a name as long as one may be."""
    gpus = tuple(
        Gpu(f"node{n // 8:03}.{'x' * 100}", str(n % 8), f"GPU-{n}", "", "H100", f"k8s/{'n' * 63}/{'p' * 248}-{n}/{n}")
        for n in range(512)
    )
    one = idle_on_slurm()
    return replace(
        one,
        gpus=gpus,
        job_gpus=512,
        diagnosis=replace(
            one.diagnosis,
            evidence=tuple("&" * 900 for _ in range(50)),
            advice=tuple("<" * 900 for _ in range(50)),
            commands=tuple("echo " + ">" * 590 for _ in range(50)),
        ),
    )


@pytest.mark.parametrize("case", parcels())
def test_blocks_are_within_slacks_limits(case: str) -> None:
    found = COMPOSER.slack(parcels()[case]).blocks
    assert wrong(found) == []
    assert not too_long(found)


@pytest.mark.parametrize("to", [ALICE, OPERATORS])
def test_the_biggest_incident_keeps_within_slacks_limits(to: Recipient) -> None:
    found = COMPOSER.slack(told(biggest(), Telling(News.UPDATED, NOW, "&" * 3000, "&" * 900), to=to)).blocks
    assert wrong(found) == []
    assert not too_long(found)
    assert [block["type"] for block in found][-2:] == ["section", "context"]
    assert "|Details>" in found[-2]["text"]["text"]


def test_a_digest_of_very_many_keeps_within_the_limits_of_each_format() -> None:
    parcel = Parcel("key", ParcelKind.DIGEST, OPERATORS, many(1000), NOW, left_out=500)
    message, mail = COMPOSER.slack(parcel), COMPOSER.mail(parcel)
    assert wrong(message.blocks) == []
    assert not too_long(message.blocks)
    assert (
        mail.subject.startswith("1,500 incidents: over 499,500 GPU-hours wasted") or "1,500 incidents" in mail.subject
    )
    assert "and 1490 more" in mail.text
    for said in (mail.text, parse(mail.html).words, seen(message)):
        assert "Among the worst 1000:" in said
    assert "Of the worst" not in COMPOSER.mail(replace(parcel, left_out=0)).text
    assert len(mail.html) < 30_000


def test_very_many_that_are_no_digest_keep_within_the_limits_too() -> None:
    """Also where every name and reason is as long as it may be, and escaped."""
    name, said = '"' * 300, Telling(News.RESOLVED, NOW, '"' * 900, "bob")
    names = {"user": name, "account": name, "namespace": name, "cluster": name, "actor": name}
    over = replace(resolved(idle_on_slurm()), subject=name, resolution=Resolution.OPERATOR, **names)  # type: ignore[arg-type]
    items = tuple(Item(replace(over, id=n), (said,) * 6) for n in range(1, 501))
    for number, more in ((500, "and 470 more"), (3, "=== ")):
        mail = COMPOSER.mail(Parcel("key", ParcelKind.INCIDENTS, OPERATORS, items[:number], NOW))
        assert more in mail.text


def test_long_paragraphs_are_cut_between_lines_and_never_within_a_command() -> None:
    body = "\n".join(f"line {n} " + "x" * 90 for n in range(60)) + "\n\n```" + "y" * 3100 + "```"
    made = blocks("title", body, [], "")
    assert wrong(made) == []
    texts = [block["text"]["text"] for block in made[1:]]
    assert all(line.startswith("line ") and line.endswith("x" * 90) for text in texts[:-1] for line in text.split("\n"))
    assert "yyy" not in texts[-1]


@pytest.mark.parametrize("case", parcels())
def test_a_mail_is_short(case: str) -> None:
    mail = COMPOSER.mail(parcels()[case])
    assert len(mail.subject) <= 160
    assert len(mail.text.splitlines()) < 150
    assert len(mail.html) < 40_000


def test_the_first_lines_say_what_how_much_and_what_to_do() -> None:
    text = COMPOSER.mail(IDLE).text
    places = [
        text.index(part) for part in ("All 8 GPUs", "Your job", "GPU-hours", "WHAT TO DO", "scancel", "https", "WHY")
    ]
    assert places == sorted(places)


def test_owners_are_told_of_their_job_and_operators_whose_it_is() -> None:
    assert "Your job slurm/4711" in COMPOSER.mail(IDLE).text
    assert "physics" not in COMPOSER.mail(IDLE).text
    assert "Job slurm/4711 of alice, account physics" in COMPOSER.mail(replace(IDLE, to=OPERATORS)).text


def test_what_is_no_job_is_nobodys() -> None:
    assert "your" not in COMPOSER.mail(told(fault(), to=ALICE)).text.lower()


def test_durations_and_amounts_are_on_the_scale_that_people_are_shown() -> None:
    fast = composition(settings(time_scale=60))
    slow = COMPOSER.mail(IDLE).text
    text = fast.mail(IDLE).text
    assert "5.3 GPU-hours (13.33 EUR)." in slow
    assert "320 GPU-hours (800.00 EUR)." in text
    assert "(40 min)" in slow
    assert "(40 h)" in text
    assert "by all GPUs of the job: 528 Wh (19.0 kWh a day), 201 g of CO₂." in slow
    assert "by all GPUs of the job: 31.7 kWh (19.0 kWh a day), 12.0 kg of CO₂." in text
    daily = "192 GPU-hours (480.00 EUR) a day"
    assert daily in slow
    assert daily in text
    assert COMPOSER.document(IDLE)["items"][0]["incident"]["wasted_gpu_hours"] == pytest.approx(16 / 3)
    assert fast.document(IDLE)["items"][0]["incident"]["wasted_gpu_hours"] == pytest.approx(320)


def test_without_prices_and_energy_nothing_is_said_of_them() -> None:
    text = composition(settings(costs={})).mail(told(replace(idle_on_slurm(), energy=0.0))).text
    assert "5.3 GPU-hours." in text
    assert "kWh" not in text
    assert "CO₂" not in text


@pytest.mark.parametrize(("to", "offered"), [(ALICE, False), (OPERATORS, True)])
def test_what_users_may_not_say_is_not_offered_to_them(to: Recipient, offered: bool) -> None:
    strict = composition(settings(policies={"expectations": {"owners": False}}))
    parcel = told(idle_on_slurm(), to=to)
    assert ("This was intended" in strict.mail(parcel).text) is offered
    assert ("This was intended" in links(strict.slack(parcel))) is offered
    assert bool(strict.document(parcel)["items"][0]["links"]["intended"]) is offered


def test_without_a_public_url_there_are_no_links() -> None:
    bare = composition(settings(web={}, notify={}))
    for parcel in parcels().values():
        if parcel.kind is not ParcelKind.REPORT:
            assert "http" not in bare.mail(parcel).text + bare.brief(parcel).url + bare.brief(parcel).text
            assert "href" not in bare.mail(parcel).html
            assert links(bare.slack(parcel)) == {}


def test_the_weekly_report_leads_to_all_users() -> None:
    parcel, url = parcels()["weekly"], "https://gpus.example.org/users"
    assert COMPOSER.brief(parcel).url == url
    assert f"All users: {url}" in COMPOSER.mail(parcel).text
    assert f'href="{url}"' in COMPOSER.mail(parcel).html
    assert links(COMPOSER.slack(parcel)) == {"All users": url}


@pytest.mark.parametrize("number", [1, 3, 5])
def test_where_there_are_no_threads_the_message_says_what_is_new(number: int) -> None:
    noted = Telling(News.UPDATED, NOW, "I ask her", "bob")
    parcel = Parcel(
        "key", ParcelKind.INCIDENTS, OPERATORS, tuple(Item(i.incident, (noted,)) for i in many(number)), NOW
    )
    assert seen(COMPOSER.slack(parcel, threaded=False)).count("bob: I ask her\n") == number
    assert "I ask her" not in seen(COMPOSER.slack(parcel))


def test_what_is_resolved_is_told_as_such_among_others() -> None:
    items = (*many(4), Item(resolved(hesitating()), ()))
    said = seen(COMPOSER.slack(Parcel("key", ParcelKind.INCIDENTS, OPERATORS, items, NOW)))
    assert said.count("Resolved: ") == 1


@pytest.mark.parametrize(
    ("lasted", "scale", "said"),
    [(7 * 86400, 1, "7 days"), (7 * 86400 - 3600, 1, "7 days"), (86400, 7, "7 days"), (2400, 1, "40 min")],
)
def test_the_weekly_title_names_its_range(lasted: float, scale: float, said: str) -> None:
    asked = replace(parcels()["weekly"], report=(NOW - lasted, NOW))
    composer = composition(settings(time_scale=scale), weekly=weekly)
    assert composer.mail(asked).subject == f"GPUs, {said} to Wed 15 Nov, 09:23"


def test_an_incident_that_is_not_stored_has_nothing_to_act_on() -> None:
    text = COMPOSER.mail(told(replace(idle_on_slurm(), id=0))).text
    assert "/act/" not in text
    assert "/incidents/" not in text


@pytest.mark.parametrize(
    ("incident", "offered"),
    [
        (idle_on_slurm(), ACTIONS),
        (replace(idle_on_slurm(), state=State.ACKNOWLEDGED), ACTIONS - {"I'll take care of it"}),
        (fault(), ACTIONS - {"This was intended"}),
        (resolved(idle_on_slurm()), set()),
    ],
)
def test_only_what_can_be_done_is_offered(incident: Incident, offered: set[str]) -> None:
    parcel = told(incident)
    assert set(links(COMPOSER.slack(parcel))) & ACTIONS == offered
    text = COMPOSER.mail(parcel).text
    assert {label for label in ACTIONS if f"{label}: http" in text} == offered


@pytest.mark.parametrize("resolution", Resolution)
def test_every_outcome_is_said(resolution: Resolution) -> None:
    over = replace(resolved(idle_on_slurm()), resolution=resolution, actor="bob")
    text = COMPOSER.mail(told(over, Telling(News.RESOLVED, NOW, "resolved by bob", "bob"))).text
    assert "Outcome: " in text
    assert ("bob" in text) == (resolution in (Resolution.OPERATOR, Resolution.INTENDED))
    assert "Wasted: 4.7 GPU-hours" in text
    assert "WHAT TO DO" not in text


@pytest.mark.parametrize(
    ("telling", "said"),
    [
        (Telling(News.OPENED, NOW), "Noticed."),
        (Telling(News.REOPENED, NOW), "It came back."),
        (
            Telling(News.ESCALATED, NOW, "critical: it also holds over 2 h"),
            "It is now critical: critical: it also holds",
        ),
        (Telling(News.ESCALATED, NOW, "warning became critical"), "It is now critical."),
        (Telling(News.ESCALATED, NOW, "idle became critical for the user of the job"), "It is now critical."),
        (Telling(News.ESCALATED, NOW, "info became warning"), "It became worse: info became warning"),
        (Telling(News.UPDATED, NOW, "acknowledged by bob", "bob"), "Acknowledged by bob."),
        (Telling(News.UPDATED, NOW, "I ask her", "bob"), "bob: I ask her"),
        (Telling(News.UPDATED, NOW, "cause found: data loading"), "Cause found: data loading."),
        (Telling(News.REOPENED, NOW, "", "bob"), "It came back, by bob."),
    ],
)
def test_what_is_new_is_said_with_who_did_it(telling: Telling, said: str) -> None:
    item = Item(idle_on_slurm(), (telling,))
    assert said in COMPOSER.slack_reply(item, OPERATORS)
    if telling.news is not News.OPENED:
        text = COMPOSER.mail(told(item.incident, telling)).text
        assert text.index(said) < text.index("slurm/4711")


def test_incidents_of_one_message_are_by_waste() -> None:
    parcel = Parcel("key", ParcelKind.INCIDENTS, OPERATORS, many(6), NOW)
    text = COMPOSER.mail(parcel).text
    places = [text.index(f"slurm/{5000 + n}") for n in (5, 4, 3, 2, 1, 0)]
    assert places == sorted(places)
    assert "WHAT TO DO" not in text


def test_a_fault_of_hardware_is_named_before_what_wastes_most() -> None:
    """It wastes nothing that could be counted: among many it would be left out."""
    faulty = Item(fault(), (Telling(News.OPENED, NOW),))
    milder = Item(replace(fault(), id=10, severity=Severity.WARNING), (Telling(News.OPENED, NOW),))
    over = Item(resolved_fault(), (Telling(News.RESOLVED, NOW),))
    parcel = Parcel("key", ParcelKind.DIGEST, OPERATORS, (*many(30), milder, over, faulty), NOW)
    for said in (COMPOSER.mail(parcel).text, COMPOSER.brief(parcel).text, seen(COMPOSER.slack(parcel))):
        assert said.count("XID 79") == 1
        assert said.index("XID 79") < said.index("slurm/5029")
    assert "WORST FIRST" in COMPOSER.mail(parcel).text


def resolved_fault() -> Incident:
    """Somebody mended it."""
    return replace(fault(), id=11, state=State.RESOLVED, resolution=Resolution.CLEARED, resolved_at=NOW, rules=())


def test_up_to_three_are_told_in_full() -> None:
    assert COMPOSER.mail(parcels()["three"]).text.count("WHAT TO DO") == 3


def test_a_replay_says_so_everywhere() -> None:
    replay = composition(weekly=weekly, replay=lambda: True)
    for parcel in parcels().values():
        mail, slack, brief = replay.mail(parcel), replay.slack(parcel), replay.brief(parcel)
        assert mail.subject.startswith("[REPLAY] ")
        assert mail.text.startswith("REPLAY: ")
        assert "<b>REPLAY</b>" in mail.html
        assert slack.text.startswith("[REPLAY] ")
        assert seen(slack).startswith("[REPLAY] ")
        assert brief.title.startswith("[REPLAY] ")
        assert replay.document(parcel)["replay"] is True
    assert replay.annotations(idle_on_slurm())["summary"].startswith("[REPLAY] ")


def test_the_same_parcel_is_the_same_message_at_every_attempt() -> None:
    later = replace(IDLE, attempt=3)
    assert COMPOSER.mail(IDLE) == COMPOSER.mail(later)
    assert json.dumps(COMPOSER.document(IDLE)) == json.dumps(COMPOSER.document(later))


def test_what_is_delivered_hours_later_speaks_of_then() -> None:
    """While a mail server is away the GPUs go on doing nothing; per day that is as much as before."""
    (item,) = IDLE.items
    incident = replace(item.incident, known_at=NOW + 6 * 3600, wasted=item.incident.wasted + 8 * 6 * 3600)
    late = replace(IDLE, items=(replace(item, incident=incident),), attempt=9)
    text = COMPOSER.mail(late).text
    assert "(6 h 40 min)" in text
    assert "53.3 GPU-hours" in text
    assert "192 GPU-hours (480.00 EUR) a day" in text


def test_a_report_without_one_who_makes_it_is_an_error() -> None:
    with pytest.raises(ConfigError, match="no weekly report"):
        composition().mail(parcels()["weekly"])


# Pictures


def test_few_incidents_have_a_picture_of_their_gpus_in_the_mail() -> None:
    mail = composition(series=curves).mail(IDLE)
    (picture,) = mail.pictures
    assert picture.png.startswith(b"\x89PNG")
    assert len(picture.png) <= pictures.LARGEST
    assert f'src="cid:{picture.name}"' in mail.html
    assert picture.alt in mail.html
    assert "node0:0 " in picture.alt


def test_many_incidents_devices_and_digests_have_none() -> None:
    composer = composition(series=curves)
    several = Parcel("key", ParcelKind.INCIDENTS, OPERATORS, many(4), NOW)
    for parcel in (several, told(fault()), parcels()["digest"], parcels()["test"]):
        mail = composer.mail(parcel)
        assert mail.pictures == ()
        assert "<img" not in mail.html


def test_a_mail_goes_without_its_picture_where_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> object:
        raise StoreError("the store does not answer")

    plain = COMPOSER.mail(IDLE)
    assert composition(series=broken).mail(IDLE) == plain
    assert composition(series=lambda *_: []).mail(IDLE) == plain
    unmeasured = [GpuSeries(Gpu("node0", "0"), (Point(NOW - 60, None), Point(NOW, None)))]
    assert composition(series=lambda *_: unmeasured).mail(IDLE) == plain
    monkeypatch.setattr(pictures.plots, "utilization_picture", broken)
    assert composition(series=curves).mail(IDLE) == plain
    monkeypatch.setattr(pictures.plots, "utilization_picture", lambda *_, **__: b"x" * (pictures.LARGEST + 1))
    assert composition(series=curves).mail(IDLE) == plain


def test_a_picture_of_512_noisy_gpus_is_small() -> None:
    times = range(240)
    noisy = [
        GpuSeries(
            Gpu(f"node{n // 8}", str(n % 8)),
            tuple(Point(NOW - 7200 + 30 * t, (37 * (t * n + t) % 101) / 100) for t in times),
        )
        for n in range(512)
    ]
    (picture,) = composition(series=lambda *_: noisy).mail(IDLE).pictures
    assert len(picture.png) <= pictures.LARGEST
    assert picture.alt.startswith("Mean utilization of 512 GPUs: ")


def test_the_weekly_report_has_the_histogram_of_users() -> None:
    mail = COMPOSER.mail(parcels()["weekly"])
    assert [picture.name for picture in mail.pictures] == ["users"]
    assert 'src="cid:users"' in mail.html
    assert "Histogram of 3 users" in mail.html
    assert "<b>bob" not in mail.html


@pytest.mark.parametrize(
    ("gpus_seen", "said"),
    [(True, "Nobody held a GPU in these days"), (False, "Unknown. No GPU was seen in these days")],
)
def test_a_report_on_nothing_says_so(gpus_seen: bool, said: str) -> None:
    def empty(since: float, until: float) -> object:
        full = weekly(since, until)
        nothing = replace(full.totals, allocated=0.0)
        return replace(full, gpus_seen=gpus_seen, totals=nothing, before=nothing, histogram=(0,) * 20)

    mail = composition(weekly=empty).mail(parcels()["weekly"])
    assert said in mail.text
    assert mail.pictures == ()


def test_hesitation_says_how_to_tell_the_causes_apart() -> None:
    text = COMPOSER.mail(told(hesitating(), to=ALICE)).text
    assert "Likely one of: data loading, communication or straggler, small work per step" in text
    do = text[text.index("WHAT TO DO") : text.index("\nWHY\n")]
    apart, then = do.split("\nThen, for the one that it is:\n")
    assert "The figures fit several causes. To find out which:\n- Data loading: " in apart
    steps = [line for line in then.splitlines() if line[:1].isdigit()]
    causes = ("data loading", "communication or straggler", "small work per step")
    assert [step.split(":")[0] for step in steps] == [f"{n}. If it is {cause}" for n, cause in enumerate(causes, 1)]


@pytest.mark.parametrize(
    ("resolution", "actor", "text", "said"),
    [
        (Resolution.ENDED, "", "the job ended: COMPLETED", "the job ended: COMPLETED"),
        (Resolution.ENDED, "", "the job ended", "the job ended"),
        (Resolution.OPERATOR, "bob", "resolved by bob", "somebody closed it (bob)"),
        (Resolution.OPERATOR, "bob", "she knows", "somebody closed it (bob): she knows"),
        (Resolution.INTENDED, "alice", "intended: a debugger waits", "it was intended (alice): a debugger waits"),
        (Resolution.CLEARED, "", "", "the condition cleared"),
    ],
)
def test_an_outcome_says_who_and_why_once(resolution: Resolution, actor: str, text: str, said: str) -> None:
    over = replace(resolved(idle_on_slurm()), resolution=resolution, actor=actor)
    parcel = told(over, Telling(News.RESOLVED, NOW, text, actor))
    assert f"Outcome: {said}." in COMPOSER.mail(parcel).text
    assert f"*Resolved:* {said}. " in COMPOSER.slack_reply(parcel.items[0], OPERATORS)


def test_nothing_that_draws_is_imported_before_the_first_picture() -> None:
    code = (
        "import sys\nfrom tests.alerter.notify.composing.parcels import *\n"
        "composition().mail(parcels()['idle-owner'])\n"
        "assert not {'matplotlib', 'PIL', 'numpy'} & set(sys.modules), 'drawing is imported'"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
