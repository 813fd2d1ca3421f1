"""Finds the JSON in what a model wrote: alone, in a code fence, after its thoughts, or slightly broken.

Called by `program`. The effort is bounded whatever the text is, since a hostile or confused endpoint writes it.
"""

import json
import re
from dataclasses import dataclass, field
from typing import Any

LONGEST_ANSWER_CHARACTERS = 131_072
_LONGEST_MENDED_CHARACTERS = 4096  # json_repair takes 0.5 s over the worst text of this length, 10 s over 16 KiB
_MOST_STARTS = 50
_START = re.compile(r"[\[{]")


@dataclass(frozen=True)
class Found:
    """What an answer holds, unjudged: any JSON may stand in these lists."""

    proposals: list[Any]
    hypotheses: list[Any] = field(default_factory=list)


def find_answer(text: str) -> Found | None:
    """Return the proposals that `text` holds, with the hypotheses beside them; None when there are no proposals in it.

    >>> find_answer('Let me think. ```json\\n{"proposals": [{"changes": {"tp": 2}}]}\\n```').proposals
    [{'changes': {'tp': 2}}]
    """
    if len(text) > LONGEST_ANSWER_CHARACTERS:
        return None
    thoughts, _, rest = text.rpartition("</think>")
    return _found(rest) or _mended(rest) or (_found(thoughts) if thoughts else None) or _empty(rest)


def _found(text: str) -> Found | None:
    """Return the last answer among the JSON values in `text`."""
    last, position = None, 0
    for _ in range(_MOST_STARTS):
        start = _START.search(text, position)
        if start is None:
            break
        try:
            value, position = _DECODER.raw_decode(text, start.start())
        except (ValueError, RecursionError):
            position = start.end()
            continue
        last = _answer_of(value) or last
    return last


def _mended(text: str) -> Found | None:
    """Read JSON with small faults, such as trailing commas or single quotes."""
    start = _START.search(text)
    if start is None or len(text) - start.start() > _LONGEST_MENDED_CHARACTERS:
        return None
    import json_repair

    try:
        return _answer_of(json_repair.loads(text[start.start() :]))
    except (ValueError, RecursionError):
        return None


def _answer_of(value: object) -> Found | None:
    """Take `{"proposals": […], "hypotheses": […]}`, or the bare list of proposals that some models write instead."""
    if isinstance(value, dict):
        proposals, hypotheses = value.get("proposals"), value.get("hypotheses")
        if not isinstance(proposals, list) or not proposals:
            return None
        return Found(proposals, hypotheses if isinstance(hypotheses, list) else [])
    is_list_of_objects = isinstance(value, list) and all(isinstance(item, dict) and "changes" in item for item in value)
    return Found(value) if is_list_of_objects and isinstance(value, list) and value else None


def _empty(text: str) -> Found | None:
    """Tell an answer that proposes nothing from one that cannot be read."""
    return Found([]) if re.search(r'"proposals"\s*:\s*\[\s*\]', text) else None


def _told_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Keep both values of a name that an object gives twice: a contradiction is for the planner to refuse."""
    told: dict[str, Any] = {}
    for name, value in pairs:
        told[name] = {"contradiction": [told[name], value]} if name in told and told[name] != value else value
    return told


_DECODER = json.JSONDecoder(object_pairs_hook=_told_once)
