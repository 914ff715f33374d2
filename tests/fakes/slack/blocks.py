"""Block Kit's limits for the blocks that messages are made of, as Slack documents them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

MOST_BLOCKS = 50
MOST_CHARACTERS = 13_000
"""Of all blocks: documented nowhere, and refused from about 13,200 on (msg_blocks_too_long)."""


def wrong(blocks: object) -> list[str]:
    """What is wrong with the blocks of a message, as `response_metadata.messages` says it; empty where nothing is."""
    if not isinstance(blocks, Sequence) or isinstance(blocks, str):
        return ["[ERROR] must be an array [json-pointer:/blocks]"]
    found = []
    if len(blocks) > MOST_BLOCKS:
        found.append(f"[ERROR] no more than {MOST_BLOCKS} items allowed [json-pointer:/blocks]")
    for place, block in enumerate(blocks):
        found += [f"[ERROR] {what} [json-pointer:/blocks/{place}{where}]" for where, what in _block(block)]
    ids = [block["block_id"] for block in blocks if isinstance(block, Mapping) and "block_id" in block]
    if len(set(ids)) < len(ids):
        found.append("[ERROR] `block_id` already exists [json-pointer:/blocks]")
    return found


def too_long(blocks: Sequence[Mapping[str, Any]]) -> bool:
    """Whether each block is within its limits and all together are not."""
    return len(json.dumps(blocks, ensure_ascii=False)) > MOST_CHARACTERS


def _block(block: object) -> list[tuple[str, str]]:
    if not isinstance(block, Mapping):
        return [("", "must be an object")]
    found = _longer(block, "block_id", 255)
    match block.get("type"):
        case "header":
            found += _text(block.get("text"), "/text", 150, kinds=("plain_text",))
        case "section":
            if "text" not in block and "fields" not in block:
                found.append(("", "missing required field: text"))
            if "text" in block:
                found += _text(block["text"], "/text", 3000)
            found += _each(block, "fields", 10, lambda field, where: _text(field, where, 2000))
            if "accessory" in block:
                found += _element(block["accessory"], "/accessory")
        case "context":
            found += _each(block, "elements", 10, lambda element, where: _text(element, where, 3000), needed=True)
        case "actions":
            found += _each(block, "elements", 25, _element, needed=True)
            found += _twice(block)
        case "divider":
            pass
        case kind:
            found.append(("/type", f"unsupported type: {kind}"))
    return found


def _element(element: object, where: str) -> list[tuple[str, str]]:
    if not isinstance(element, Mapping) or element.get("type") != "button":
        return [(where, "unsupported type")]
    found = _text(element.get("text"), f"{where}/text", 75, kinds=("plain_text",))
    for key, most in (("action_id", 255), ("url", 3000), ("value", 2000), ("accessibility_label", 75)):
        found += _longer(element, key, most, where)
    if "url" in element and not str(element["url"]).startswith(("https://", "http://", "mailto:")):
        found.append((f"{where}/url", "must be a valid URL"))
    if element.get("style", "primary") not in ("primary", "danger"):
        found.append((f"{where}/style", "value not allowed"))
    return found


def _text(
    text: object, where: str, most: int, kinds: Sequence[str] = ("plain_text", "mrkdwn")
) -> list[tuple[str, str]]:
    if not isinstance(text, Mapping):
        return [(where, "missing required field")]
    if text.get("type") not in kinds:
        return [(f"{where}/type", "value not allowed")]
    allowed = {"type", "text", "emoji"} if text["type"] == "plain_text" else {"type", "text", "verbatim"}
    found = [(f"{where}/{key}", "additional property") for key in text if key not in allowed]
    if not isinstance(text.get("text"), str) or not text["text"]:
        return [*found, (f"{where}/text", "must be more than 0 characters")]
    return found + _longer(text, "text", most, where)


def _longer(holder: Mapping[str, Any], key: str, most: int, where: str = "") -> list[tuple[str, str]]:
    is_longer = len(str(holder.get(key, ""))) > most
    return [(f"{where}/{key}", f"must be less than {most + 1} characters")] if is_longer else []


def _each(block: Mapping[str, Any], key: str, most: int, check: Any, *, needed: bool = False) -> list[tuple[str, str]]:
    parts = block.get(key)
    if parts is None:
        return [("", f"missing required field: {key}")] if needed else []
    if not isinstance(parts, Sequence) or not parts:
        return [(f"/{key}", "must have at least 1 item")]
    found = [(f"/{key}", f"no more than {most} items allowed")] if len(parts) > most else []
    for place, part in enumerate(parts):
        found += check(part, f"/{key}/{place}")
    return found


def _twice(block: Mapping[str, Any]) -> list[tuple[str, str]]:
    ids = [element["action_id"] for element in block.get("elements", ()) if "action_id" in element]
    return [("/elements", "`action_id` already exists")] if len(set(ids)) < len(ids) else []
