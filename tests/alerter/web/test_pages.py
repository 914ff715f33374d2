"""The pages over the real store, through the real server."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import pairwise

import pytest

from dutycycle_alerter.incidents.model import Cause, Diagnosis, Resolution, State
from dutycycle_alerter.rules.purposes import Purpose
from dutycycle_alerter.settings import Costs
from dutycycle_alerter.usage import UserUsage
from dutycycle_alerter.views import DeliveryCounts, NotEvaluable, TargetStatus
from tests.alerter.web.conftest import Client, Live
from tests.alerter.web.doubles import NOW, FixedReader, full_reader, gpu_now, incident, status
from tests.alerter.web.html import Element, parse

Serve = Callable[..., Client]
PAGES = ("/", "/users", "/gpus", "/incidents/7")


def body(page: str) -> Element:
    return parse(page).all("main")[0]


def strip(page: str) -> str:
    return parse(page).all("section")[0].words


class TestIncidents:
    def test_lists_every_active_incident_with_cause_and_owner(self, live: Live) -> None:
        page = body(live.client.page("/"))
        rows = [row.words for row in page.all("tbody")[0].all("tr")]
        assert len(rows) == 5
        (idle,) = [row for row in rows if "alice" in row]
        assert "All 4 GPUs are idle" in idle
        assert "critical" in idle
        assert "no process" in idle
        assert "gpu-a01:0–3" in idle
        (half,) = [row for row in rows if "bob" in row]
        assert "2 of 4 GPUs are idle" in half
        assert "over-request / communication or straggler?" in half

    @pytest.mark.parametrize(
        ("query", "users"),
        [
            ("state=resolved", {"heidi"}),
            ("state=all", {"alice", "bob", "carol", "dmitri", "erin", "heidi"}),
            ("state=acknowledged", set()),
            ("rule=idle", {"alice"}),
            ("severity=critical", {"alice"}),
            ("user=bob", {"bob"}),
            ("user=bo", set()),
            ("node=gpu-a02", {"carol", "dmitri", "erin"}),
            ("text=SPEECH", {"dmitri"}),
            ("text=41350", {"carol"}),
            ("rule=&severity=&user=&node=&text=", {"alice", "bob", "carol", "dmitri", "erin"}),
            ("user=%20alice%20", {"alice"}),
            ("rule=gpu_fault", set()),
        ],
    )
    def test_filters(self, live: Live, query: str, users: set[str]) -> None:
        page = body(live.client.page(f"/?{query}"))
        tables = page.all("tbody")
        found = {
            cell.words
            for cell in (tables[0].all("bdi") if tables else [])
            if "user" in cell.attributes.get("class", "")
        }
        assert found == users

    def test_what_was_asked_for_stays_in_the_form(self, live: Live) -> None:
        form = body(live.client.page("/?rule=uneven&severity=critical&user=x%22y&state=all")).all("form")[0]
        chosen = {o.attributes["value"] for o in form.all("option") if "selected" in o.attributes}
        assert chosen == {"all", "uneven", "critical"}
        assert {i.attributes["name"]: i.attributes["value"] for i in form.all("input")}["user"] == 'x"y'

    def test_counts_by_state_respect_the_filter(self, live: Live) -> None:
        tabs = body(live.client.page("/?node=gpu-b01")).all("nav")[0]
        assert [link.words for link in tabs.all("a")] == ["Active 0", "Resolved 1", "All 1"]
        assert "node=gpu-b01" in tabs.all("a")[2].attributes["href"]

    def test_pages_of_a_long_list(self, serve: Serve) -> None:
        client = serve(FixedReader(found=[incident(id=n, user=f"u{n}") for n in range(1, 121)]))
        last = body(client.page("/?page=3&user="))
        assert len(last.all("tbody")[0].all("tr")) == 20
        pager = last.all("nav")[-1]
        assert "101 to 120 of 120" in pager.words
        assert [link.attributes["rel"] for link in pager.all("a")] == ["prev"]
        assert pager.all("a")[0].attributes["href"] == "/?page=2"
        assert "This page of the list is empty." in body(client.page("/?page=9")).words

    def test_the_fleet_in_one_line_never_counts_unknown_as_idle(self, live: Live) -> None:
        words = body(live.client.page("/")).all("figure")[0].words
        assert "20 GPUs now: 10 busy 6 allocated and idle 0 free 4 unknown" in words

    @pytest.mark.parametrize(
        ("shown", "query", "says"),
        [
            (status(), "/", "Nothing is wrong."),
            (
                status(targets=(TargetStatus("http://gpu2:9836", "gpu2", None, "connection refused"),)),
                "/",
                "judged 20 s ago. A source does not answer",
            ),
            (status(jobs_judged=0), "/", "Nothing to judge yet."),
            (
                status(
                    jobs_judged=0, targets=(TargetStatus("http://prometheus:9090", "", None, "connection refused"),)
                ),
                "/",
                "Unknown. A source does not answer",
            ),
            (status(jobs_judged=0, last_pass=None), "/", "Unknown. No evaluation has finished yet."),
            (status(last_pass=None), "/gpus", "Unknown. No evaluation has finished yet."),
            (status(last_pass=None), "/users", "Unknown. No evaluation has finished yet."),
            (status(first_verdict_at=NOW + 600), "/", "Observing."),
            (status(), "/?user=nobody", "No incident matches."),
            (status(), "/?state=resolved", "There are no incidents in this list."),
        ],
    )
    def test_an_empty_list_says_why(self, serve: Serve, shown: object, query: str, says: str) -> None:
        assert says in body(serve(FixedReader(shown=shown)).page(query)).words  # type: ignore[arg-type]


class TestIncident:
    def test_says_what_since_when_where_why_and_what_to_do(self, live: Live) -> None:
        page = parse(live.client.page(f"/incidents/{live.incident_of('alice')}"))
        words = page.words
        assert page.all("h1")[0].words == "All 4 GPUs are idle"
        assert "Job slurm/41207 of alice, account nlp, partition gpu" in words
        assert "Likely cause: no process In guides on GPU utilization: GPUs held and not used." in words
        assert "No process has held a GPU of the job for 15 min or longer." in words
        assert "Cancel the job if nothing will start in it any more" in words
        assert "scancel 41207" in [code.words for code in page.all("code")]
        assert "Wasted so far 11.9 GPU-hours" in words
        assert "4 of 4" in words
        began = datetime.fromtimestamp(live.store.incident(live.incident_of("alice")).started_at, UTC)  # type: ignore[union-attr]
        assert began.isoformat(timespec="seconds") in [t.attributes["datetime"] for t in page.all("time")]

    def test_a_command_that_ends_the_job_stands_under_what_it_does(self, live: Live) -> None:
        words = body(live.client.page(f"/incidents/{live.incident_of('alice')}")).words
        looks, ends = Purpose.LOOK.label, Purpose.END.label
        assert f"{ends} scancel 41207" in words
        assert words.index(looks) < words.index("nvidia-smi") < words.index(ends)

    def test_a_hesitation_names_its_causes_and_how_to_tell_them_apart(self, live: Live) -> None:
        words = body(live.client.page(f"/incidents/{live.incident_of('bob')}")).words
        assert "Likely one of two causes over-request communication or straggler" in words
        assert "How to tell them apart" in words

    def test_the_plot_has_a_row_per_gpu_of_the_job_and_marks_those_concerned(self, live: Live) -> None:
        plot = body(live.client.page(f"/incidents/{live.incident_of('bob')}")).all("section")[0]
        rows = [e for e in plot.all("div") if "plot-row" in e.attributes.get("class", "")]
        assert [row.all("bdi")[0].words for row in rows] == [f"gpu-a01:{n}" for n in (4, 5, 6, 7)]
        assert ["concerned" in row.attributes["class"] for row in rows] == [False, False, True, True]
        assert [bool([p for p in row.all("path") if p.attributes["class"] == "idle"]) for row in rows] == [
            False,
            False,
            True,
            True,
        ]

    def test_a_resolved_incident_says_why_and_cannot_be_changed(self, live: Live) -> None:
        path = f"/incidents/{live.incident_of('heidi')}"
        page = body(live.client.page(path))
        assert "resolved: the job ended" in page.words
        assert [form.attributes["action"] for form in page.all("form")] == [f"{path}/intended"]
        assert "if nothing changes" not in page.words

    def test_costs_are_shown_where_factors_are_configured(self, serve: Serve) -> None:
        reader = full_reader("")
        words = body(
            serve(reader, costs=Costs(gpu_hour=2.5, currency="EUR", co2_grams_per_kwh=400)).page("/incidents/7")
        ).words
        assert "2.0 GPU-hours 5.00 EUR." in words
        assert "400 g CO₂" in words

    def test_without_measurements_there_is_no_plot(self, serve: Serve) -> None:
        reader = full_reader("")
        reader.curves = ()
        assert "Utilization per GPU" not in serve(reader).page("/incidents/7")

    def test_snoozed_reopened_and_also_found(self, serve: Serve) -> None:
        one = incident(state=State.SNOOZED, snoozed_until=NOW + 3600, reopened=2)
        words = body(serve(FixedReader(found=[one])).page("/incidents/7")).words
        assert "snoozed until 15:13" in words
        assert "reopened 2 times" in words

    @pytest.mark.parametrize(
        ("resolution", "says"),
        [
            (Resolution.CLEARED, "it cleared"),
            (Resolution.ENDED, "the job ended"),
            (Resolution.LOST, "no more data"),
            (Resolution.OPERATOR, "by a person"),
        ],
    )
    def test_every_resolution_has_words(self, serve: Serve, resolution: Resolution, says: str) -> None:
        one = incident(state=State.RESOLVED, resolution=resolution, resolved_at=NOW)
        assert says in body(serve(FixedReader(found=[one])).page("/incidents/7")).words

    def test_evidence_that_begins_with_a_name_keeps_its_spelling(self, serve: Serve) -> None:
        diagnosis = Diagnosis((Cause.HANG,), ("gpu-a02:2 97 %", "behind: gpu-a02:3"), ())
        words = body(serve(FixedReader(found=[incident(diagnosis=diagnosis)])).page("/incidents/7")).words
        assert "gpu-a02:2 97 %. Behind: gpu-a02:3." in words


class TestUsers:
    def test_figures_histogram_and_table(self, live: Live) -> None:
        page = body(live.client.page("/users?range=7d"))
        assert "9 of 34" in page.words
        (picture,) = [svg for svg in page.all("svg") if svg.attributes.get("class") == "histogram"]
        assert "0 to 5 %: 3 users" in picture.attributes["aria-label"]
        rows = {
            row.all("th")[0].words: [cell.words for cell in row.all("td")] for row in page.all("tbody")[0].all("tr")
        }
        assert rows["alice"] == ["0 %", "11.9", "11.9", "831 Wh", "1", "1"]
        assert rows["user03"][:3] == ["9.0 %", "50.8", "57.0"]

    def test_the_range_decides_who_is_counted(self, live: Live) -> None:
        day, week = (body(live.client.page(f"/users?range={r}")) for r in ("1d", "7d"))
        assert len(day.all("tbody")[0].all("tr")) < len(week.all("tbody")[0].all("tr"))
        assert day.all("nav")[0].all("a")[0].attributes["aria-current"] == "true"

    def test_a_user_of_whom_nothing_was_measured_is_unknown_not_zero(self, serve: Serve) -> None:
        page = body(serve(FixedReader(people=[UserUsage("zoe", 3600, 0, 0)])).page("/users"))
        assert [cell.words for cell in page.all("tbody")[0].all("td")] == [
            "unknown",
            "unknown",
            "1.0",
            "unknown",
            "0",
            "0",
        ]
        assert "0 of 0" in page.words

    def test_nobody(self, serve: Serve) -> None:
        assert "Nobody held a GPU in this time." in serve(FixedReader()).page("/users")


class TestGpus:
    def test_by_node_with_owner_and_readings(self, live: Live) -> None:
        page = body(live.client.page("/gpus"))
        nodes = page.all("section")
        assert [node.all("h2")[0].words for node in nodes] == [
            "gpu-a01 8 GPUs, NVIDIA H100 80GB HBM3",
            "gpu-a02 8 GPUs, NVIDIA H100 80GB HBM3",
            "gpu-b01 4 GPUs, NVIDIA H100 80GB HBM3",
        ]
        first = [cell.words for cell in nodes[0].all("tbody")[0].all("tr")[0].all("td")]
        assert first == ["idle", "0.6 GiB of 79.6 GiB", "70 W of 700 W", "31 °C", "alice slurm/41207 last busy 4 h ago"]

    def test_a_silent_exporters_gpus_are_unknown_never_zero(self, live: Live) -> None:
        silent = body(live.client.page("/gpus")).all("section")[2]
        assert "Its exporter does not answer; last heard" in silent.words
        for row in silent.all("tbody")[0].all("tr"):
            readings = [cell.words for cell in row.all("td")][:4]
            assert readings == ["unknown"] * 4

    def test_what_a_gpu_does_not_have_is_unknown(self, serve: Serve) -> None:
        device = gpu_now(utilization=None, memory_used=None, power=None, temperature=None, workloads=())
        page = body(serve(FixedReader(devices=[device])).page("/gpus"))
        assert [cell.words for cell in page.all("td")] == ["unknown"] * 4 + ["not allocated, 1 process"]

    @pytest.mark.parametrize(("utilization", "whose"), [(0.99, "in use by an unknown process"), (0.0, "free")])
    def test_a_busy_gpu_without_a_process_is_not_free(self, serve: Serve, utilization: float, whose: str) -> None:
        device = gpu_now(utilization=utilization, processes=0, workloads=())
        page = body(serve(FixedReader(devices=[device])).page("/gpus"))
        assert page.all("td")[4].words == whose

    def test_no_gpu(self, serve: Serve) -> None:
        assert "No GPU has been seen yet." in serve(FixedReader()).page("/gpus")

    def test_where_prometheus_is_the_source_no_gpu_is_waited_for(self, serve: Serve) -> None:
        page = serve(FixedReader(shown=status(lists_gpus=False))).page("/gpus")
        assert "No GPU has been seen yet" not in page
        assert "With Prometheus, see the Fleet and Node dashboards in Grafana." in body(page).words

    def test_a_large_fleet_is_paged_by_node(self, serve: Serve) -> None:
        from dutycycle_alerter.model import Gpu

        devices = [gpu_now(gpu=Gpu(f"n{node:03d}", "0", f"GPU-{node}")) for node in range(95)]
        page = body(serve(FixedReader(devices=devices)).page("/gpus?page=3"))
        assert len(page.all("section")) == 15
        assert "81 to 95 of 95" in page.words
        assert "95 busy" in page.words


class TestEveryPage:
    @pytest.mark.parametrize("path", [*PAGES, "/incidents/99"])
    def test_a_replay_is_said_in_title_and_banner(self, serve: Serve, path: str) -> None:
        reader = full_reader("")
        reader.shown = status(replay=True, time_scale=60.0)
        page = parse(serve(reader).get(path).data.decode())
        assert page.all("title")[0].words.startswith("REPLAY · ")
        assert page.all("body")[0].words.replace("Skip to content ", "").startswith("REPLAY")
        assert "60 times as fast" in page.words

    @pytest.mark.parametrize("path", PAGES)
    def test_without_a_replay_the_word_is_nowhere(self, serve: Serve, path: str) -> None:
        assert "REPLAY" not in serve(full_reader("")).page(path)

    def test_before_the_first_pass_nothing_is_said_of_exporters(self, serve: Serve) -> None:
        words = strip(serve(FixedReader(shown=status(last_pass=None, targets=(), jobs_judged=0))).page("/"))
        assert words == "No pass yet"

    def test_spans_are_on_the_shown_scale_and_moments_are_not(self, serve: Serve) -> None:
        reader = full_reader("")
        reader.shown = status(time_scale=60.0)
        words = body(serve(reader).page("/incidents/7")).words
        assert "for 5 d now" in words  # 2 h of wall time
        assert "120 GPU-hours" in words
        assert "60.0 kWh" in words
        assert "12:13:20" in words

    @pytest.mark.parametrize(
        ("shown", "says"),
        [
            (status(), "Last pass 20 s ago 3 jobs judged The source answers"),
            (status(last_pass=None, jobs_judged=0), "No pass yet"),
            (status(first_verdict_at=NOW + 1200), "Observing, first verdict at 14:33"),
            (status(last_pass=NOW - 3600), "Last pass 1 h ago: what follows may be out of date"),
            (status(targets=()), "No source is configured"),
            (status(time_scale=60.0), "Last pass at 14:13:00 3 jobs judged"),
            (
                status(
                    targets=(
                        TargetStatus("http://a/", "a", NOW - 60, ""),
                        TargetStatus("http://b/", "", None, "refused"),
                    )
                ),
                "1 of 2 sources does not answer http://b/: refused (never answered)",
            ),
            (
                status(targets=(TargetStatus("http://a/", "", NOW - 60, "", "2 allocations are there twice"),)),
                "The source answers http://a/: 2 allocations are there twice",
            ),
            (
                status(not_evaluable=(NotEvaluable("stalled", "no gaps", 2), NotEvaluable("stalled", "no CPU", 1))),
                "1 rule not evaluable for some jobs stalled, 2 jobs: no gaps stalled, 1 job: no CPU",
            ),
        ],
    )
    def test_the_strip_says_how_the_alerter_is(self, serve: Serve, shown: object, says: str) -> None:
        words = strip(serve(FixedReader(shown=shown)).page("/users"))  # type: ignore[arg-type]
        assert says in words

    def test_the_strip_names_receivers_that_have_failed_for_long_and_not_what_they_say(self, serve: Serve) -> None:
        failing = {
            "mail": DeliveryCounts(failing_since=NOW - 7200, error="secret"),
            "chat": DeliveryCounts(failing_since=NOW - 3600),
            "hook": DeliveryCounts(failing_since=NOW - 60),
            "pager": DeliveryCounts(),
        }
        for counts, says in (
            (failing, "2 receivers do not accept messages chat has failed for 1 h mail has failed for 2 h"),
            ({"mail": failing["mail"]}, "1 receiver does not accept messages mail has failed for 2 h"),
        ):
            words = strip(serve(FixedReader(), deliveries=lambda found=counts: found).page("/users"))
            assert words.endswith(says)
        assert "receiver" not in strip(
            serve(FixedReader(), deliveries=lambda: {"hook": failing["hook"]}).page("/users")
        )

    @pytest.mark.parametrize("path", [*PAGES, "/nowhere"])
    def test_headings_labels_landmarks(self, serve: Serve, path: str) -> None:
        """One h1, no level skipped, every field labelled, every table headed, every picture named or hidden."""
        page = parse(serve(full_reader("")).get(path).data.decode())
        assert page.all("html")[0].attributes["lang"] == "en"
        assert len(page.all("h1")) == len(page.all("main")) == 1
        levels = [int(e.tag[1]) for e in page.walk() if re.fullmatch("h[1-6]", e.tag)]
        assert all(b - a <= 1 for a, b in pairwise(levels)), levels
        labelled = [id(f) for label in page.all("label") for f in _fields(label)]
        for control in _fields(page):
            assert control.attributes.get("type") == "hidden" or id(control) in labelled, control
        for table in page.all("table"):
            assert all(th.attributes.get("scope") for th in table.all("th"))
        hidden = [e for outer in page.walk() if outer.attributes.get("aria-hidden") for e in outer.walk()]
        for picture in page.all("svg"):
            named = picture.attributes.get("role") == "img" and picture.attributes.get("aria-label")
            assert named or picture in hidden or _within(page, picture, "svg"), picture.attributes
        ids = [e.attributes["id"] for e in page.walk() if "id" in e.attributes]
        assert len(ids) == len(set(ids))
        for element in page.walk():
            for reference in ("aria-labelledby", "aria-describedby"):
                assert element.attributes.get(reference, ids[0]) in ids

    @pytest.mark.parametrize("path", PAGES)
    def test_nothing_needs_a_script_or_comes_from_elsewhere(self, serve: Serve, path: str) -> None:
        page = parse(serve(full_reader("")).page(path))
        assert not page.all("script")
        for element in page.walk():
            assert "style" not in element.attributes
            assert not [name for name in element.attributes if name.startswith("on")]
            for name in ("href", "src", "action", "formaction"):
                assert element.attributes.get(name, "/").startswith(("/", "#"))


def _fields(element: Element) -> list[Element]:
    return [*element.all("input"), *element.all("select"), *element.all("textarea")]


def _within(page: Element, wanted: Element, tag: str) -> bool:
    return any(any(inner is wanted for inner in outer.all(wanted.tag)) for outer in page.all(tag))
