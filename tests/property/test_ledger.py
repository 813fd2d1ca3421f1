"""A ledger survives a kill at any byte, and shows any later change of it with its line."""

import asyncio
import json
import sys
import tempfile
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.records import a_header, an_advice
from tunewright.adapters.ledger.file import FileLedger, read_ledger
from tunewright.adapters.ledger.lines import decode_lines
from tunewright.domain.value import canonical_json
from tunewright.errors import LedgerError
from tunewright.planner.chain import chained, head_of
from tunewright.planner.records import Record

RECORDS: list[Record] = [a_header(), *(an_advice(number, message="größer — 大") for number in range(1, 4))]


@cache
def written() -> bytes:
    return chained(RECORDS)[0].encode()


async def test_a_file_cut_at_any_byte_opens_again_without_its_unfinished_line(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    for end in range(len(written()) + 1):
        path.write_bytes(written()[:end])
        ledger = FileLedger(path)
        whole = written()[:end].count(b"\n")
        assert await ledger.read() == RECORDS[:whole]
        ledger.close()


@settings(max_examples=60)
@given(st.integers(0, 10**6))
def test_a_file_that_was_cut_goes_on(end: int) -> None:
    end %= len(written()) + 1
    whole = written()[:end].count(b"\n")
    more: list[Record] = [an_advice(9) if whole else a_header(), an_advice(10)]

    async def go_on(path: Path) -> None:
        ledger = FileLedger(path)
        await ledger.append(more[:1])
        await ledger.append(more[1:])
        ledger.close()

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.jsonl"
        path.write_bytes(written()[:end])
        asyncio.run(go_on(path))
        assert read_ledger(path) == [*RECORDS[:whole], *more]


@settings(max_examples=150)
@given(st.data())
def test_any_byte_that_is_changed_is_found_in_its_line(data: st.DataObject) -> None:
    content = bytearray(written())
    place = data.draw(st.integers(0, len(content) - 1))
    other = data.draw(st.integers(0x20, 0x7E).filter(lambda byte: byte != content[place]))
    line = bytes(content[:place]).count(b"\n") + 1
    content[place] = other
    with pytest.raises(LedgerError, match=rf"^run\.jsonl:{line}: "):
        decode_lines(content.decode(), "run.jsonl")


@settings(max_examples=50)
@given(st.permutations(range(4)), st.integers(0, 4))
def test_lines_that_are_moved_or_removed_break_the_chain(order: list[int], kept: int) -> None:
    lines = written().decode().splitlines(keepends=True)
    chosen = order[:kept]
    text = "".join(lines[place] for place in chosen)
    if chosen == list(range(kept)):
        assert decode_lines(text, "run.jsonl") == RECORDS[:kept]
    else:
        with pytest.raises(LedgerError, match=r"^run\.jsonl:\d: (the chain is broken|a ledger starts)"):
            decode_lines(text, "run.jsonl")


def test_a_line_written_anew_with_its_own_digest_breaks_the_next_link() -> None:
    lines = written().decode().splitlines()
    document = json.loads(lines[1])
    forged = chained([an_advice(1, message="forged")], document["previous"])[0]
    text = "\n".join([lines[0], forged.rstrip("\n"), *lines[2:]]) + "\n"
    with pytest.raises(LedgerError, match=r"run\.jsonl:3: the chain is broken: it does not follow the line before"):
        decode_lines(text, "run.jsonl")


@settings(max_examples=30)
@given(st.lists(st.integers(1, 3), max_size=5))
def test_the_chain_does_not_depend_on_how_records_were_appended(sizes: list[int]) -> None:
    head, text, left = "", "", list(RECORDS)
    for size in sizes:
        more, head = chained(left[:size], head)
        text, left = text + more, left[size:]
    more, head = chained(left, head)
    assert (text + more).encode() == written()
    assert head_of(text + more) == head


def test_every_line_is_canonical() -> None:
    assert all(canonical_json(json.loads(line)) == line for line in written().decode().splitlines())


def test_a_writer_of_another_process_is_refused(tmp_path: Path) -> None:
    script = (
        "import asyncio, sys; from pathlib import Path\n"
        "from tunewright.adapters.ledger.file import FileLedger\n"
        "from tunewright.errors import LedgerError\n"
        "try: asyncio.run(FileLedger(Path(sys.argv[1])).read())\n"
        "except LedgerError as error: print(error)\n"
    )

    async def refused(path: Path) -> str:
        ledger = FileLedger(path)
        await ledger.append([a_header()])
        other = await asyncio.create_subprocess_exec(
            sys.executable, "-c", script, str(path), stdout=asyncio.subprocess.PIPE
        )
        said, _ = await other.communicate()
        ledger.close()
        return said.decode()

    assert "another tunewright process is writing it" in asyncio.run(refused(tmp_path / "run.jsonl"))
