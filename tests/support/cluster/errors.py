"""What can go wrong in the harness: a part that this machine lacks, or a part that is there and fails.

Raised everywhere in the package; only `fixtures.py` turns `MissingPart` into a skip or, in CI, a failure.
"""


class MissingPart(Exception):
    """A program, right or piece of hardware that this machine lacks; the message says what to install."""


class HarnessError(Exception):
    """A part of the harness that is there and does not work; the message carries the end of its output."""


class KubectlFailed(HarnessError):
    """A kubectl call that the API server or kubectl itself refused; `stderr` is what kubectl said."""

    def __init__(self, command: str, stderr: str) -> None:
        """Keep kubectl's words for tests that match on them."""
        super().__init__(f"{command}: {stderr.strip()}")
        self.stderr = stderr
