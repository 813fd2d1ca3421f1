"""A ledger in one JSON-lines file. Used by the command line for local and simulated runs."""

import asyncio
import contextlib
import fcntl
import os
from collections.abc import Sequence
from io import FileIO
from pathlib import Path

from tunewright.adapters.ledger.lines import decode_lines
from tunewright.errors import LedgerError
from tunewright.planner.chain import START, chained, head_of
from tunewright.planner.records import Record


class FileLedger:
    """Appends to `path` and flushes to disk. Holds a lock, so that a second writer is refused."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: FileIO | None = None
        self._head: str | None = None
        """Digest of the last line; None before the file was read."""

    async def read(self) -> list[Record]:
        """Return all records; an append that a crash cut short was never acknowledged and is dropped."""
        return await asyncio.to_thread(self._read)

    async def append(self, records: Sequence[Record]) -> None:
        """Write the records with one write and wait until they are on disk."""
        await asyncio.to_thread(self._append, records)

    def clear(self) -> None:
        """Discard every record; only the holder of the lock can."""
        self._opened().truncate(0)
        self._head = START

    def close(self) -> None:
        """Release the lock."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _read(self) -> list[Record]:
        file = self._opened()
        file.seek(0)
        content = file.read()
        complete = content[: content.rfind(b"\n") + 1]
        if len(complete) != len(content):
            file.truncate(len(complete))
        text = _text(complete, self._path)
        records = decode_lines(text, str(self._path))
        self._head = head_of(text)
        return records

    def _append(self, records: Sequence[Record]) -> None:
        if self._head is None:
            self._read()
        file = self._opened()
        text, head = chained(records, self._head or START)
        end = file.seek(0, os.SEEK_END)
        try:
            _write_whole(file, text.encode())
            os.fsync(file.fileno())
        except OSError as error:
            self._discard_after(file, end)
            raise LedgerError(f"{self._path}: cannot be written: {error.strerror}") from None
        self._head = head

    def _discard_after(self, file: FileIO, end: int) -> None:
        """Remove what a failed append left: nothing may follow a line that is not whole."""
        self._head = None
        with contextlib.suppress(OSError):
            file.truncate(end)

    def _opened(self) -> FileIO:
        if self._file is None:
            self._file = _open_locked(self._path)
        return self._file


def read_ledger(path: Path) -> list[Record]:
    """Read a ledger that nobody writes; raise `LedgerError` naming the first bad line."""
    return read_ledger_with_head(path)[0]


def read_ledger_with_head(path: Path) -> tuple[list[Record], str]:
    """Read a ledger that nobody writes, and the digest of its last line, which stands for the whole."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise LedgerError(f"{path}: cannot be read: {error.strerror}") from None
    text = _text(content, path)
    records = decode_lines(text, str(path))
    if not records:
        raise LedgerError(f"{path}: is empty: a ledger has at least a header")
    return records, head_of(text)


def _write_whole(file: FileIO, content: bytes) -> None:
    """Write without a buffer, which would try again later what has failed now."""
    left = memoryview(content)
    while left:
        left = left[file.write(left) :]


def _text(content: bytes, path: Path) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise LedgerError(f"{path}:{line}: not UTF-8 text; restore this line from a copy of the ledger") from None


def _open_locked(path: Path) -> FileIO:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a+b", buffering=0)
    except OSError as error:
        raise LedgerError(f"{path}: cannot be opened: {error.strerror}") from None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise LedgerError(
            f"{path}: another tunewright process is writing it; wait for it or choose another --out"
        ) from None
    return file
