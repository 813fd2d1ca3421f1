"""Records as JSON lines: the text form of a ledger wherever it is kept. Used by every ledger and by replay."""

import json
from collections.abc import Iterable

from tunewright.errors import InvalidInput, LedgerError, shown_value
from tunewright.planner.records import LEDGER_VERSION, Header, Record, parse_record, record_line

LONGEST_LINE = 4 * 2**20
"""Characters of one record at most: hundreds of times more than any that is written."""


def encode_lines(records: Iterable[Record]) -> str:
    """Return one line per record, each ended by a newline."""
    return "".join(record_line(record) + "\n" for record in records)


def decode_lines(text: str, source: str) -> list[Record]:
    """Read every record of `text`; raise `LedgerError` naming `source` and the first bad line."""
    lines = text.split("\n")
    if lines.pop():
        raise LedgerError(f"{source}:{len(lines) + 1}: the last line is cut off; remove it")
    records = [_decode_line(line, f"{source}:{number}") for number, line in enumerate(lines, start=1)]
    if records and not isinstance(records[0], Header):
        raise LedgerError(f"{source}:1: a ledger starts with a header, this line is a {records[0].type!r}")
    for number, record in enumerate(records[1:], start=2):
        if isinstance(record, Header):
            raise LedgerError(f"{source}:{number}: a second header: two ledgers were joined; split them")
    return records


def _decode_line(line: str, where: str) -> Record:
    if len(line) > LONGEST_LINE:
        raise LedgerError(
            f"{where}: longer than {LONGEST_LINE} characters; restore this line from a copy of the ledger"
        )
    try:
        document = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise LedgerError(f"{where}: not JSON: {error}; restore this line from a copy of the ledger") from None
    _check_version(document, where)
    try:
        return parse_record(document)
    except InvalidInput as error:
        raise LedgerError(f"{where}: {error.problems[0]}; restore this line from a copy of the ledger") from None


def _check_version(document: object, where: str) -> None:
    version = document.get("ledgerVersion", LEDGER_VERSION) if isinstance(document, dict) else LEDGER_VERSION
    if version != LEDGER_VERSION:
        raise LedgerError(
            f"{where}: ledger version {shown_value(version)}, this build knows {LEDGER_VERSION}: upgrade tunewright"
        )
