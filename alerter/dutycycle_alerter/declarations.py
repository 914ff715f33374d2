"""What a job says of itself: Slurm's `--comment=dutycycle:...`, or Kubernetes annotations `dutycycle.io/...`.

Whether anybody heeds it is a matter of policy. The text is its user's: nothing in it is an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from dutycycle_alerter.model import JobKind
from dutycycle_alerter.printable import printable

PREFIX = "dutycycle:"
ANNOTATIONS = "dutycycle.io/"

_LONGEST = 4096
_MOST_RULES = 32
_MOST_UNKNOWN = 8
_SHOWN = 60
_RULE = re.compile(r"[a-z][a-z_]{0,39}")
_MARK = re.compile(r"(?:^|[\s;])dutycycle:([^\s;]*)", re.IGNORECASE)
_EXPECT_UNEVEN = "expect-uneven"
_KINDS = {kind.value: kind for kind in JobKind}
_TRUE, _FALSE = frozenset({"", "true", "yes", "1"}), frozenset({"false", "no", "0"})


@dataclass(frozen=True, slots=True)
class Declarations:
    """`ignore` are names of rules as they were written, with underscores: they need not exist. `kind` is None where it
    says none, or several. `unknown` are the first few words that mean nothing, harmless to show.
    """

    expect_uneven: bool = False
    ignore: frozenset[str] = frozenset()
    kind: JobKind | None = None
    unknown: tuple[str, ...] = ()


NONE = Declarations()


def from_comment(comment: str) -> Declarations:
    """From the comment of a Slurm job: `dutycycle:expect-uneven,ignore=stalled,serving` anywhere in it."""
    return _declared(word for text in _MARK.findall(comment[:_LONGEST]) for word in text.split(","))


def from_annotations(annotations: Mapping[str, str]) -> Declarations:
    """From annotations: `dutycycle.io/expect-uneven: "true"`, `/ignore: "idle,stalled"`, `/kind: serving`."""
    words: list[str] = []
    for name, value in sorted(annotations.items()):
        if name.startswith(ANNOTATIONS):
            words.extend(_written(name.removeprefix(ANNOTATIONS)[:_LONGEST], value[:_LONGEST].strip()))
    return _declared(words)


def _written(key: str, value: str) -> list[str]:
    """An annotation in the words of a comment."""
    if key == "kind":
        return [value]
    if key == "ignore":
        return [f"ignore={rule}" for rule in re.split(r"[,\s]+", value) if rule]
    if key == _EXPECT_UNEVEN and value.lower() in _TRUE | _FALSE:
        return [key] if value.lower() in _TRUE else []
    return [f"{key}={value}"]


def _declared(words: Iterable[str]) -> Declarations:
    uneven, ignoring = False, False
    ignore: set[str] = set()
    kinds: set[JobKind] = set()
    unknown: list[str] = []
    for written in words:
        word = written.strip().lower()
        key, equals, value = word.partition("=")
        # ignore=idle,stalled: what stands behind a rule and is nothing else is another rule.
        if key == "ignore" and equals:
            ignoring, word = True, value
        elif word == _EXPECT_UNEVEN or word in _KINDS or equals:
            ignoring = False
        rule = word.replace("-", "_")
        if ignoring and _RULE.fullmatch(rule) and len(ignore) < _MOST_RULES:
            ignore.add(rule)
        elif word == _EXPECT_UNEVEN:
            uneven = True
        elif word in _KINDS:
            kinds.add(_KINDS[word])
        elif word and len(unknown) < _MOST_UNKNOWN:
            unknown.append(printable(written.strip(), _SHOWN))
    return Declarations(uneven, frozenset(ignore), kinds.pop() if len(kinds) == 1 else None, tuple(unknown))
