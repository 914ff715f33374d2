"""What is told of an incident: which steps, and which commands with what they are for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dutycycle_alerter.incidents.model import Cause, Diagnosis, Incident
from dutycycle_alerter.notify.composing import Composition
from dutycycle_alerter.rules.advice import ADVICE
from dutycycle_alerter.rules.commands import confirm
from dutycycle_alerter.rules.purposes import Purpose
from tests.alerter.cases import job
from tests.alerter.notify.composing.parcels import ALICE, composition, hesitating, idle_on_slurm, partly_on_kubernetes
from tests.alerter.notify.composing.parcels import told as parcel
from tests.alerter.web.html import parse
from tests.fakes.slack.rendering import seen

COMPOSER = composition()


def hanging() -> Incident:
    """Eight GPUs on two nodes that wait for nothing that will come."""
    one = idle_on_slurm()
    commands = confirm(job(8, nodes=2, id="slurm/4711", job_id="4711"), (Cause.HANG,))
    return replace(one, diagnosis=Diagnosis((Cause.HANG,), ("it spins",), ADVICE[Cause.HANG], commands=commands))


def formats(composer: Composition, incident: Incident) -> dict[str, str]:
    """What people read of it."""
    one = parcel(incident, to=ALICE)
    mail = composer.mail(one)
    return {
        "text": mail.text,
        "html": parse(mail.html).words,
        "slack": seen(composer.slack(one)),
        "brief": composer.brief(one).text,
        "commands": composer.annotations(incident)["commands"],
    }


@pytest.mark.parametrize("name", ["text", "html", "slack", "brief", "commands"])
def test_the_stacks_are_saved_before_the_job_is_ended_and_each_says_what_it_does(name: str) -> None:
    said = formats(COMPOSER, hanging())[name]
    parts = (Purpose.STACKS.label, "py-spy dump", Purpose.END.label, "scancel 4711")
    places = [said.index(part) for part in parts]
    assert places == sorted(places)
    if name not in ("brief", "commands"):
        assert said.index("Dump the stacks before you cancel") < places[0]
        assert places[-1] < said.index(Purpose.LOOK.label) < said.index("nvidia-smi")


def test_annotations_are_read_line_by_line_and_labels_are_comments() -> None:
    lines = COMPOSER.annotations(idle_on_slurm())["commands"].split("\n")
    assert lines[0::2] == [f"# {Purpose.LOOK.label}", f"# {Purpose.END.label}"]
    assert lines[-1] == "scancel 4711"


@pytest.mark.parametrize("name", ["text", "html", "slack"])
def test_what_may_be_slow_is_not_said_to_be_ended(name: str) -> None:
    said = formats(COMPOSER, hesitating())[name]
    assert "py-spy dump" in said
    for purpose in (Purpose.LOOK, Purpose.DUMP, Purpose.PROFILE):
        assert said.count(purpose.label) == 1
    for purpose in (Purpose.STACKS, Purpose.END, Purpose.TRACE):
        assert purpose.label not in said


def advice(incident: Incident) -> list[str]:
    """The numbered steps of a mail."""
    text = COMPOSER.mail(parcel(incident, to=ALICE)).text
    return [line[3:] for line in text.splitlines() if line[:3] in ("1. ", "2. ", "3. ")]


def test_a_hesitation_tells_the_jobs_own_numbers_of_each_cause() -> None:
    incident = partly_on_kubernetes()
    assert incident.diagnosis.causes == (Cause.OVER_REQUEST, Cause.COMMUNICATION)
    first, second = advice(incident)
    assert first.startswith("If it is over-request: Ask for 1 GPU instead of 4: 3 did nothing over 30 min, 1.5 GPU-")
    assert second == f"If it is communication or straggler: {ADVICE[Cause.COMMUNICATION][0]}"


def test_a_step_of_two_causes_is_told_once() -> None:
    step = "The 8 GPUs together do the work of 1.6: ask for 2 if the program allows it."
    causes = (Cause.SMALL_WORK, Cause.OVER_REQUEST)
    told = (step, *ADVICE[Cause.SMALL_WORK], *ADVICE[Cause.OVER_REQUEST])
    own_steps = tuple((cause, step) for cause in causes)
    first, second = advice(replace(hesitating(), diagnosis=Diagnosis(causes, ("x",), told, own_steps=own_steps)))
    assert first == f"If it is small work per step: {step}"
    assert second == f"If it is over-request: {ADVICE[Cause.OVER_REQUEST][0]}"


def test_what_was_stored_before_steps_had_their_causes_is_told_with_the_general_ones() -> None:
    incident = partly_on_kubernetes()
    first, _ = advice(replace(incident, diagnosis=replace(incident.diagnosis, own_steps=())))
    assert first == f"If it is over-request: {ADVICE[Cause.OVER_REQUEST][0]}"
