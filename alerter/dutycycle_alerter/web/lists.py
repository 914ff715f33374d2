"""What the addresses of the lists may say: filters, ranges and pages, each bounded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, ClassVar, Literal, TypeVar
from urllib.parse import urlencode

from pydantic import BaseModel, BeforeValidator, Field

from dutycycle_alerter.choices import StateChoice
from dutycycle_alerter.incidents.model import Severity
from dutycycle_alerter.views import IncidentFilter

PAGE_SIZE = 50
MAX_TEXT = 200
"""Characters of a name or a text that is looked for."""

_T = TypeVar("_T")


class Range(StrEnum):
    """How far the users page looks back."""

    DAY = "1d"
    WEEK = "7d"
    MONTH = "30d"
    QUARTER = "90d"

    @property
    def seconds(self) -> float:
        """On the shown scale."""
        return int(self.value[:-1]) * 86400.0

    @property
    def words(self) -> str:
        """`last 7 days`."""
        return "last day" if self is Range.DAY else f"last {self.value[:-1]} days"


class ListQuery(BaseModel):
    """What every list's address may contain."""

    path: ClassVar[str]
    page: int = Field(default=1, ge=1, le=10_000)

    def url(self, **changes: object) -> str:
        """The address of this list with some parameters changed, on its first page unless said; defaults are left
        out.
        """
        values = {**self.model_dump(), "page": 1, **changes}
        defaults = {name: info.default for name, info in type(self).model_fields.items()}
        given = {name: str(value) for name, value in values.items() if value != defaults[name]}
        return f"{self.path}?{urlencode(given)}" if given else self.path

    def page_url(self, page: int) -> str:
        """The address of another page of the same list."""
        return self.url(page=page)


class IncidentQuery(ListQuery):
    """The filter form of the incidents page; empty is any."""

    path: ClassVar[str] = "/"
    state: StateChoice = StateChoice.ACTIVE
    rule: str = Field(default="", max_length=64)
    severity: Annotated[Severity | None, BeforeValidator(lambda value: value or None)] = None
    user: str = Field(default="", max_length=MAX_TEXT)
    node: str = Field(default="", max_length=MAX_TEXT)
    text: str = Field(default="", max_length=MAX_TEXT)

    def wanted(self, state: StateChoice) -> IncidentFilter:
        """The filter for the store, with a choice of states."""
        return IncidentFilter(
            states=state.states,
            rule=self.rule.strip(),
            severity=self.severity,
            user=self.user.strip(),
            node=self.node.strip(),
            text=self.text.strip(),
        )

    @property
    def narrowed(self) -> bool:
        """Whether anything but the state is asked for."""
        return any(value.strip() for value in (self.rule, self.severity or "", self.user, self.node, self.text))

    @property
    def anyone_url(self) -> str:
        """The same states, with nothing else asked for."""
        return IncidentQuery(state=self.state).url()


class UsersQuery(ListQuery):
    """The range selector of the users page."""

    path: ClassVar[str] = "/users"
    range: Range = Range.WEEK


class ExpectationsQuery(ListQuery):
    """Which of what people said was intended."""

    path: ClassVar[str] = "/expectations"
    current: bool = True
    done: Literal["", "withdrawn"] = Field(default="", exclude=True)
    """What a form just did; no part of other addresses."""


class GpusQuery(ListQuery):
    """Which part of the GPUs page."""

    path: ClassVar[str] = "/gpus"


@dataclass(frozen=True, slots=True)
class Pager:
    """Where in a list a page is."""

    page: int
    total: int
    size: int = PAGE_SIZE

    @property
    def first(self) -> int:
        """Number of the page's first item, from 1."""
        return (self.page - 1) * self.size + 1

    @property
    def last(self) -> int:
        """Number of the page's last item."""
        return min(self.page * self.size, self.total)

    @property
    def pages(self) -> int:
        """How many pages there are, at least 1."""
        return max(1, -(-self.total // self.size))

    def cut(self, items: Sequence[_T]) -> Sequence[_T]:
        """The page's part of a whole list."""
        return items[self.first - 1 : self.last]
