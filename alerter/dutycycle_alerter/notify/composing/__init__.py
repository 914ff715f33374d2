"""What messages say: from incidents to mails, messages of Slack, plain text and JSON, by templates."""

from dutycycle_alerter.notify.composing.composition import Composition

__all__ = ["Composition"]
