"""The page and the JSON API: server-rendered, read from `views.Reader`, changed through `views.Actions`."""

from dutycycle_alerter.web.app import create_app
from dutycycle_alerter.web.server import Server

__all__ = ["Server", "create_app"]
