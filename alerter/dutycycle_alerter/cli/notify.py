"""`dutycycle notify`: what a message would say, whether a receiver works, and what waits to be delivered."""

from __future__ import annotations

import base64
import json
import secrets
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import click
from rich.text import Text

from dutycycle_alerter import figures, wire
from dutycycle_alerter.cli import previewing
from dutycycle_alerter.cli.options import config_option, settings_from
from dutycycle_alerter.cli.reading import json_text, opened, store_options
from dutycycle_alerter.cli.tables import QUIET, outside, show, table
from dutycycle_alerter.errors import ConfigError, DeliveryError
from dutycycle_alerter.notify.composing import Composition
from dutycycle_alerter.notify.links import Links
from dutycycle_alerter.notify.model import OPERATORS, Composer, Mail, Parcel, ParcelKind, Receipt, Recipient, To
from dutycycle_alerter.notify.receivers.building import receivers
from dutycycle_alerter.printable import printable
from dutycycle_alerter.reports.weekly import weekly as weekly_report
from dutycycle_alerter.settings import Settings
from dutycycle_alerter.settings.notify import News
from dutycycle_alerter.views import OutboxDepth, Status


@click.group()
def notify() -> None:
    """Preview messages, test a receiver, and list what is waiting to be delivered.

    \b
    Examples:
      dutycycle notify preview 7 --config /etc/dutycycle/config.yaml
      dutycycle notify test ops-mail --config /etc/dutycycle/config.yaml
      dutycycle notify outbox --config /etc/dutycycle/config.yaml
    """


