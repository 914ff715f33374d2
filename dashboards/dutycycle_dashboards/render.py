"""Every dashboard, as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from dutycycle_dashboards.boards.fleet import fleet
from dutycycle_dashboards.boards.incidents import incidents
from dutycycle_dashboards.boards.job import job
from dutycycle_dashboards.boards.node import node
from dutycycle_dashboards.boards.operations import operations
from dutycycle_dashboards.boards.user import user
from dutycycle_dashboards.boards.users import users
from dutycycle_dashboards.building.board import Board

BOARDS: tuple[Board, ...] = (fleet(), users(), user(), job(), node(), incidents(), operations())
"""In the order in which people meet them."""


def dashboards() -> Mapping[str, dict[str, Any]]:
    """The dashboards' JSON models by uid."""
    return {board.uid: board.model() for board in BOARDS}


def text(model: Mapping[str, Any]) -> str:
    """A model as a committed file has it: readable differences, ASCII."""
    return json.dumps(model, indent=2) + "\n"
