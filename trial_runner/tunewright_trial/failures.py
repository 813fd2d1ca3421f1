"""What can go wrong in a trial, as the failure classes of the protocol. Used by the supervisor and by every rank."""

import errno
import re
from collections.abc import Sequence

from tunewright.trial_protocol.report import FailureClass

_OUT_OF_MEMORY = re.compile(
    r"out of memory|can't allocate memory|DefaultCPUAllocator|hipErrorOutOfMemory", re.IGNORECASE
)
_SHARED_MEMORY = re.compile(
    r"/dev/shm|shared memory (segment|file)|unable to (mmap|open|allocate) shared memory", re.IGNORECASE
)
_PORT = re.compile(r"address already in use|EADDRINUSE", re.IGNORECASE)
_NO_ROOM = frozenset({errno.EROFS, errno.ENOSPC, errno.EDQUOT})
_NO_RIGHT = frozenset({errno.EACCES, errno.EPERM})
_COLLECTIVE = re.compile(
    rf"gloo|nccl|rccl|connection (closed|reset|refused)|broken pipe|process ?group|{_SHARED_MEMORY.pattern}"
    rf"|{_PORT.pattern}",
    re.IGNORECASE,
)


class TrialFailure(Exception):
    """A failure whose class is known where it happens."""

    def __init__(self, failure: FailureClass, message: str) -> None:
        self.failure: FailureClass = failure
        super().__init__(message)


def unsupported(message: str) -> TrialFailure:
    """Build the failure for something that this program does not run; `message` says what to do instead."""
    return TrialFailure("Unsupported", message)


def listed(names: Sequence[str], most: int = 16) -> str:
    """Return the first `most` names and how many more there are: a message has 500 characters.

    >>> listed(["0", "1", "2"], 2)
    '0, 1 and 1 more'
    """
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def classify(error: BaseException) -> tuple[FailureClass, str]:
    """Return the failure class and one line for any exception that left a rank.

    torch raises plain RuntimeErrors for most of these, so type names come first and the text decides the rest.
    """
    if isinstance(error, TrialFailure):
        return error.failure, str(error)
    return _class_of(error), _one_line(error)


def _class_of(error: BaseException) -> FailureClass:
    names = {kind.__name__ for kind in type(error).__mro__}
    text = _whole_text(error)
    if names & {"OutOfMemoryError", "MemoryError"} or _OUT_OF_MEMORY.search(text):
        return "DeviceOutOfMemory"
    if _is_unwritable(error):
        return "DeviceMismatch"
    if names & {"DistBackendError", "DistNetworkError", "DistStoreError"} or _COLLECTIVE.search(text):
        return "RcclFailure"
    return "Unsupported" if isinstance(error, NotImplementedError) else "CrashInTraining"


def _is_unwritable(error: BaseException) -> bool:
    """Whether files cannot be written here: a fault of the place. tempfile finds no folder and says ENOENT."""
    if not isinstance(error, OSError):
        return False
    forbidden = error.errno in _NO_RIGHT and error.filename is not None
    return forbidden or error.errno in _NO_ROOM or "No usable temporary directory" in str(error)


def _whole_text(error: BaseException) -> str:
    """Return the texts of an exception and its causes: torch's pipeline runtime wraps what a stage raised."""
    texts: list[str] = []
    current: BaseException | None = error
    while current is not None and len(texts) < 8:
        texts.append(str(current))
        current = current.__cause__ or current.__context__
    return "\n".join(texts)


def _one_line(error: BaseException) -> str:
    root = error
    while root.__cause__ is not None:
        root = root.__cause__
    text = f"{type(root).__name__}: {' '.join(str(root).split())}"
    if _SHARED_MEMORY.search(text):
        text = f"too little shared memory, give /dev/shm more: {text}"
    elif _is_unwritable(root):
        text = f"the trial cannot write files here, give it a /tmp with room that it may write to: {text}"
    elif _PORT.search(text):
        text = f"the rendezvous port is taken, choose another MASTER_PORT: {text}"
    return text[:500]
