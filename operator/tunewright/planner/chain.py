"""The hash chain of a ledger's lines: each names the digest of the one before it, and its own. Called by every ledger.

A line is the canonical JSON of its record with two more keys: `previous`, the digest of the line before (empty in the
first), and `digest`, the SHA-256 of the canonical JSON of everything else in the line. So a line that is edited no
longer has its digest, and one that is removed, inserted or moved leaves a neighbour that follows another line.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from tunewright.domain.value import canonical_json
from tunewright.planner.records import Record

PREVIOUS, DIGEST = "previous", "digest"
CHAIN_KEYS = frozenset({PREVIOUS, DIGEST})
START = ""
"""What the first line follows."""


def chained(records: Iterable[Record], head: str = START) -> tuple[str, str]:
    """Return records as lines, each ended by a newline, that go on after the line with digest `head`; and the new head.

    >>> chained([])
    ('', '')
    """
    lines = []
    for record in records:
        document = {**record.to_json(), PREVIOUS: head}
        head = _digest(document)
        lines.append(canonical_json({**document, DIGEST: head}) + "\n")
    return "".join(lines), head


def unchained(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a line's record alone."""
    return {key: value for key, value in document.items() if key not in CHAIN_KEYS}


def fault_of(line: str, document: Mapping[str, Any], head: str) -> str:
    """Say what is wrong with a line that should follow the one with digest `head`; nothing when it does."""
    bare = {key: value for key, value in document.items() if key != DIGEST}
    if document.get(DIGEST) != _digest(bare):
        return "its content does not have its digest: it was changed after it was written"
    if document.get(PREVIOUS) != head:
        return "it does not follow the line before it: a line was removed, inserted or moved here"
    return "" if line == canonical_json(document) else "it is not written as a ledger writes it: it was edited"


def head_of(text: str) -> str:
    """Return the digest of the last line of a ledger that was read before."""
    last = text.rstrip("\n").rpartition("\n")[2]
    return str(json.loads(last)[DIGEST]) if last else START


def _digest(document: Mapping[str, Any]) -> str:
    return hashlib.sha256(canonical_json(document).encode()).hexdigest()
