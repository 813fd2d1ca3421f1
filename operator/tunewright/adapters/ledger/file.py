"""A ledger in one JSON-lines file. Used by the command line for local and simulated runs."""

import asyncio
import fcntl
import os
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from tunewright.adapters.ledger.lines import decode_lines, encode_lines
from tunewright.errors import LedgerError
from tunewright.planner.records import Record


class FileLedger:
    """Appends to `path` and flushes to disk. Holds a lock, so that a second writer is refused."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[bytes] | None = None

    async def read(self) -> list[Record]:
        """Return all records; an append that a crash cut short was never acknowledged and is dropped."""
        return await asyncio.to_thread(self._read)

    async def append(self, records: Sequence[Record]) -> None:
        """Write the records with one write and wait until they are on disk."""
        await asyncio.to_thread(self._append, encode_lines(records).encode())

    def clear(self) -> None:
        """Discard every record; only the holder of the lock can."""
        self._opened().truncate(0)

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
        return decode_lines(_text(complete, self._path), str(self._path))

    def _append(self, content: bytes) -> None:
        file = self._opened()
        try:
            file.seek(0, os.SEEK_END)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        except OSError as error:
            raise LedgerError(f"{self._path}: cannot be written: {error.strerror}") from None

    def _opened(self) -> IO[bytes]:
        if self._file is None:
            self._file = _open_locked(self._path)
        return self._file


def read_ledger(path: Path) -> list[Record]:
    """Read a ledger that nobody writes; raise `LedgerError` naming the first bad line."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise LedgerError(f"{path}: cannot be read: {error.strerror}") from None
    records = decode_lines(_text(content, path), str(path))
    if not records:
        raise LedgerError(f"{path}: is empty: a ledger has at least a header")
    return records


def _text(content: bytes, path: Path) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise LedgerError(f"{path}:{line}: not UTF-8 text; restore this line from a copy of the ledger") from None


def _open_locked(path: Path) -> IO[bytes]:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a+b")
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
