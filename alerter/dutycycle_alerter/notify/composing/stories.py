"""From an incident, and what is new of it, to what a message says of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import tzinfo

from dutycycle_alerter import figures
from dutycycle_alerter.bill import Bill, bill
from dutycycle_alerter.headline import duration, headline, rule_name, shown_subject, subject_name
from dutycycle_alerter.incidents.model import Cause, Diagnosis, Incident, Resolution, Severity, State
from dutycycle_alerter.model import Gpu, workload_of
from dutycycle_alerter.notify.composing.content import Command, Costs, Place, Story, Telling, Urls
from dutycycle_alerter.notify.composing.offering import Offer
from dutycycle_alerter.notify.composing.voices import Voice
from dutycycle_alerter.notify.links import Action
from dutycycle_alerter.notify.model import Item, Recipient, To
from dutycycle_alerter.notify.model import Telling as Told
from dutycycle_alerter.rules.advice import ADVICE
from dutycycle_alerter.rules.purposes import Purpose, by_purpose
from dutycycle_alerter.settings import Costs as Prices
from dutycycle_alerter.settings.notify import News

_NODES, _PODS = 4, 3
_EVIDENCE, _ADVICE, _TELLINGS, _COMMANDS = 4, 3, 6, 4

_LONGEST_IN_URL = 500
"""Characters of a name that an address may hold: no browser takes one of very many."""

_OUTCOMES = {
    Resolution.CLEARED: "the condition cleared",
    Resolution.ENDED: "the job ended",
    Resolution.LOST: "no data arrived any more",
    Resolution.OPERATOR: "somebody closed it",
    Resolution.EXCLUDED: "a policy now excludes it",
    Resolution.INTENDED: "it was intended",
}
_NEWS = {
    News.OPENED: "Noticed",
    News.REOPENED: "It came back",
    News.ESCALATED: "It is now critical",
    News.UPDATED: "Changed",
    News.RESOLVED: "It is over",
}


@dataclass(frozen=True, slots=True)
class Teller:
    """How stories are told: in which voice, to whom, when, and with which prices and links. `now` in Unix seconds."""

    voice: Voice
    to: Recipient
    now: float
    zone: tzinfo | None
    time_scale: float
    prices: Prices
    offer: Offer

    def story(self, item: Item, *, picture: str = "", picture_alt: str = "") -> Story:
        """One incident. `picture` is the name of one that goes with the message."""
        incident, voice = item.incident, self.voice
        diagnosis = incident.diagnosis
        places, workloads = figures.gpu_places(incident.gpus), _workloads(incident.gpus)
        return Story(
            id=incident.id,
            headline=voice.name(headline(incident)),
            rule=voice.name(rule_name(incident.rule)),
            severity=incident.severity.value,
            state=incident.state.value,
            active=incident.state.active,
            about=subject_name(incident),
            name=voice.name(_name(incident)),
            mine=self.to.to is To.OWNER and incident.about == "job",
            user=voice.name(incident.user),
            details=tuple(self._details(incident)),
            tellings=tuple(self._telling(telling) for telling in item.tellings[-_TELLINGS:]),
            since=self.moment(incident.started_at),
            lasted=duration(incident, self.now, self.time_scale),
            until="" if incident.resolved_at is None else self.moment(incident.resolved_at, beside=incident.started_at),
            outcome=self._outcome(item),
            handled=self._handled(incident),
            gpus=len(incident.gpus),
            job_gpus=max(incident.job_gpus, len(incident.gpus)),
            places=tuple(self._place(node, gpus, workloads.get(node, ())) for node, gpus in places[:_NODES]),
            more_nodes=max(0, len(places) - _NODES),
            causes=tuple(voice.name(cause.label) for cause in diagnosis.causes),
            evidence=tuple(voice.sentence(text) for text in diagnosis.evidence[:_EVIDENCE]),
            tell_apart=tuple(voice.sentence(text) for text in diagnosis.tell_apart.rstrip(".").split("; ") if text),
            also=tuple(voice.name(rule_name(rule.rule)) for rule in incident.rules if rule.rule != incident.rule),
            advice=tuple(voice.sentence(text) for text in _steps(diagnosis)),
            commands=tuple(self._commands(incident)) if incident.state.active else (),
            costs=self._costs(incident),
            urls=self._urls(incident),
            picture=picture,
            picture_alt=voice.said(picture_alt) if picture_alt else "",
        )

    def moment(self, timestamp: float, *, beside: float | None = None) -> str:
        """A moment in the messages' zone, as short as it can be told apart from the message's time, or from that of
        another that it stands beside; to the second where time runs fast.
        """
        return figures.moment(timestamp, now=self.now, zone=self.zone, beside=beside, seconds=self.time_scale > 1)

    def _details(self, incident: Incident) -> Iterator[tuple[str, str]]:
        for label in ("account", "partition", "namespace", "cluster"):
            value: str = getattr(incident, label)
            if value and not (label == "namespace" and f"/{value}/" in incident.subject):
                yield label, self.voice.name(value)
        if incident.about == "gpu" and incident.gpus and incident.gpus[0].uuid:
            yield "UUID", self.voice.name(incident.gpus[0].uuid)

    def _handled(self, incident: Incident) -> str:
        by = f" by {self.voice.name(incident.actor)}" if incident.actor else ""
        if incident.state is State.ACKNOWLEDGED:
            return f"Acknowledged{by}"
        if incident.state is State.SNOOZED and incident.snoozed_until is not None:
            return f"Snoozed{by} until {self.moment(incident.snoozed_until)}"
        return ""

    def _telling(self, telling: Told) -> Telling:
        said = telling.text if _says_more(telling) else ""
        actor = self.voice.name(telling.actor)
        worse = telling.news is News.ESCALATED and not _is_critical(telling)
        news = "It became worse" if worse else _NEWS[telling.news]
        if said and telling.news is News.UPDATED:
            head = f"{actor}: " if actor and telling.actor not in telling.text else ""
            sentence = head + (self.voice.sentence(said) if not head else self.voice.said(said))
        elif said:
            by = f" ({actor})" if actor and telling.actor not in telling.text else ""
            sentence = f"{news}{by}: {self.voice.said(said)}"
        else:
            sentence = f"{news}, by {actor}." if actor else f"{news}."
        critical = telling.news is News.ESCALATED and not worse
        return Telling(telling.news.value, self.moment(telling.at), sentence, actor, critical=critical)

    def _outcome(self, item: Item) -> str:
        incident = item.incident
        if incident.state.active:
            return ""
        said = _OUTCOMES[incident.resolution] if incident.resolution is not None else "it is over"
        if incident.actor and incident.resolution in (Resolution.OPERATOR, Resolution.INTENDED):
            said = f"{said} ({incident.actor})"
        told = [telling.text for telling in item.tellings if telling.news is News.RESOLVED and _says_more(telling)]
        if told:
            more = told[-1].removeprefix("intended: ")
            said = more if more.startswith(said) else f"{said}: {more}"
        return self.voice.said(said)

    def _place(self, node: str, indexes: str, held_by: Sequence[Gpu]) -> Place:
        return Place(
            node=self.voice.name(node) if node else "this machine",
            gpus=self.voice.name(indexes),
            pods=tuple(self.voice.name(gpu.pod) for gpu in held_by[:_PODS]),
            more_pods=max(0, len(held_by) - _PODS),
        )

    def _commands(self, incident: Incident) -> Iterator[Command]:
        """Of a job, one of each purpose: the first that can be said exactly; what goes into the program is left to the
        incident's page. Of a GPU or a node, the first few in their order.
        """
        lines = incident.diagnosis.commands
        exact = {line: said for line in lines if (said := self.voice.command(line)) is not None}
        if incident.about != "job":
            yield from (Command("do", "", said) for said in [*exact.values()][:_COMMANDS])
            return
        for purpose, (first, *_) in by_purpose(exact).items():
            if purpose is not Purpose.TRACE:
                yield Command(purpose.value, purpose.label, exact[first])

    def _costs(self, incident: Incident) -> Costs:
        if incident.about != "job":
            return Costs()
        cost = bill(incident, self.prices, now=self.now, time_scale=self.time_scale)
        daily = _daily(cost)
        return Costs(
            gpu_hours=figures.hours(cost.wasted),
            energy=figures.energy(cost.energy) if cost.energy else "",
            money=self._money(cost.money),
            co2="" if cost.co2 is None or not cost.energy else figures.mass(cost.co2),
            gpu_hours_per_day="" if not cost.per_day else figures.hours(cost.per_day),
            energy_per_day="" if daily is None or not cost.energy else figures.energy(cost.energy * daily),
            money_per_day=self._money(cost.money * daily) if cost.money and daily is not None else "",
        )

    def _money(self, amount: float | None) -> str:
        return "" if amount is None else f"{figures.money(amount)} {self.voice.name(self.prices.currency)}"

    def _urls(self, incident: Incident) -> Urls:
        def acting(action: Action) -> str:
            return self.voice.link(self.offer.link(incident, action, self.to, now=self.now))

        return Urls(
            incident=self.voice.link(self.offer.links.incident(incident.id)) if incident.id > 0 else "",
            acknowledge=acting(Action.ACKNOWLEDGE),
            snooze=acting(Action.SNOOZE),
            intended=acting(Action.INTENDED),
            dashboard=self._dashboard(incident),
        )

    def _dashboard(self, incident: Incident) -> str:
        if max(len(incident.subject), len(incident.user), len(incident.cluster)) > _LONGEST_IN_URL:
            return ""
        return self.voice.link(self.offer.links.dashboard(incident, now=self.now))


def _workloads(gpus: Sequence[Gpu]) -> dict[str, list[Gpu]]:
    """By node, one GPU of each pod there."""
    found: dict[str, dict[str, Gpu]] = {}
    for gpu in gpus:
        if gpu.workload:
            found.setdefault(gpu.node, {}).setdefault(gpu.workload, gpu)
    return {node: list(pods.values()) for node, pods in found.items()}


def _name(incident: Incident) -> str:
    """What it is about, without its cluster, which stands beside it."""
    if incident.about == "gpu" and incident.gpus:
        return incident.gpus[0].label
    name = workload_of(shown_subject(incident), incident.cluster)
    return name.removeprefix("node/") if incident.about == "node" else name


def _steps(diagnosis: Diagnosis) -> Iterable[str]:
    """What to do first. Where several causes are likely, a step of each: the steps of one would hide the others. One
    with the job's own numbers, as far as there is one that no other cause has.
    """
    found: dict[Cause, str] = {}
    if len(diagnosis.causes) > 1:
        for cause in diagnosis.causes:
            own = [step for of, step in diagnosis.own_steps if of is cause]
            general = [step for step in diagnosis.advice if step in ADVICE[cause]]
            first = next((step for step in own + general if step not in found.values()), None)
            if first is not None:
                found[cause] = first
    return [f"if it is {cause.label}: {step}" for cause, step in found.items()] or diagnosis.advice[:_ADVICE]


def _is_critical(telling: Told) -> bool:
    """Whether what became worse is critical now, and not a warning."""
    return not telling.text.endswith(f" became {Severity.WARNING}")


def _says_more(telling: Told) -> bool:
    """Whether its text says more than what happened, and by whom."""
    said = telling.text
    if telling.news is News.ESCALATED and " became critical" in said:
        return False
    return bool(said) and said not in (f"{telling.news} by {telling.actor}", telling.news.value)


def _daily(cost: Bill) -> float | None:
    """By how much what it cost so far is multiplied to be a day's; None once resolved."""
    return cost.per_day / cost.wasted if cost.per_day and cost.wasted else None
