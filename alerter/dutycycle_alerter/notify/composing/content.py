"""What templates are given: every text in it is harmless in the template's format, every figure has its unit's form.

docs/messages.md explains each name to who writes a template.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Telling:
    """One thing that is new: `news` is one of the five, `said` a sentence about it, `at` a moment. `critical` tells
    whether it became so.
    """

    news: str
    at: str
    said: str
    actor: str
    critical: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """GPUs of one node as ranges of indexes, and the pods that hold them, where the job is made of pods."""

    node: str
    gpus: str
    pods: tuple[str, ...]
    more_pods: int


@dataclass(frozen=True, slots=True)
class Command:
    """An exact command line, and what it is for: `look`, `dump`, `stacks`, `end`, `profile`, or `do` where the order
    counts. `label` says so above it; empty for `do`.
    """

    what: str
    label: str
    line: str


@dataclass(frozen=True, slots=True)
class Urls:
    """Where links lead; each empty where there is none."""

    incident: str = ""
    acknowledge: str = ""
    snooze: str = ""
    intended: str = ""
    dashboard: str = ""


@dataclass(frozen=True, slots=True)
class Costs:
    """What it wasted so far and wastes a day if nothing changes. Energy and CO2 are what all GPUs of the job drew
    meanwhile, whether they worked or not. Each empty where it is not known or configured.
    """

    gpu_hours: str = ""
    energy: str = ""
    money: str = ""
    co2: str = ""
    gpu_hours_per_day: str = ""
    energy_per_day: str = ""
    money_per_day: str = ""


@dataclass(frozen=True, slots=True)
class Story:
    """One incident. Texts are empty and tuples are short where there is nothing to say."""

    id: int
    headline: str
    rule: str
    severity: str
    state: str
    active: bool
    about: str
    name: str
    mine: bool
    user: str
    details: tuple[tuple[str, str], ...]
    tellings: tuple[Telling, ...]
    since: str
    lasted: str
    until: str
    outcome: str
    handled: str
    gpus: int
    job_gpus: int
    places: tuple[Place, ...]
    more_nodes: int
    causes: tuple[str, ...]
    evidence: tuple[str, ...]
    tell_apart: tuple[str, ...]
    also: tuple[str, ...]
    advice: tuple[str, ...]
    commands: tuple[Command, ...]
    costs: Costs
    urls: Urls
    picture: str
    picture_alt: str


@dataclass(frozen=True, slots=True)
class Count:
    """How many incidents of one rule there are among those told, and what they wasted."""

    rule: str
    incidents: int
    critical: int
    gpu_hours: str


@dataclass(frozen=True, slots=True)
class Table:
    """A table of a report. `numbers` tells which columns are figures."""

    title: str
    heads: tuple[str, ...]
    numbers: tuple[bool, ...]
    rows: tuple[tuple[str, ...], ...]
    more: int


@dataclass(frozen=True, slots=True)
class Report:
    """The weekly report: `title` names its range."""

    title: str
    lines: tuple[str, ...]
    tables: tuple[Table, ...]
    picture: str
    picture_alt: str


@dataclass(frozen=True, slots=True)
class Message:
    """All that a template is given.

    `kind` is one of `incidents`, `digest`, `report`, `test`; `to` is `operators` or `owner`, then `user` is set.
    `stories` are the worst first; of a digest, only the first of them. `total` is how many there are, `counted` how
    many of them, the worst, `resolved` and `counts` are about. `threaded` tells that what
    is new is said beside it, in a thread of Slack. `because` tells the user of a job why they hear of it, in sentences;
    `unsubscribe` is where they can say that they do not want to, empty where they cannot.
    """

    kind: str
    to: str
    user: str
    stories: tuple[Story, ...]
    total: int
    counted: int
    resolved: int
    counts: tuple[Count, ...]
    gpu_hours: str
    list_url: str
    report: Report | None
    replay: bool
    threaded: bool
    because: tuple[str, ...]
    unsubscribe: str
    now: str
    zone: str
