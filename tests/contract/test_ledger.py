"""What every ledger must do. Each implementation supplies a fixture."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.records import a_header, an_advice
from tunewright.adapters.ledger.file import FileLedger, read_ledger
from tunewright.adapters.ledger.lines import decode_lines
from tunewright.adapters.ledger.memory import MemoryLedger
from tunewright.errors import LedgerError
from tunewright.planner.chain import chained
from tunewright.planner.records import Record
from tunewright.ports import Ledger


class LedgerContract:
    """Inherit and provide `ledger`."""

    @pytest.fixture
    def ledger(self) -> Ledger:
        raise NotImplementedError

    async def test_is_empty_at_first(self, ledger: Ledger) -> None:
        assert list(await ledger.read()) == []

    async def test_returns_records_in_the_order_of_writing(self, ledger: Ledger) -> None:
        records: list[Record] = [a_header(), an_advice(1), an_advice(2)]
        await ledger.append(records[:1])
        await ledger.append(records[1:])
        assert list(await ledger.read()) == records

    async def test_keeps_text_that_is_not_ascii(self, ledger: Ledger) -> None:
        records: list[Record] = [a_header(), an_advice(1, message="größer — 大\n\u2028")]
        await ledger.append(records)
        assert list(await ledger.read()) == records


class TestMemoryLedger(LedgerContract):
    @pytest.fixture
    def ledger(self) -> Ledger:
        return MemoryLedger()


class TestFileLedger(LedgerContract):
    @pytest.fixture
    async def ledger(self, tmp_path: Path) -> AsyncIterator[Ledger]:
        ledger = FileLedger(tmp_path / "run.jsonl")
        yield ledger
        ledger.close()


async def test_a_file_that_a_crash_cut_short_loses_only_the_unacknowledged_append(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text(chained([a_header(), an_advice(1)])[0] + '{"type":"adv')
    ledger = FileLedger(path)
    assert list(await ledger.read()) == [a_header(), an_advice(1)]
    await ledger.append([an_advice(2)])
    ledger.close()
    assert read_ledger(path) == [a_header(), an_advice(1), an_advice(2)]


async def test_an_append_that_fails_leaves_a_ledger_that_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.jsonl"
    ledger = FileLedger(path)
    await ledger.append([a_header()])

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("os.fsync", full)
        with pytest.raises(LedgerError, match="cannot be written: No space left"):
            await ledger.append([an_advice(1)])
    assert read_ledger(path) == [a_header()]
    await ledger.append([an_advice(2)])
    ledger.close()
    assert read_ledger(path) == [a_header(), an_advice(2)]


async def test_a_second_writer_is_refused_with_a_remedy(tmp_path: Path) -> None:
    first, second = FileLedger(tmp_path / "run.jsonl"), FileLedger(tmp_path / "run.jsonl")
    await first.append([a_header()])
    with pytest.raises(LedgerError, match="choose another --out"):
        await second.read()
    first.close()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "run.jsonl:2: not JSON"),
        ('{"type":"advise"}', "run.jsonl:2: record: .*'advice'"),
        (json.dumps(an_advice(1).to_json() | {"typo": 1}), "run.jsonl:2: record.advice.typo"),
        (json.dumps(a_header().to_json() | {"ledgerVersion": 99}), "run.jsonl:2: ledger version 99"),
        ("[]", "run.jsonl:2: not a JSON object"),
        ('{"round":NaN}', "run.jsonl:2: not JSON: NaN"),
        (json.dumps(an_advice(1).to_json()), "run.jsonl:2: the chain is broken: its content"),
    ],
)
def test_the_first_bad_line_is_named(line: str, message: str) -> None:
    with pytest.raises(LedgerError, match=message):
        decode_lines(chained([a_header()])[0] + line + "\n", "run.jsonl")


def test_a_second_header_is_named() -> None:
    with pytest.raises(LedgerError, match=r"run\.jsonl:2: a second header"):
        decode_lines(chained([a_header(), a_header()])[0], "run.jsonl")


def test_a_ledger_without_a_header_is_refused() -> None:
    with pytest.raises(LedgerError, match=r"run\.jsonl:1: a ledger starts with a header"):
        decode_lines(chained([an_advice(1)])[0], "run.jsonl")


@pytest.mark.parametrize("content", [b"", b"\xff\n"])
def test_an_unreadable_file_is_refused_by_name(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "run.jsonl"
    path.write_bytes(content)
    with pytest.raises(LedgerError, match=r"run\.jsonl"):
        read_ledger(path)


def test_a_missing_file_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match=r"none.jsonl: cannot be read: No such file"):
        read_ledger(tmp_path / "none.jsonl")
