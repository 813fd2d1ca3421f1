"""Write docs/reference/mixtral-8x22b-mi355x.md: what AMD published of this model beside what is estimated.

Run by `make docs`. The published BF16 row leaves batch, recomputation and dispatcher open, so all of them are shown.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tunewright.cli.loading import load, load_candidate
from tunewright.domain.axes import describe
from tunewright.domain.config_batch import ConfigBatch
from tunewright.domain.problem import TuningProblem
from tunewright.domain.training_config import TrainingConfig
from tunewright.memory.estimate import estimate as estimate_memory
from tunewright.memory.fit import fit
from tunewright.performance.constants import Efficiency
from tunewright.performance.step import estimate
from tunewright.performance.uncertainty import interval_half_width
from tunewright.units import GIB

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/reference/mixtral-8x22b-mi355x.md"
EXAMPLES = {8: ROOT / "examples/mixtral-8x22b-mi355x.yaml", 4: ROOT / "examples/mixtral-8x22b-4x8.yaml"}
PUBLISHED_BF16, PUBLISHED_FP8 = 3534, 4402
DISPATCHERS = ("all-to-all", "deepep")
NONE: dict[str, Any] = {"recompute_granularity": "none"}
FULL: dict[str, Any] = {"recompute_granularity": "full"}
ONE_LAYER: dict[str, Any] = FULL | {"recompute_method": "block", "recompute_num_layers": 1}
THREE_LAYERS: dict[str, Any] = ONE_LAYER | {"recompute_num_layers": 3}
SETTINGS = (
    *((2, batch, name, fields) for batch in (128, 256, 512) for name, fields in (("none", NONE), ("full", FULL))),
    (2, 512, "three layers a chunk", THREE_LAYERS),
    *((1, 512, name, fields) for name, fields in (("none", NONE), ("one layer a chunk", ONE_LAYER), ("full", FULL))),
)
"""Micro batch, batch, recomputation."""
STATED = {
    "pipeline_parallel_size": 4,
    "virtual_pipeline_parallel_size": 2,
    "pipeline_schedule": "interleaved-1f1b",
    "expert_parallel_size": 8,
    "precision": "bf16",
}

HEAD = """# Mixtral 8x22B on MI355X: published and estimated

Written by `make docs`. AMD published two figures with enough of their configuration to ask what the model says.

## BF16, 8 nodes: 3,534 tokens/s/GPU

