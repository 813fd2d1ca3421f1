"""Where the environment of a Job says that this node is, in torchrun's variables. Called by whoever joins nodes.

A value that cannot be right is a fault of the place, told with the variable's name: no other attempt at the same
configuration should be spared because of it.
"""

import math
from collections.abc import Mapping
from typing import NoReturn

from tunewright.trial_protocol.report import MAX_SECONDS
from tunewright_trial.failures import TrialFailure

_MOST_PORT = 65_535
_SHOWN = 40


def node_rank_in(environment: Mapping[str, str], nodes: int) -> int:
    """Return which of the job's `nodes` this is: NODE_RANK, as torchrun's, or the index of an indexed Job."""
    for name in ("NODE_RANK", "JOB_COMPLETION_INDEX"):
        if environment.get(name):
            return _whole_number(environment, name, 0, nodes - 1)
    _refuse("NODE_RANK", "is not set", f"number the nodes from 0 to {nodes - 1}")


def master_port_in(environment: Mapping[str, str], default: int) -> int:
    """Return the port on which node 0 is met."""
    return _whole_number(environment, "MASTER_PORT", 1, _MOST_PORT) if environment.get("MASTER_PORT") else default


def master_address_in(environment: Mapping[str, str], node: int) -> str:
    """Return where node 0 is; it need not be told that itself."""
    address = environment.get("MASTER_ADDR") or ("localhost" if node == 0 else "")
    if not address:
        _refuse("MASTER_ADDR", "is not set", "give every node the name or address of node 0")
    return address


def start_seconds_in(environment: Mapping[str, str], default: float) -> float:
    """Return how long the nodes wait for each other."""
    name = "TUNEWRIGHT_START_SECONDS"
    text = environment.get(name)
    if not text:
        return default
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds <= MAX_SECONDS:  # which nan is not
        _refuse(name, f"is {text[:_SHOWN]!r}", f"give seconds, at most {MAX_SECONDS:g}")
    return seconds


def _whole_number(environment: Mapping[str, str], name: str, least: int, most: int) -> int:
    text = environment[name]
    short = text.isascii() and text.isdecimal() and len(text) <= _SHOWN
    if not short or not least <= int(text) <= most:
        _refuse(name, f"is {text[:_SHOWN]!r}", f"give a whole number from {least} to {most}")
    return int(text)


def _refuse(name: str, finding: str, remedy: str) -> NoReturn:
    raise TrialFailure("RcclFailure", f"the environment variable {name} {finding}: {remedy}")
