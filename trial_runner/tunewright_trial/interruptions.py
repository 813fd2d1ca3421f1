"""The signals that ask a trial to end: held back until they can be answered with a report. Called by `entry`.

`__main__` imports this module before all that is slow, so it imports nothing slow itself.
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

INTERRUPTIONS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def hold_back_interruptions() -> None:
    """Keep the signals pending. As first process of a container, this one would lose a SIGTERM it does not wait for."""
    signal.pthread_sigmask(signal.SIG_BLOCK, INTERRUPTIONS)


def release_interruptions() -> None:
    """Let the signals through, those first that came before."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, INTERRUPTIONS)


@contextmanager
def interruptible() -> Iterator[None]:
    """Turn what asks this process to end inside the block into a `TrialFailure`, so that even then a report is written.

    What the process was started to ignore, as under nohup, stays ignored.
    """

    def interrupt(number: int, frame: FrameType | None) -> None:
        from tunewright_trial.failures import TrialFailure  # see above

        ignore_interruptions()
        raise TrialFailure("Preempted", f"interrupted by {signal.Signals(number).name}")

    before = {number: signal.getsignal(number) for number in INTERRUPTIONS}
    heard = {number: handler for number, handler in before.items() if handler not in (signal.SIG_IGN, None)}
    for number in heard:
        signal.signal(number, interrupt)
    try:
        release_interruptions()
        yield
    finally:
        for number, handler in heard.items():
            signal.signal(number, handler)


def ignore_interruptions() -> None:
    """Let nothing but SIGKILL end this process from here on: it is about to end, and has a report to write."""
    for number in INTERRUPTIONS:
        signal.signal(number, signal.SIG_IGN)