Stated: TP1 PP4 VPP2 EP8, micro batch 2, sequences of 8,192 tokens ([Primus's projection post][post], which quotes AMD's
performance page). Open: batch, recomputation, dispatcher. Deviations are from 3,534; memory is the allocation of the
fullest rank, without a difference worth showing between the dispatchers; 288 GiB are there.

| micro batch | batch | recomputation | all-to-all | DeepEP | allocated | verdict |
|---|---|---|---|---|---|---|
"""

MIDDLE = """
Without recomputation, micro batches of two sequences cannot have run: a token keeps 299,280 bytes in a layer, three
quarters of them in its two routed rows; a rank has 16,384 tokens in 14 layers; 5.5 micro batches are in flight (4 of
batch 128): 352 GiB before weights. With full recomputation the figure is out of reach: 3,534 tokens/s/GPU are 0.89
PFLOP/s without counting it and 1.19 with it, 1.30 while a rank is busy at batch 512 and more at smaller ones, where the
best matmul alone reaches 1.57. Three of a chunk's seven layers are the fewest to recompute that fit. AMD's own [launch
command][command] for this model and device, on 4 nodes, has micro batch 1, batch 512 and one recomputed layer a chunk,
which fits; so does micro batch 1 without recomputation, within 8 % of the published figure.

## FP8: 4,402 tokens/s/GPU, 4 nodes, configuration not published

| nodes | best estimate | 80 % interval | configuration |
|---|---|---|---|
"""

PLAIN = """
## One expert a rank

Eight experts on eight ranks leave one on each, and a grouped product of one group could run as a plain one. The charge
for grouping was fixed by ranks of 8 and 16 experts; no published row that can be scored has one. Without it:

| figure | published | charged | not charged |
|---|---|---|---|
"""

AFTER_PLAIN = """
(FP8: in parentheses where the 80 % interval begins.) The BF16 row asks for less of a charge, the FP8 figure for more:
without it, the interval of the best FP8 configuration begins above what was measured. So it stays.
"""

TAIL = """
[post]: https://github.com/AMD-AGI/Primus/blob/fd1eeabbad15/docs_deprecated/tech_blogs/projection/projection.md
[command]: https://github.com/AMD-AGI/Primus/blob/01aa081c463d/docs/02-user-guide/megatron-lm-training.md
"""


def bf16_lines() -> Iterator[str]:
    """Yield the table's line of every setting."""
    problem, _ = load_candidate(EXAMPLES[8])
    for micro_batch, batch, name, fields in SETTINGS:
        asked = problem.model_copy(update={"global_batch_size": batch, "precision": "bf16"})
        rows = ConfigBatch.of(
            [
                TrainingConfig.parse(
                    STATED | {"micro_batch_size": micro_batch, "moe_dispatcher": dispatcher} | fields, "row"
                )
                for dispatcher in DISPATCHERS
            ]
        )
        memory = estimate_memory(asked, rows)
        speeds = estimate(asked, rows).tokens_per_second_per_gpu
        shown = " | ".join(f"{speed:,.0f} ({speed / PUBLISHED_BF16 - 1:+.1%})" for speed in speeds)
        verdict = "fits" if fit(asked, memory).fits.all() else "cannot fit"
        size = float(memory.allocated_bytes.max()) / GIB
        yield f"| {micro_batch} | {batch} | {name} | {shown} | {size:.0f} GiB | {verdict} |"


def fp8_lines() -> Iterator[str]:
    """Yield the best configuration's line for both readings of the published cluster."""
    for nodes, example in sorted(EXAMPLES.items()):
        space = load(example).space
        best = int(space.ranking[0])
        speed = float(space.tokens_per_second_per_gpu[best])
        width = float(np.exp(interval_half_width(space.problem, space.batch.take([best]))[0]))
        interval = f"{speed / width:,.0f} to {speed * width:,.0f}"
        yield f"| {nodes} | {speed:,.0f} | {interval} | {describe(space.config(best))} |"


def plain_lines() -> Iterator[str]:
    """Yield the lines of a comparison: estimates with and without the charge for grouped products."""
    problem, _ = load_candidate(EXAMPLES[8])
    asked = problem.model_copy(update={"global_batch_size": 512, "precision": "bf16"})
    launched = STATED | {"micro_batch_size": 1} | ONE_LAYER
    for dispatcher in DISPATCHERS:
        row = ConfigBatch.of([TrainingConfig.parse(launched | {"moe_dispatcher": dispatcher}, "row")])
        charged, plain = (f"{speed:,.0f} ({speed / PUBLISHED_BF16 - 1:+.1%})" for speed in both_ways(asked, row))
        yield f"| BF16, AMD's launch command, {dispatcher} | {PUBLISHED_BF16:,} | {charged} | {plain} |"
    for nodes, example in sorted(EXAMPLES.items()):
        space = load(example).space
        row = space.batch.take([int(space.ranking[0])])
        width = float(np.exp(interval_half_width(space.problem, row)[0]))
        charged, plain = (f"{speed:,.0f} (from {speed / width:,.0f})" for speed in both_ways(space.problem, row))
        yield f"| FP8, the best configuration of {nodes} nodes | {PUBLISHED_FP8:,} | {charged} | {plain} |"


def both_ways(problem: TuningProblem, row: ConfigBatch) -> tuple[float, float]:
    """Return tokens/s/GPU as estimated, and where grouped products run like plain ones."""
    calibrated = Efficiency.of(problem.cluster.accelerator)
    plain = replace(calibrated, grouped_matmul=1.0)
    charged, free = (
        float(estimate(problem, row, efficiency=efficiency).tokens_per_second_per_gpu[0])
        for efficiency in (calibrated, plain)
    )
    return charged, free


def gain(problem: TuningProblem, micro_batch: int) -> float:
    """Return DeepEP's gain over all-to-all under the stated layout, in FP8."""
    configs = [
        TrainingConfig.parse(
            STATED | {"precision": "fp8", "micro_batch_size": micro_batch, "moe_dispatcher": dispatcher}, "row"
        )
        for dispatcher in DISPATCHERS
    ]
    plain, deepep = estimate(problem, ConfigBatch.of(configs)).tokens_per_second_per_gpu
    return float(deepep / plain - 1)


def main() -> None:
    """Write the page."""
    problem, _ = load_candidate(EXAMPLES[8])
    gains = " and ".join(f"{gain(problem, size):.1%}" for size in (1, 2))
    closing = f"\nDeepEP's gain over all-to-all, FP8, 8 nodes, the layout above, micro batch 1 and 2: {gains}.\n"
    text = HEAD + "\n".join(bf16_lines()) + "\n" + MIDDLE + "\n".join(fp8_lines()) + "\n" + closing
    text += PLAIN + "\n".join(plain_lines()) + "\n" + AFTER_PLAIN + TAIL
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