@notify.command()
@click.argument("incident_id", metavar="[INCIDENT]", type=click.IntRange(1, 2**53), required=False)
@click.option("--digest", is_flag=True, help="A digest of all unresolved incidents, for operators.")
@click.option("--weekly", is_flag=True, help="The first of the weekly reports, up to now, for operators.")
@click.option(
    "--format",
    "kind",
    type=click.Choice(["mail", "html", "slack", "slack-reply", "slack-webhook", "brief", "json"]),
    default="mail",
    show_default=True,
    help="An email's subject and text, its HTML, Slack's blocks, what is new in its thread, blocks for a webhook "
    "without threads, plain text for other services, a webhook's JSON.",
)
@click.option(
    "--to",
    "audience",
    type=click.Choice([to.value for to in To]),
    help="For whom; by default for the user of the job, if it has one.",
)
@click.option("--news", type=click.Choice([news.value for news in News]), help="What is new; by default, its state.")
@click.option("--output", type=click.Path(path_type=Path, dir_okay=False), help="Write it to a file.")
@store_options
@click.pass_context
def preview(
    context: click.Context,
    incident_id: int | None,
    digest: bool,
    weekly: bool,
    kind: str,
    audience: str | None,
    news: str | None,
    output: Path | None,
) -> None:
    """Preview a message as of now: about an incident, about all (--digest), or on the week (--weekly).

    Nothing is sent, and its links do nothing.

    \b
    Examples:
      dutycycle notify preview 7 --config /etc/dutycycle/config.yaml
      dutycycle notify preview 7 --to operators --format html --output mail.html
      dutycycle notify preview 7 --format slack-reply --news resolved
      dutycycle notify preview --weekly --format html --output week.html
    """
    if [incident_id is not None, digest, weekly].count(True) != 1:
        raise click.UsageError("give one of an incident's number, --digest and --weekly")
    if incident_id is None and (audience or news or kind == "slack-reply"):
        raise click.UsageError("--to, --news and --format slack-reply are for a message about one incident")
    settings = settings_from(context.ensure_object(dict).get("config_file"))
    with opened(context) as reader:
        status = reader.status()
        scaled = _as_stored(settings, status)
        composer = Composition(
            scaled,
            _idle_links(settings),
            series=lambda about, until: reader.series(about, until=until),
            weekly=lambda since, until: weekly_report(reader, since, until, settings.costs),
            replay=lambda: status.replay,
        )
        if incident_id is not None:
            to, new = To(audience) if audience else None, News(news) if news else None
            parcel = previewing.of_incident(reader, incident_id, scaled, to=to, news=new, now=status.now)
        elif digest:
            parcel = previewing.digest(reader, now=status.now)
        else:
            parcel = previewing.week(scaled, now=status.now)
        said = _composed(composer, parcel, kind)
    if output is None:
        click.echo(said)
        return
    try:
        output.write_text(said + "\n", encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{output} cannot be written: {error.strerror or error}") from error


def _as_stored(settings: Settings, status: Status) -> Settings:
    """The settings, scaled as the alerter's that wrote the store."""
    return settings.model_copy(update={"time_scale": status.time_scale}).scaled()


def _idle_links(settings: Settings) -> Links:
    """Links that look like those of messages, with a key that nobody knows: they do nothing."""
    return Links(settings.web.public_url, secrets.token_bytes(32), settings.notify.dashboard_url)


def _composed(composer: Composer, parcel: Parcel, kind: str) -> str:
    # JSON in ASCII: a terminal obeys what stands in a name.
    if kind in ("slack", "slack-webhook"):
        message = composer.slack(parcel, threaded=kind == "slack")
        return json.dumps({"text": message.text, "blocks": list(message.blocks)}, indent=2)
    if kind == "slack-reply":
        return composer.slack_reply(parcel.items[0], parcel.to)
    if kind == "json":
        return json.dumps(composer.document(parcel), indent=2)
    if kind == "brief":
        brief = composer.brief(parcel)
        return "\n".join(part for part in (brief.title, "", brief.text, brief.url) if part is not None).rstrip("\n")
    mail = composer.mail(parcel)
    if kind == "html":
        return _by_itself(mail).rstrip("\n")
    return f"Subject: {mail.subject}\n\n{mail.text}".rstrip("\n")


def _by_itself(mail: Mail) -> str:
    """The HTML with its pictures in it, as a browser shows it."""
    html = mail.html
    for picture in mail.pictures:
        data = base64.b64encode(picture.png).decode()
        html = html.replace(f'"cid:{picture.name}"', f'"data:image/png;base64,{data}"')
    return html


@notify.command()
@click.argument("receiver")
@click.option("--user", default="", help="Send it to this user, as if about a job of theirs; by default to operators.")
@config_option
def test(receiver: str, user: str, config_file: Path | None) -> None:
    """Send a test message through a receiver now, and print its answer.

    Exit codes: 0 it was accepted, 1 it was not, 2 wrong usage or configuration.

    \b
    Examples:
      dutycycle notify test ops-mail --config /etc/dutycycle/config.yaml
      dutycycle notify test ops-mail --user alice --config /etc/dutycycle/config.yaml
    """
    settings = settings_from(config_file)
    named = [one for one in settings.notify.receivers if one.name == receiver]
    if not named:
        known = ", ".join(one.name for one in settings.notify.receivers) or "none"
        raise ConfigError(f"there is no receiver {printable(receiver, 80)!r}; receivers: {known}")
    links = _idle_links(settings)
    # The others may be what is wrong: only the one is made.
    alone = settings.notify.model_copy(update={"receivers": tuple(named)})
    made = receivers(alone, Composition(settings.scaled(), links), links, clock=time.time)[receiver]
    to = Recipient(To.OWNER, user) if user else OPERATORS
    try:
        receipt = made.deliver(Parcel(f"test-{secrets.token_hex(8)}", ParcelKind.TEST, to, (), time.time()))
    finally:
        made.close()
    _say(receiver, receipt)


def _say(receiver: str, receipt: Receipt) -> None:
    for address in receipt.addresses:
        click.echo(f"{receiver}: accepted for {printable(address, 200)}")
    refused = [f"{printable(who, 200)}: {printable(why, 500)}" for who, why in receipt.refused.items()]
    if refused:
        raise DeliveryError(f"{receiver}: refused for {'; '.join(refused)}", permanent=True)
    if not receipt.addresses:
        click.echo(f"{receiver}: accepted")


@notify.command()
@click.option("--json", "as_json", is_flag=True, help="Output for programs.")
@store_options
@click.pass_context
def outbox(context: click.Context, as_json: bool) -> None:
    """Pending notifications by receiver: how many, since when they are due, and the last error.

    \b
    Examples:
      dutycycle notify outbox --config /etc/dutycycle/config.yaml
      dutycycle notify outbox --json | jq '.receivers[] | select(.error != "")'
    """
    with opened(context) as reader:
        status, waiting = reader.status(), reader.outbox()
    if as_json:
        click.echo(json_text(_answer(waiting)))
        return
    if not waiting:
        show(Text("Nothing is pending."))
        return
    listed = table("Receiver", "Waiting", "Oldest", ("Last error", 1), right=("Waiting",))
    for name, depth in sorted(waiting.items()):
        due = (
            "not due yet" if depth.due_at > status.now else figures.ago((status.now - depth.due_at) * status.time_scale)
        )
        listed.add_row(outside(name), f"{depth.notices:,}", Text(due, QUIET), outside(depth.error, limit=500))
    show(listed)


class _WaitingShape(wire.Shape):
    """What waits for one receiver."""

    receiver: wire.Text
    waiting: int
    due_at: wire.Moment
    """When the oldest was due, or will be."""
    error: wire.Text


class _OutboxAnswer(wire.Shape):
    """The outbox for programs; the API has none."""

    receivers: list[_WaitingShape]


def _answer(waiting: Mapping[str, OutboxDepth]) -> _OutboxAnswer:
    return _OutboxAnswer(
        receivers=[
            _WaitingShape(
                receiver=name,
                waiting=depth.notices,
                due_at=datetime.fromtimestamp(depth.due_at, UTC),
                error=depth.error,
            )
            for name, depth in sorted(waiting.items())
        ]
    )
