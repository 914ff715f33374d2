"""`dutycycle-dashboards push`: what is written is what differs, and nobody else's work is lost."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from dutycycle_dashboards.publishing.comparing import difference
from dutycycle_dashboards.render import dashboards
from tests.dashboards.command import Done, dutycycle_dashboards, environment, program
from tests.dashboards.conftest import reached, together
from tests.fakes.grafana.rules import Dashboard
from tests.fakes.grafana.server import Answer, Call, Cut, GrafanaServer

Push = Callable[..., Done]

UIDS = tuple(dashboards())
EVERY_WRITE = ["POST /folders", *["POST /dashboards/db"] * len(UIDS)]
FIRST = UIDS[0]


RELEASES = pytest.mark.parametrize("grafana", ["10.4.0", "12.1.0", "13.0.0"], indirect=True)
"""What an Editor is told about a folder that is not there, and who may have which title, differs."""


@RELEASES
def test_the_first_push_makes_folder_and_dashboards(grafana: GrafanaServer, push: Push) -> None:
    done = push()
    assert (done.code, done.err) == (0, "")
    assert grafana.writes() == EVERY_WRITE
    assert grafana.content.folders["dutycycle"]["title"] == "Dutycycle"
    assert {one.folder for one in grafana.content.dashboards.values()} == {"dutycycle"}
    for uid, model in dashboards().items():
        assert difference(grafana.content.dashboards[uid].model(), model) == ""
        assert re.search(rf"^created +{uid} .*\(version 1\)$", done.out, re.MULTILINE)
    assert done.out.endswith(f"{len(UIDS) + 1} created, 0 changed, 0 unchanged\n")


@RELEASES
def test_the_second_push_writes_nothing(grafana: GrafanaServer, push: Push) -> None:
    push()
    grafana.calls.clear()
    done = push()
    assert (done.code, grafana.writes()) == (0, [])
    assert f"0 created, 0 changed, {len(UIDS) + 1} unchanged" in done.out


def test_what_grafana_adds_is_no_difference(grafana: GrafanaServer, push: Push) -> None:
    push()
    stored = grafana.content.dashboards[FIRST].versions[-1]
    stored |= {"iteration": 1, "gnetId": None, "weekStart": "", "preload": False}
    # As it is there when somebody only pressed Save.
    stored["schemaVersion"] += 1
    stored["annotations"]["list"] = [{"builtIn": 1, "name": "Annotations & Alerts"}, *stored["annotations"]["list"]]
    for panel in stored["panels"]:
        panel |= {"pluginVersion": "12.1.0", "links": panel.get("links", []), "transparent": False}
    grafana.calls.clear()
    assert push().code == 0
    assert grafana.writes() == []


@pytest.mark.parametrize("folders", [True, False])
def test_a_dry_run_writes_nothing_and_shows_what_would_be(grafana: GrafanaServer, push: Push, folders: bool) -> None:
    if folders:
        push()
        grafana.content.dashboards[FIRST].versions[-1]["title"] = "Renamed by somebody"
        grafana.calls.clear()
    done = push("--dry-run")
    assert (done.code, done.err, grafana.writes()) == (0, "", [])
    if folders:
        assert '-  "title": "Renamed by somebody"' in done.out
        assert f'+  "title": "{dashboards()[FIRST]["title"]}"' in done.out
        assert f"would be: 0 created, 1 changed, {len(UIDS)} unchanged" in done.out
    else:
        assert f"would be: {len(UIDS) + 1} created, 0 changed, 0 unchanged" in done.out


def test_only_what_people_changed_is_written_back(grafana: GrafanaServer, push: Push) -> None:
    push()
    stored = grafana.content.dashboards[FIRST]
    stored.versions.append({**stored.versions[-1], "refresh": "5s"})
    grafana.calls.clear()
    assert push().code == 0
    assert grafana.writes() == ["POST /dashboards/db"]
    assert len(stored.versions) == 3
    assert difference(stored.model(), dashboards()[FIRST]) == ""


def test_a_dashboard_that_was_moved_comes_back(grafana: GrafanaServer, push: Push) -> None:
    push()
    grafana.content.make_folder({"uid": "other", "title": "Other"})
    grafana.content.dashboards[FIRST].folder = "other"
    assert "folder: other -> dutycycle" in push("--dry-run").out
    assert push().code == 0
    assert grafana.content.dashboards[FIRST].folder == "dutycycle"


def test_a_folder_that_was_renamed_keeps_its_name(grafana: GrafanaServer, push: Push) -> None:
    push()
    grafana.content.folders["dutycycle"]["title"] = "GPUs"
    grafana.calls.clear()
    assert push().code == 0
    assert grafana.writes() == []
    assert grafana.content.folders["dutycycle"]["title"] == "GPUs"


def test_what_somebody_saves_meanwhile_is_not_overwritten(grafana: GrafanaServer, push: Push) -> None:
    push()
    stored = grafana.content.dashboards[FIRST]
    stored.versions.append({**stored.versions[-1], "refresh": "5s"})

    def save_as_well(call: Call) -> None:
        if call.writes:
            stored.versions.append({**stored.versions[-1], "refresh": "10s"})

    grafana.before = save_as_well
    refused = push()
    assert refused.code == 1
    assert "412, it was changed by somebody else meanwhile" in refused.err
    assert "--overwrite" in refused.err
    assert stored.versions[-1]["refresh"] == "10s"
    assert push("--overwrite").code == 0
    assert difference(stored.model(), dashboards()[FIRST]) == ""


@RELEASES
def test_two_first_pushes_at_once_both_end_well(grafana: GrafanaServer, push: Push) -> None:
    together(grafana, "/folders/", 2)
    with ThreadPoolExecutor(2) as pool:
        done = [one.result() for one in [pool.submit(push), pool.submit(push)]]
    assert [(one.code, one.err) for one in done] == [(0, ""), (0, "")]
    assert [len(one.versions) for one in grafana.content.dashboards.values()] == [1] * len(UIDS)


@pytest.mark.parametrize("grafana", ["13.0.0"], indirect=True)
def test_a_dry_run_owns_that_it_cannot_see_whether_the_folder_is_there(grafana: GrafanaServer, push: Push) -> None:
    done = push("--dry-run")
    assert (done.code, done.err, grafana.writes()) == (0, "", [])
    assert "unless it is there and the token does not see it" in done.out


def test_a_folder_of_the_same_title_is_not_taken_for_ours(grafana: GrafanaServer, push: Push) -> None:
    grafana.fail("POST /folders", Answer(409, b'{"message": "a folder with the same name already exists"}'))
    done = push()
    assert done.code == 1
    assert "Choose another title: --folder" in done.err


@pytest.mark.parametrize("grafana", ["10.4.0"], indirect=True)
@pytest.mark.parametrize("overwrite", [False, True])
def test_a_persons_copy_of_the_same_title_is_never_overwritten(
    grafana: GrafanaServer, push: Push, overwrite: bool
) -> None:
    push()
    mine, theirs = grafana.content.dashboards[FIRST], Dashboard(99, "dutycycle", [{"uid": "copy", "title": "x"}])
    theirs.versions[0]["title"] = dashboards()[FIRST]["title"]
    mine.versions.append({**mine.versions[-1], "title": "Renamed"})
    grafana.content.dashboards["copy"] = theirs
    done = push(*["--overwrite"] * overwrite)
    assert done.code == 1
    assert "412, something else already has that uid or name" in done.err
    assert "rename or move that one" in done.err
    assert len(theirs.versions) == 1


@pytest.mark.parametrize("grafana", ["13.0.0"], indirect=True)
def test_what_was_saved_in_grafanas_newer_form_is_replaced(grafana: GrafanaServer, push: Push) -> None:
    """The older API answers with that form as it is: neither a title nor a version in it."""
    push()
    newer = {"apiVersion": "dashboard.grafana.app/v2beta1", "kind": "Dashboard", "spec": {"title": "x", "elements": {}}}
    stored = grafana.content.dashboards[FIRST]
    stored.versions.append(newer)
    shown = push("--dry-run")
    assert f"changed   {FIRST}" in shown.out
    assert "a form of Grafana 13's own, and is replaced" in shown.out
    assert "+  " not in shown.out
    assert push().code == 0
    assert difference(stored.model(), dashboards()[FIRST]) == ""


def test_a_newer_form_that_is_not_even_shown_is_replaced_when_asked(grafana: GrafanaServer, push: Push) -> None:
    push()
    grafana.fail(f"GET /dashboards/uid/{FIRST}", Answer(406, b'{"message": "dashboard is v2"}'), times=None)
    refused = push()
    assert (refused.code, "--overwrite" in refused.err) == (1, True)
    assert push("--overwrite").code == 0


def test_a_dashboard_from_a_provisioning_file_is_left_alone(grafana: GrafanaServer, push: Push) -> None:
    provisioned = Dashboard(1, "", [{"uid": UIDS[-1], "title": "x"}], provisioned=True)
    grafana.content.dashboards[UIDS[-1]] = provisioned
    done = push()
    assert done.code == 1
    assert f"{UIDS[-1]} comes from a provisioning file" in done.err
    assert grafana.writes() == []
    assert len(provisioned.versions) == 1


def test_a_difference_is_cut_unless_it_is_wanted_whole(grafana: GrafanaServer, push: Push) -> None:
    push()
    grafana.content.dashboards[FIRST].versions[-1] |= {"x": list(range(1000)), "y": "y" * 1000}
    cut, whole = push("--dry-run").out, push("--dry-run", "--full").out
    assert "more lines: --dry-run --full" in cut
    assert max(map(len, cut.splitlines())) <= 404
    assert "y" * 1000 in whole
    assert "more lines" not in whole


def test_a_push_that_is_killed_is_finished_by_the_next(
    grafana: GrafanaServer, token_file: Path, push: Push, stack: ExitStack
) -> None:
    grafana.fail("POST /dashboards/db", Cut.HANG, skip=1)
    command = [str(program()), "push", "--url", grafana.url, "--token-file", str(token_file)]
    process = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment()))
    assert process.stdout is not None
    said = [process.stdout.readline() for _ in range(2)]
    assert said[1].startswith(f"created   {FIRST}")
    reached(grafana, len(["the folder", "the first", "the second"]))
    process.send_signal(signal.SIGKILL)
    process.wait()
    done = push()
    assert done.code == 0
    assert list(grafana.content.dashboards) == list(UIDS)
    assert f"unchanged {FIRST}" in done.out
    assert f"{len(UIDS) - 1} created, 0 changed, 2 unchanged" in done.out


def test_an_answer_that_is_lost_is_no_harm(grafana: GrafanaServer, push: Push) -> None:
    grafana.fail("POST /dashboards/db", Cut.CLOSE, performed=True, skip=1)
    assert push().code == 1
    assert push().code == 0
    assert [len(one.versions) for one in grafana.content.dashboards.values()] == [1] * len(UIDS)


def test_a_busy_grafana_is_asked_again(grafana: GrafanaServer, push: Push) -> None:
    grafana.fail("POST /dashboards/db", Answer(429, b'{"message": "Too many requests"}'))
    assert push().code == 0
    assert set(grafana.content.dashboards) == set(UIDS)


def test_options_by_the_environment(grafana: GrafanaServer, token_file: Path) -> None:
    variables = {"DUTYCYCLE_GRAFANA_URL": grafana.url, "DUTYCYCLE_GRAFANA_TOKEN_FILE": str(token_file)}
    done = dutycycle_dashboards("push", **variables, DUTYCYCLE_DASHBOARDS_PUSH_DRY_RUN="1")
    assert done.code == 0
    assert "would be" in done.out


def test_a_site_has_its_own_data_source_and_page(grafana: GrafanaServer, push: Push) -> None:
    done = push("--datasource", "mimir-1", "--alerter-url", "https://gpus.example.org/")
    assert done.code == 0
    for dashboard in grafana.content.dashboards.values():
        listed = dashboard.model()["templating"]["list"]
        current = {one["name"]: one.get("current", {}).get("value") for one in listed}
        assert current["datasource"] == "mimir-1"
        assert current.get("alerter", "https://gpus.example.org") == "https://gpus.example.org"


def test_a_grafana_below_a_path_with_a_certificate_of_its_own(
    token_file: Path, push: Push, tmp_path: Path, stack: ExitStack
) -> None:
    certificate = tmp_path / "grafana.pem"
    making = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    naming = ["-days", "2", "-subj", "/CN=grafana", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", str(tmp_path / "key"), "-out", str(certificate)]
    subprocess.run([*making, *naming, *files], check=True, capture_output=True)
    both = tmp_path / "both.pem"
    both.write_bytes((tmp_path / "key").read_bytes() + certificate.read_bytes())
    server = stack.enter_context(GrafanaServer(prefix="/grafana", certificate=both))
    untrusted = push(url=server.url)
    assert untrusted.code == 1
    assert "certificate" in untrusted.err.lower()
    assert push("--ca-file", str(certificate), url=server.url + "/").code == 0
    assert set(server.content.dashboards) == set(UIDS)
    assert "answers, but not as Grafana does" in push("--ca-file", str(certificate), url=server.url[:-8]).err


def test_without_the_client_push_names_the_extra(grafana: GrafanaServer, token_file: Path) -> None:
    """The main environment has no client of Grafana's: it would take urllib3's place there."""
    code = "from dutycycle_dashboards.cli import main; main()"
    command = [sys.executable, "-c", code, "push", "--url", grafana.url, "--token-file", str(token_file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment())
    assert done.returncode == 2
    assert "in a checkout, pipx install '.[dashboards]', or make dashboards" in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_client_is_in_a_lock_of_its_own_alone() -> None:
    root = Path(__file__).resolve().parents[2]
    main, own = (root / name for name in ("requirements.lock", "requirements-dashboards.lock"))
    assert not re.search(r"^(grafana-client|niquests|urllib3-future)==", main.read_text(), re.MULTILINE)
    assert re.search(r"^grafana-client==5\.", own.read_text(), re.MULTILINE)
