import pytest

from tunewright.adapters.ledger.lines import LONGEST_LINE, decode_lines
from tunewright.errors import LedgerError


def test_a_line_of_megabytes_is_refused_unread() -> None:
    with pytest.raises(LedgerError, match=r"^run\.jsonl:1: longer than 4194304 characters") as caught:
        decode_lines("[" * (LONGEST_LINE + 1) + "\n", "run.jsonl")
    assert len(str(caught.value)) < 200


def test_a_long_bad_value_is_not_repeated_whole() -> None:
    with pytest.raises(LedgerError) as caught:
        decode_lines('{"ledgerVersion": "' + "9" * 100_000 + '"}\n', "run.jsonl")
    assert len(str(caught.value)) < 400
