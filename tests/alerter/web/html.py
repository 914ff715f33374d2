"""Reads a page as a strict parser does: elements, attributes, text; complains where nesting is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

INLINE = {"a", "b", "bdi", "code", "em", "label", "small", "span", "strong", "time", "title"}
VOID = {"meta", "link", "input", "br", "hr", "img"}


@dataclass
class Element:
    tag: str
    attributes: dict[str, str]
    content: list[Element | str] = field(default_factory=list)

    @property
    def children(self) -> list[Element]:
        """The elements directly within."""
        return [part for part in self.content if isinstance(part, Element)]

    def walk(self) -> Iterator[Element]:
        """It and every element within, in the order of the page."""
        yield self
        for child in self.children:
            yield from child.walk()

    def all(self, tag: str) -> list[Element]:
        """Every element of that tag within."""
        return [element for element in self.walk() if element.tag == tag and element is not self]

    @property
    def words(self) -> str:
        """Its text, spaces collapsed."""
        return " ".join(self._text().split())

    def _text(self) -> str:
        text = "".join(part if isinstance(part, str) else part._text() for part in self.content)
        return text if self.tag in INLINE else f" {text} "


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Element("root", {})
        self._open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"<{tag}> says an attribute twice: {names}"
        element = Element(tag, {name: value or "" for name, value in attrs})
        self._open[-1].content.append(element)
        if tag not in VOID:
            self._open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._open[-1].content.append(Element(tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self._open[-1].tag == tag, f"</{tag}> closes <{self._open[-1].tag}>"
        self._open.pop()

    def handle_data(self, data: str) -> None:
        self._open[-1].content.append(data)


def parse(page: str) -> Element:
    """The page as a tree; AssertionError where elements are not closed in order."""
    reader = _Reader()
    reader.feed(page)
    reader.close()
    assert [element.tag for element in reader._open] == ["root"], "an element is not closed"
    return reader.root
