"""Finds the JSON in what a model wrote: alone, in a code fence, after its thoughts, or slightly broken.

Called by `program`. The effort is bounded whatever the text is, since a hostile or confused endpoint writes it.
"""

import json
import re
from typing import Any

LONGEST_ANSWER_CHARACTERS = 131_072
_LONGEST_MENDED_CHARACTERS = 4096  # json_repair takes 0.5 s over the worst text of this length, 10 s over 16 KiB
_MOST_STARTS = 50
_START = re.compile(r"[\[{]")
_DECODER = json.JSONDecoder()


def find_proposals(text: str) -> list[Any] | None:
    """Return the proposals that `text` holds, unjudged; None when there is no such list in it.

    >>> find_proposals('Let me think. ```json\\n{"proposals": [{"changes": {"tp": 2}}]}\\n```')
    [{'changes': {'tp': 2}}]
    """
    if len(text) > LONGEST_ANSWER_CHARACTERS:
        return None
    thoughts, _, rest = text.rpartition("</think>")
    return _found(rest) or _mended(rest) or (_found(thoughts) if thoughts else None) or _empty(rest)


def _found(text: str) -> list[Any] | None:
    """Return the last list of proposals among the JSON values in `text`."""
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
        last = _proposals_of(value) or last
    return last


def _mended(text: str) -> list[Any] | None:
    """Read JSON with small faults, such as trailing commas or single quotes."""
    start = _START.search(text)
    if start is None or len(text) - start.start() > _LONGEST_MENDED_CHARACTERS:
        return None
    import json_repair

    try:
        return _proposals_of(json_repair.loads(text[start.start() :]))
    except (ValueError, RecursionError):
        return None


def _proposals_of(value: object) -> list[Any] | None:
    """Take `{"proposals": […]}`, or the bare list of objects that some models write instead."""
    if isinstance(value, dict):
        proposals = value.get("proposals")
        return proposals if isinstance(proposals, list) else None
    is_list_of_objects = isinstance(value, list) and all(isinstance(item, dict) and "changes" in item for item in value)
    return value if is_list_of_objects and isinstance(value, list) else None


def _empty(text: str) -> list[Any] | None:
    """Tell an answer that proposes nothing from one that cannot be read."""
    return [] if re.search(r'"proposals"\s*:\s*\[\s*\]', text) else None
