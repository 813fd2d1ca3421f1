"""What the operator costs, and how it bears load: `make bench-operator` prints figures, targets and verdicts.

    python -m benchmarks.operator                               every scenario, full counts
    python -m benchmarks.operator --only at-rest --scale 0.1    one of them, a tenth of its counts

Each scenario has a control plane of its own (see CONTRIBUTING), an operator process and stand-ins for kubelets.
"""

import argparse
import asyncio
import json
import os
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from benchmarks.operator.at_rest import at_rest
from benchmarks.operator.figures import Figure, print_figures
from benchmarks.operator.long_run import long_run
from benchmarks.operator.many_runs import many_runs
from benchmarks.operator.requests import requests
from benchmarks.operator.soak import soak

SCENARIOS: dict[str, Callable[[float], Coroutine[Any, Any, list[Figure]]]] = {
    "long-run": long_run,
    "many-runs": many_runs,
    "at-rest": at_rest,
    "requests": requests,
    "soak": soak,
}


def main() -> None:
    """Run what was asked for; exit with 1 where a target is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.operator", description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=SCENARIOS, action="append", help="this scenario; may be given again")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the full counts")
    parser.add_argument("--out", type=Path, default=Path("runs/bench-operator.json"), help="where the JSON goes")
    asked = parser.parse_args()
    figures: list[Figure] = []
    for name in asked.only or SCENARIOS:
        began, load = time.perf_counter(), os.getloadavg()[0]
        figures += asyncio.run(SCENARIOS[name](asked.scale))
        print_figures([item for item in figures if item.scenario == name])
        took = time.perf_counter() - began
        print(f"{name}: scale {asked.scale:g}, {took:.0f} s; load before {load:.1f} on {os.cpu_count()} cores\n")
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    document = {"scale": asked.scale, "figures": [item.to_json() for item in figures]}
    asked.out.write_text(json.dumps(document, indent=2) + "\n")
    print(f"written: {asked.out}")
    if any(item.verdict == "MISSED" for item in figures):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
