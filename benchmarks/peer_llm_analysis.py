"""Asks llm-analysis about the points on its standard input and prints how long it took. Called by `plan.py`.

Runs in the peer's own virtual environment, with nothing of this project. In: one JSON object with the fields of the
peer's `ModelConfig` and `GPUConfig`, what holds for all points, and `points`, keyword arguments of one question each.
Out: one JSON object with the seconds without imports, and how many points were answered; the peer refuses some.
"""

import json
import logging
import sys
import time
from typing import Any

from llm_analysis.analysis import ActivationRecomputation, DSZeRO, LLMAnalysis  # type: ignore[import-not-found]
from llm_analysis.config import GPUConfig, ModelConfig, ParallelismConfig  # type: ignore[import-not-found]
from llm_analysis.logger import logger  # type: ignore[import-not-found]

Point = dict[str, Any]


def ask(model: ModelConfig, gpu: GPUConfig, point: Point) -> float:
    """Return the peer's seconds of one step: it estimates memory and latency in one go."""
    analysis = LLMAnalysis(model, gpu, parallelism_config=ParallelismConfig(**point["degrees"]))
    found = analysis.training(
        **point["batch"],
        activation_recomputation=ActivationRecomputation(point["recomputation"]),
        ds_zero=DSZeRO.STAGE_1,
        mlp_gated_linear_units=True,
    )
    return float(found["latency_per_iter"])


def main() -> None:
    """Answer every point, one at a time: the peer has no other way."""
    logger.setLevel(logging.ERROR)
    asked = json.load(sys.stdin)
    model, gpu = ModelConfig(**asked["model"]), GPUConfig(**asked["gpu"])
    answered = 0
    started = time.perf_counter()
    for point in asked["points"]:
        try:
            answered += ask(model, gpu, point) > 0
        except AssertionError:  # how the peer refuses
            continue
    print(json.dumps({"seconds": time.perf_counter() - started, "answered": answered}))


if __name__ == "__main__":
    main()
