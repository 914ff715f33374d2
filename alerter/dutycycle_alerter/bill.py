"""What an incident cost so far, by the configured factors."""

from __future__ import annotations

from dataclasses import dataclass

from dutycycle_alerter.incidents.model import Incident
from dutycycle_alerter.settings import Costs


@dataclass(frozen=True, slots=True)
class Bill:
    """GPU-seconds wasted and their money, joules and grams of CO2 drawn by all GPUs of the job meanwhile; on the shown
    scale, None where no factor is configured.

    `per_day` is GPU-seconds a day if nothing changes; None once resolved.
    """

    wasted: float
    energy: float
    money: float | None
    currency: str
    co2: float | None
    per_day: float | None


def bill(incident: Incident, costs: Costs, *, now: float, time_scale: float) -> Bill:
    """The costs of an incident until now, or until it ended."""
    wasted, energy = incident.wasted * time_scale, incident.energy * time_scale
    lasted = now - incident.started_at
    return Bill(
        wasted=wasted,
        energy=energy,
        money=None if costs.gpu_hour is None else costs.gpu_hour * wasted / 3600,
        currency=costs.currency,
        co2=None if costs.co2_grams_per_kwh is None else costs.co2_grams_per_kwh * energy / 3.6e6,
        # Both are wall seconds: their ratio needs no scale.
        per_day=incident.wasted / lasted * 86400 if incident.state.active and lasted > 0 else None,
    )
