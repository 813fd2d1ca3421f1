"""Records as JSON lines: the text form of a ledger wherever it is kept. Used by every ledger and by replay."""

import json
from typing import Any

from tunewright.errors import InvalidInput, LedgerError, shown_value
from tunewright.planner.chain import DIGEST, START, fault_of, unchained
from tunewright.planner.records import LEDGER_VERSION, Header, Record, parse_record

LONGEST_LINE = 4 * 2**20
"""Characters of one record at most: many times more than any that is written."""
RESTORE = "restore this line from a copy of the ledger"


def decode_lines(text: str, source: str) -> list[Record]:
    """Read every record of `text`; raise `LedgerError` naming `source` and the first bad line or broken link."""
    lines = text.split("\n")
    if lines.pop():
        raise LedgerError(f"{source}:{len(lines) + 1}: the last line is cut off; remove it")
    records: list[Record] = []
    head = START
    for number, line in enumerate(lines, start=1):
        document = _document(line, f"{source}:{number}")
        records.append(_record(document, f"{source}:{number}"))
        if fault := fault_of(line, document, head):
            raise LedgerError(f"{source}:{number}: the chain is broken: {fault}; {RESTORE}")
        head = document[DIGEST]
    _check_headers(records, source)
    return records


def _check_headers(records: list[Record], source: str) -> None:
    if records and not isinstance(records[0], Header):
        raise LedgerError(f"{source}:1: a ledger starts with a header, this line is a {records[0].type!r}")
    for number, record in enumerate(records[1:], start=2):
        if isinstance(record, Header):
            raise LedgerError(f"{source}:{number}: a second header: two ledgers were joined; split them")


def _document(line: str, where: str) -> dict[str, Any]:
    if len(line) > LONGEST_LINE:
        raise LedgerError(f"{where}: longer than {LONGEST_LINE} characters; {RESTORE}")
    try:
        document = json.loads(line, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise LedgerError(f"{where}: not JSON: {error}; {RESTORE}") from None
    if not isinstance(document, dict):
        raise LedgerError(f"{where}: not a JSON object; {RESTORE}")
    version = document.get("ledgerVersion", LEDGER_VERSION)
    if version != LEDGER_VERSION:
        raise LedgerError(
            f"{where}: ledger version {shown_value(version)}, this build knows {LEDGER_VERSION}: "
            "use the version of tunewright that wrote it"
        )
    return document


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not a number in JSON")


def _record(document: dict[str, Any], where: str) -> Record:
    try:
        return parse_record(unchained(document))
    except InvalidInput as error:
        raise LedgerError(f"{where}: {error.problems[0]}; {RESTORE}") from None
