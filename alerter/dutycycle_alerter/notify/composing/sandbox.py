"""The environments of templates: sandboxed, strict about names, and bounded in what they put out.

The bounds are against mistakes. Whoever writes a site's templates is trusted as who writes its configuration is.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import Any

from jinja2 import BaseLoader, StrictUndefined, nodes, pass_eval_context
from jinja2.compiler import CodeGenerator, Frame
from jinja2.exceptions import SecurityError
from jinja2.filters import do_replace, sync_do_join
from jinja2.nodes import EvalContext
from jinja2.sandbox import ImmutableSandboxedEnvironment

from dutycycle_alerter.figures import count

_NUMBERS = 10_000
_MOST = 300_000
_LARGEST_FIGURE = 10**15
_FILTERS = (
    "abs capitalize count d default dictsort e escape first float groupby int items join last length list lower map "
    "max min reject rejectattr replace reverse select selectattr sort string striptags title trim truncate unique "
    "upper urlencode wordcount"
)
"""Those that put out about as much as they are given, say nothing of objects, and leave the escaping as it is."""
_INERT = (str, bytes, tuple, list, int, float)


class _Escaping(CodeGenerator):
    """Whether text is escaped is not a template's to say; texts that are put together are as long as they may be."""

    def visit_ScopedEvalContextModifier(self, node: nodes.ScopedEvalContextModifier, frame: Frame) -> None:  # noqa: N802
        del frame
        self.fail("autoescape cannot be changed", node.lineno)

    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:  # noqa: N802
        self.write("environment.bounded(")
        super().visit_Concat(node, frame)
        self.write(")")


class Sandbox(ImmutableSandboxedEnvironment):
    """Templates see data, loops and filters: no attribute of a text, no product that could fill the memory.

    One for HTML escapes in all its templates: a macro's text counts as escaped where it is used, whatever it is.
    """

    intercepted_binops = frozenset({"+", "-", "*", "/", "//", "**", "%"})
    code_generator_class = _Escaping

    def __init__(self, loader: BaseLoader, *, html: bool) -> None:
        super().__init__(
            loader=loader,
            autoescape=html,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=True,
        )
        self.filters = {**{name: self.filters[name] for name in _FILTERS.split()}, "join": _join, "replace": _replace}
        self.globals.clear()
        self.globals.update(range=self._range, count=count)
        self._counted = threading.local()

    def begin(self) -> None:
        """A template is about to be rendered by this thread."""
        self._counted.numbers = 0

    def _range(self, *bounds: int) -> range:
        # Loops within loops ask for it again and again: together they must come to an end.
        made = range(*bounds)
        self._counted.numbers += len(made)
        if self._counted.numbers > _NUMBERS:
            raise SecurityError(f"ranges of more than {_NUMBERS:,} numbers in all")
        return made

    @staticmethod
    def bounded(text: str) -> str:
        """The text. Raises SecurityError where a template could not put it out."""
        if len(text) > _MOST:
            raise SecurityError(f"a text of more than {_MOST:,} characters")
        return text

    @staticmethod
    def concat(parts: Iterable[str]) -> str:
        """What macros and blocks put out; Jinja calls it."""
        return Sandbox.bounded("".join(parts))

    def wrap_str_format(self, value: Any) -> None:
        """No text is a format: a width in one could make a gigabyte of a letter."""

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """A text has filters: its methods could make a gigabyte of a letter, and those of others say where they lie."""
        return not isinstance(obj, _INERT) and super().is_safe_attribute(obj, attr, value)

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Of figures, such as people read, or two texts put together."""
        if operator == "+" and isinstance(left, str) and isinstance(right, str):
            return self.bounded(super().call_binop(context, operator, left, right))
        figures = all(isinstance(side, int | float) and abs(side) <= _LARGEST_FIGURE for side in (left, right))
        if not figures or operator == "**":
            raise SecurityError(f"{operator} is for figures, and here neither a power nor a repetition")
        return super().call_binop(context, operator, left, right)


@pass_eval_context
def _join(context: EvalContext, values: Iterable[Any], between: str = "") -> str:
    """Jinja's `join`, where it makes no more than a template can put out."""
    parts = list(values)
    if sum(len(str(part)) + len(between) for part in parts) > _MOST:
        raise SecurityError(f"join makes more than {_MOST:,} characters")
    return sync_do_join(context, parts, between)


@pass_eval_context
def _replace(context: EvalContext, text: str, old: str, new: str, times: int | None = None) -> str:
    """Jinja's `replace`, where it cannot make more than a template can put out."""
    if (len(str(text)) + 1) * max(1, len(str(new))) > _MOST:
        raise SecurityError(f"replace could make more than {_MOST:,} characters")
    return do_replace(context, text, old, new, times)


def render(environment: Sandbox, name: str, values: Mapping[str, Any]) -> str:
    """What the template puts out. Raises what Jinja raises, and SecurityError for more than 300,000 characters."""
    environment.begin()
    parts, length = [], 0
    for part in environment.get_template(name).generate(values):
        length += len(part)
        if length > _MOST:
            raise SecurityError(f"it puts out more than {_MOST:,} characters")
        parts.append(part)
    return "".join(parts)
