"""HTTP: what is served, to whom, and how."""

from dutycycle_exporter.web.access import Access
from dutycycle_exporter.web.app import Scrapes, make_app
from dutycycle_exporter.web.server import Server, parse_address

__all__ = ["Access", "Scrapes", "Server", "make_app", "parse_address"]
