"""How near searches come to the optimum of truths that are known: `make bench-search` prints tables and writes JSON.

    python -m benchmarks.search --out runs/bench-search.json     5 seeds of each problem and error
    python -m benchmarks.search --full                           20 seeds
    python -m benchmarks.search --first-seed 3000                seeds that no constant was chosen on

Optuna comes with `pip install '.[bench]'`; without it its rows are missing, and the output says so.
"""

import argparse
import importlib.util
import json
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from functools import partial
from pathlib import Path

from benchmarks.search.methods import METHODS, OPTUNA
from benchmarks.search.problems import CASES
from benchmarks.search.profile_protocol import MEASUREMENTS
from benchmarks.search.runs import COUNTS, PROFILE_COUNTS, ByMethod, observed, profiled, synergy_found
from benchmarks.search.speed import decision_times
from benchmarks.search.synergy import PROFILES
from benchmarks.search.tables import Result, print_table
from benchmarks.search.workers import workers

ERRORS = (0.0, 0.04, 0.10, 0.20)
PROFILE_ERRORS = (0.04, 0.20)
SEEDS, FULL_SEEDS = 5, 20
SYNERGY_SEEDS = 40
SLOW, SLOW_SEEDS = "Optuna GP", 2
"""It takes some ten seconds a run: without `--full` it has two seeds."""

OnTruth = Callable[[int, int, float, tuple[str, ...]], ByMethod]


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.search", description=__doc__)
    parser.add_argument("--full", action="store_true", help=f"{FULL_SEEDS} seeds instead of {SEEDS}")
    parser.add_argument("--first-seed", type=int, default=0, help="the seeds follow each other from this one on")
    parser.add_argument("--out", type=Path, default=Path("runs/bench-search.json"), help="where the JSON goes")
    parser.add_argument("--only", choices=("observation", "profile", "synergy", "speed"), help="one part alone")
    asked = parser.parse_args()
    seeds = range(asked.first_seed, asked.first_seed + (FULL_SEEDS if asked.full else SEEDS))
    found: dict[str, object] = {}
    with workers() as pool:
        parts: dict[str, Callable[[], object]] = {
            "observation": partial(observation, pool, seeds),
            "profile": partial(profile, pool, seeds),
            "synergy": partial(synergy, pool, range(asked.first_seed, asked.first_seed + SYNERGY_SEEDS)),
            "speed": lambda: pool.submit(decision_times).result(),
        }
        for name, part in parts.items():
            if asked.only in (None, name):
                started = time.perf_counter()
                found[name] = part()
                print(f"{name}: {time.perf_counter() - started:.0f} s\n", flush=True)
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    asked.out.write_text(json.dumps({"seeds": list(seeds), **found}, indent=2) + "\n")
    print(f"written: {asked.out}")


def observation(pool: Executor, seeds: range) -> list[dict[str, object]]:
    """Compare all in the observation protocol."""
    return _compared(pool, observed, seeds, "observation", ERRORS, COUNTS, "observation protocol")


def profile(pool: Executor, seeds: range) -> list[dict[str, object]]:
    """Compare all in the profile protocol; ours is the planner."""
    title = f"profile protocol, {MEASUREMENTS} of the trials are measurements"
    return _compared(pool, profiled, seeds, "profile", PROFILE_ERRORS, PROFILE_COUNTS, title)


def synergy(pool: Executor, seeds: range) -> dict[str, object]:
    """Count the synergies that are found within 30 trials, in both protocols."""
    found = list(pool.map(synergy_found, seeds))
    counts = {
        protocol: {name: sum(item[protocol][name] for item in found) for name in methods}
        for protocol, methods in found[0].items()
    }
    for protocol, told in (("found", "observation"), ("found from profiles", f"{PROFILES} profiles + {MEASUREMENTS}")):
        for name, count in counts[protocol].items():
            print(f"three-way synergy, 30 trials, {told}: {name} finds {count} of {len(seeds)}", flush=True)
    return {"seeds": list(seeds), **counts}


def _compared(
    pool: Executor,
    run: OnTruth,
    seeds: range,
    protocol: str,
    errors: Sequence[float],
    counts: Sequence[int],
    title: str,
) -> list[dict[str, object]]:
    """Run all methods on all truths, and print a table for each error as soon as it is complete."""
    names = _others()
    truths = [(case, seed, error) for error in errors for seed in seeds for case in range(len(CASES))]
    asked = [(*truth, tuple(name for name in names if truth[1] in _seeds(name, seeds))) for truth in truths]
    answers = pool.map(run, *zip(*asked, strict=True))
    results = []
    for error in errors:
        found = [next(answers) for _ in range(len(seeds) * len(CASES))]
        of_error = [
            Result(protocol, error, name, counts, [one[name] for one in found if name in one]) for name in found[0]
        ]
        print_table(f"{title}, model error {error:.0%}", of_error)
        results += of_error
    return [item.to_json() for item in results]


def _others() -> tuple[str, ...]:
    """Return the names of the others, without those whose package is missing."""
    if importlib.util.find_spec("optuna") is not None:
        return tuple(METHODS)
    print("Optuna is NOT installed: its rows are missing (pip install '.[bench]')", file=sys.stderr)
    return tuple(name for name in METHODS if name not in OPTUNA)


def _seeds(name: str, seeds: range) -> range:
    return seeds[:SLOW_SEEDS] if name == SLOW and len(seeds) == SEEDS else seeds


if __name__ == "__main__":
    main()
