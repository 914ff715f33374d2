"""A mail server on a real socket, and its bad days."""

from tests.fakes.smtp.server import Fault, MailServer, Received

__all__ = ["Fault", "MailServer", "Received"]
