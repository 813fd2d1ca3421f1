"""Bytes per pipeline rank: states, activations, logits, buffers and overheads, and whether they fit.

Called by the planner, the search, the report and the command line. `estimate` itemises a whole `ConfigBatch`, `fit`
compares it with the device, `screen` does both for a whole space. One module per kind of memory; what is measured
rather than derived is in `constants`, what other software does differently in `software`.
"""

from tunewright.memory.constants import MemoryConstants, constants_for
from tunewright.memory.estimate import KINDS, MemoryEstimate, estimate
from tunewright.memory.fit import FitVerdict, fit
from tunewright.memory.screening import Screening, screen
from tunewright.memory.software import OPTIMIZER_PRECISIONS, Software

__all__ = [
    "KINDS",
    "OPTIMIZER_PRECISIONS",
    "FitVerdict",
    "MemoryConstants",
    "MemoryEstimate",
    "Screening",
    "Software",
    "constants_for",
    "estimate",
    "fit",
    "screen",
]
