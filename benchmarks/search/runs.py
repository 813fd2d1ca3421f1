"""What is run on one truth, asked for by numbers alone, so that another process can do it. Called by the main program.

A truth is made once for all methods.
"""

from functools import partial

import numpy as np

from benchmarks.search.methods import METHODS, Method, Start, axis_sweep, surrogate
from benchmarks.search.problems import CASES, settings_of, space_of
from benchmarks.search.profile_protocol import MEASUREMENTS, Found, method_finds, planner_finds, profile_truth_of
from benchmarks.search.synergy import (
    chance_knowing_all_but_schedule,
    finds,
    method_finds_it,
    planner_finds_it,
    profile_synergy_of,
    synergy_of,
)
from benchmarks.search.trials import Trials, run
from benchmarks.search.truth import truth_of

COUNTS = (10, 15, 20, 30)
PROFILE_COUNTS = (10, 20, 30)
OURS = "ours"
SWEEP = "axis sweep, greedy"

ByMethod = dict[str, list[Found]]
"""What each method has found after each count of trials."""


def observed(case: int, seed: int, error: float, names: tuple[str, ...]) -> ByMethod:
    """Run the others and ours in the observation protocol: a trial returns the row's own noisy speed."""
    methods: dict[str, Method] = {name: METHODS[name] for name in names} | {OURS: surrogate}
    space = space_of(CASES[case])
    truth = truth_of(space, seed, error)
    found = {}
    for name, method in methods.items():
        given = Trials(truth.speeds, np.arange(len(space)), truth.noise, max(COUNTS))
        run(partial(method, Start(space, settings_of(CASES[case]), seed)), given)
        found[name] = [Found(truth.share(given.after(count)[0]), given.reused) for count in COUNTS]
    return found


def profiled(case: int, seed: int, error: float, names: tuple[str, ...]) -> ByMethod:
    """Run the others and the planner in the profile protocol."""
    problem, counts = CASES[case], tuple(count - MEASUREMENTS for count in PROFILE_COUNTS)
    hidden = profile_truth_of(problem, seed, error)
    found = {name: method_finds(METHODS[name], problem, hidden, counts) for name in names}
    return found | {OURS: [planner_finds(problem, hidden, count) for count in counts]}


def synergy_found(seed: int) -> dict[str, dict[str, float]]:
    """Tell by protocol and method whether, or how likely, the synergy of a seed is found within 30 trials."""
    synergy, hidden = synergy_of(seed), profile_synergy_of(seed)
    return {
        "found": {SWEEP: finds(axis_sweep, synergy), OURS: finds(surrogate, synergy)},
        "found from profiles": {
            SWEEP: method_finds_it(axis_sweep, *hidden),
            OURS: planner_finds_it(*hidden),
            "knowing all but the schedule": chance_knowing_all_but_schedule(seed),
        },
    }
