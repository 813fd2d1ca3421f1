"""How near searches come to the optimum of truths that are known: `make bench-search` prints tables and writes JSON.

    python -m benchmarks.search --out runs/bench-search.json     5 seeds of each problem and error
    python -m benchmarks.search --full                           20 seeds

Optuna comes with `pip install '.[bench]'`; without it its rows are missing, and the output says so.
"""

import argparse
import importlib.util
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.search.methods import METHODS, OPTUNA, Method, Start, axis_sweep, surrogate
from benchmarks.search.problems import CASES, settings_of, space_of
from benchmarks.search.profile_protocol import MEASUREMENTS, Found, method_finds, planner_finds, profile_truth_of
from benchmarks.search.speed import decision_times
from benchmarks.search.synergy import PROFILES, finds, method_finds_it, planner_finds_it, profile_synergy_of, synergy_of
from benchmarks.search.tables import Result, print_table
from benchmarks.search.trials import Trials, run
from benchmarks.search.truth import truth_of

ERRORS = (0.0, 0.04, 0.10, 0.20)
PROFILE_ERRORS = (0.04, 0.20)
COUNTS = (10, 15, 20, 30)
PROFILE_COUNTS = (10, 20, 30)
SEEDS, FULL_SEEDS = 5, 20
SYNERGY_SEEDS = 40
SLOW, SLOW_SEEDS = "Optuna GP", 2
"""It takes some ten seconds a run: without `--full` it has two seeds."""
OURS = "ours"


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.search", description=__doc__)
    parser.add_argument("--full", action="store_true", help=f"{FULL_SEEDS} seeds instead of {SEEDS}")
    parser.add_argument("--out", type=Path, default=Path("runs/bench-search.json"), help="where the JSON goes")
    parser.add_argument("--only", choices=("observation", "profile", "synergy", "speed"), help="one part alone")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")  # Optuna's samplers are marked experimental
    seeds = FULL_SEEDS if asked.full else SEEDS
    parts: dict[str, Callable[[], object]] = {
        "observation": partial(observation, seeds),
        "profile": partial(profile, seeds),
        "synergy": synergy,
        "speed": decision_times,
    }
    found: dict[str, object] = {}
    for name, part in parts.items():
        if asked.only in (None, name):
            started = time.perf_counter()
            found[name] = part()
            print(f"{name}: {time.perf_counter() - started:.0f} s\n", flush=True)
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    asked.out.write_text(json.dumps({"seeds": seeds, **found}, indent=2) + "\n")
    print(f"written: {asked.out}")


def methods() -> dict[str, Method]:
    """Return the others, without those whose package is missing."""
    if importlib.util.find_spec("optuna") is not None:
        return METHODS
    print("Optuna is NOT installed: its rows are missing (pip install '.[bench]')", file=sys.stderr)
    return {name: method for name, method in METHODS.items() if name not in OPTUNA}


def observation(seeds: int) -> list[dict[str, object]]:
    """Compare all in the observation protocol: a trial returns the row's own noisy speed."""
    results = []
    for error in ERRORS:
        of_error = [
            Result("observation", error, name, COUNTS, list(_observed(method, error, _seeds(name, seeds))))
            for name, method in (methods() | {OURS: surrogate}).items()
        ]
        print_table(f"observation protocol, model error {error:.0%}", of_error)
        results += of_error
    return [item.to_json() for item in results]


def _seeds(name: str, seeds: int) -> int:
    return min(seeds, SLOW_SEEDS) if name == SLOW and seeds == SEEDS else seeds


def _observed(method: Method, error: float, seeds: int) -> Iterator[list[Found]]:
    for case in CASES:
        space = space_of(case)
        for seed in range(seeds):
            truth = truth_of(space, seed, error)
            given = Trials(truth.speeds, np.arange(len(space)), truth.noise, max(COUNTS))
            run(partial(method, Start(space, settings_of(case), seed)), given)
            yield [Found(truth.share(given.after(count)[0]), given.reused) for count in COUNTS]


def profile(seeds: int) -> list[dict[str, object]]:
    """Compare all in the profile protocol; ours is the planner."""
    profiles = tuple(count - MEASUREMENTS for count in PROFILE_COUNTS)
    results = []
    for error in PROFILE_ERRORS:
        truths = [(case, profile_truth_of(case, seed, error)) for case in CASES for seed in range(seeds)]
        found = {
            name: [
                method_finds(method, case, hidden, profiles)
                for case, hidden in truths
                if hidden.truth.seed < _seeds(name, seeds)
            ]
            for name, method in methods().items()
        }
        found[OURS] = [[planner_finds(case, hidden, count) for count in profiles] for case, hidden in truths]
        of_error = [Result("profile", error, name, PROFILE_COUNTS, runs) for name, runs in found.items()]
        print_table(
            f"profile protocol, {MEASUREMENTS} of the trials are measurements, model error {error:.0%}", of_error
        )
        results += of_error
    return [item.to_json() for item in results]


def synergy() -> dict[str, object]:
    """Count the synergies that are found within 30 trials, in both protocols."""
    truths = [synergy_of(seed) for seed in range(SYNERGY_SEEDS)]
    sweep = "axis sweep, greedy"
    observed = {
        name: sum(finds(method, item) for item in truths)
        for name, method in {sweep: axis_sweep, OURS: surrogate}.items()
    }
    hidden = [profile_synergy_of(seed) for seed in range(SYNERGY_SEEDS)]
    profiled = {
        sweep: sum(method_finds_it(axis_sweep, *item) for item in hidden),
        OURS: sum(planner_finds_it(*item) for item in hidden),
    }
    for protocol, found in {"observation": observed, f"{PROFILES} profiles + {MEASUREMENTS}": profiled}.items():
        for name, count in found.items():
            print(f"three-way synergy, 30 trials, {protocol}: {name} finds {count} of {SYNERGY_SEEDS}", flush=True)
    return {"seeds": SYNERGY_SEEDS, "found": observed, "found from profiles": profiled}


if __name__ == "__main__":
    main()
