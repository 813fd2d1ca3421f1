"""What a trial leaves beside its report for people: every sample, the environment, errors in full. Optional.

It goes into a folder of its own for each attempt, below --diagnostics, TUNEWRIGHT_DIAGNOSTICS or a volume mounted at
/diagnostics: request, report and what a launcher printed in `node-N-*`, one line of JSON for each event in
`rank-N.jsonl`. Called by `entry`, by the Primus runner and by every rank. Nothing depends on it: a folder that is
read-only or full is told once in the log, and the trial goes on.
"""

import json
import os
import re
import time
from collections.abc import Mapping
from pathlib import Path

from tunewright.trial_protocol.request import TrialRequest
from tunewright_trial.log import say

VARIABLE = "TUNEWRIGHT_DIAGNOSTICS"
MOUNT = Path("/diagnostics")
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")


class Diagnostics:
    """The folder of one attempt. Without one, or after the first error, nothing is kept."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder) if folder else None

    @property
    def are_wanted(self) -> bool:
        """Whether anything is kept."""
        return self._folder is not None

    def keep(self, name: str, text: str) -> None:
        """Add `text` to the file `name`."""
        if self._folder is None:
            return
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with (self._folder / name).open("a", encoding="utf-8") as stream:
                stream.write(text)
        except (OSError, ValueError) as error:  # ValueError: text that has no UTF-8, a path that is none
            self._folder = None
            say(f"no diagnostics from here on: {error}")


def folder_of(request: TrialRequest, environment: Mapping[str, str], mount: Path = MOUNT) -> str:
    """Return the folder of this attempt, empty where nobody wants diagnostics. Trials may share the one above it."""
    given = environment.get(VARIABLE) or (str(mount) if os.path.isdir(mount) else "")  # False for a broken mount
    identity = request.identity
    run = _UNSAFE.sub("_", identity.run_uid)
    return str(Path(given) / f"{run}-{identity.trial}-{identity.attempt}") if given else ""


def node_name(environment: Mapping[str, str]) -> str:
    """Return what this node's files begin with: its rank as it was given, whatever that is."""
    rank = environment.get("NODE_RANK") or environment.get("JOB_COMPLETION_INDEX") or "0"
    return f"node-{_UNSAFE.sub('_', rank)}"


class RankDiagnostics:
    """The events of one rank. A process is one rank, as its standard error is: there is one for each process."""

    def __init__(self) -> None:
        self._kept, self._name = Diagnostics(""), ""

    def open(self, folder: str, rank: int) -> None:
        """Keep events from here on, if there is a folder."""
        self._kept, self._name = Diagnostics(folder), f"rank-{rank}.jsonl"

    def add(self, event: str, **values: object) -> None:
        """Keep one event with its values; times are in seconds."""
        if not self._kept.are_wanted:
            return
        line = json.dumps({"event": event, "at": round(time.time(), 3), **values}, default=str)
        self._kept.keep(self._name, f"{line}\n")


of_this_rank = RankDiagnostics()
"""Opened by `rank`; closed, so that nothing is kept, in every other process."""
