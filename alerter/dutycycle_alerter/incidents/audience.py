"""Whom an incident is for. Operators see all; the owner of a job is told what is sure and the owner's to change."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from dutycycle_alerter.incidents.model import Incident, OpenRule, Severity
from dutycycle_alerter.settings.policies import Attention


class Audience(StrEnum):
    """Nobody is mailed a report; operators alone, or the owner as well."""

    NOBODY = "nobody"
    OPERATORS = "operators"
    OWNER = "owner"


def audience(incident: Incident) -> Audience:
    """Who may be mailed about it; costs and rates are for the notifications to weigh.

    Where a hang that no counter confirms is open beside another rule, that one is the owner's as ever.
    """
    if incident.kind == "efficiency":
        rules = incident.rules or (OpenRule(incident.rule, incident.opened_at, incident.severity),)
        if any(owner_hears(rule) in (Attention.WARNING, Attention.CRITICAL) for rule in rules):
            return Audience.OWNER
    if incident.kind == "report" or incident.severity is Severity.INFO:
        return Audience.NOBODY
    return Audience.OPERATORS


def owner_hears(rule: OpenRule) -> Attention:
    """What the owner of a job is to hear of a rule: what a policy says, else its severity.

    A hang that no counter confirms is for operators to look at first. Information and nothing are never mailed.
    """
    if rule.told is not None:
        return rule.told
    if rule.rule == "hung" and rule.severity is not Severity.CRITICAL:
        return Attention.NONE
    return Attention(rule.severity.value)


def critical_for_owner(rules: Iterable[OpenRule]) -> frozenset[str]:
    """Those of some open rules that are critical for the owner of the job."""
    return frozenset(rule.rule for rule in rules if owner_hears(rule) is Attention.CRITICAL)
