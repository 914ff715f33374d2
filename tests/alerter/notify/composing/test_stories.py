"""What is told of an incident: which steps."""

from __future__ import annotations

from dataclasses import replace

from dutycycle_alerter.incidents.model import Cause, Diagnosis, Incident
from dutycycle_alerter.rules.advice import ADVICE
from tests.alerter.notify.composing.parcels import ALICE, composition, hesitating, partly_on_kubernetes
from tests.alerter.notify.composing.parcels import told as parcel

COMPOSER = composition()


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
