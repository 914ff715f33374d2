"""Whom an incident is for. Operators see all; the owner of a job is told what is sure and the owner's to change."""

from __future__ import annotations

from enum import StrEnum

from dutycycle_alerter.incidents.model import Incident, Severity


class Audience(StrEnum):
    """Nobody is mailed a report; operators alone, or the owner as well."""

    NOBODY = "nobody"
    OPERATORS = "operators"
    OWNER = "owner"


def audience(incident: Incident) -> Audience:
    """Who may be mailed about it; costs and rates are for the notifications to weigh.

    A hang that no counter confirms is for operators to look at first. Where another rule is open beside it, that one
    is the owner's as ever.
    """
    if incident.kind == "report" or incident.severity is Severity.INFO:
        return Audience.NOBODY
    if incident.kind != "efficiency":
        return Audience.OPERATORS
    rules = [(rule.rule, rule.severity) for rule in incident.rules] or [(incident.rule, incident.severity)]
    unsure = all(rule == "hung" and severity is not Severity.CRITICAL for rule, severity in rules)
    return Audience.OPERATORS if unsure else Audience.OWNER
