"""Processes that run parts of the benchmark beside each other. Called by the main program.

Each has one thread for linear algebra: its matrices are small, and threads that wait for cores which others use took
six times the processor time.
"""

import os
import warnings
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context

PROCESSES = 2
_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
"""What numpy and torch read when they are imported, which in a new process is still to come."""


@contextmanager
def workers() -> Iterator[Executor]:
    """Offer processes; they end with the context."""
    for name in _THREADS:
        os.environ.setdefault(name, "1")
    with ProcessPoolExecutor(PROCESSES, get_context("spawn"), _be_quiet) as pool:
        yield pool


def _be_quiet() -> None:
    warnings.simplefilter("ignore")  # Optuna's samplers are marked experimental
