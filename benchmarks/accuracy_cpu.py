"""Projection against measurement on this machine: every layout is profiled, projected, and then really trained.

    python benchmarks/accuracy_cpu.py [--repeats 3] [--only TEXT] [--json FILE] [--guide docs/guides/accuracy-cpu.md]

Ranks are processes that meet over gloo. Profile and measurement of a layout follow each other, and all layouts are
gone through several times, so that what else the machine does reaches both alike. Medians are compared; the spread is
half the interquartile range of all measured steps over their median. Rank, correlation and the cost of the first
choice are taken within each model and world size, since a search compares nothing else. `make accuracy-cpu` runs it;
how to read it: docs/guides/accuracy-cpu.md.
"""

import argparse
import asyncio
import json
import os
import statistics
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tunewright.adapters.trials.local import LocalTrials
from tunewright.adapters.trials.probe import probe_cpu
from tunewright.domain.catalog_loader import shipped_catalog
from tunewright.domain.hardware import Accelerator, Cluster
from tunewright.domain.model_architecture import MixtureOfExperts, ModelArchitecture
from tunewright.domain.problem import TuningProblem
from tunewright.domain.training_config import TrainingConfig
from tunewright.performance.projection import project
from tunewright.trial_protocol.identity import TrialIdentity, TrialKind
from tunewright.trial_protocol.report import TrialReport
from tunewright.trial_protocol.request import ExpectedDevice, TrialRequest

DENSE = ModelArchitecture(
    name="dense",
    num_layers=4,
    hidden_size=256,
    num_attention_heads=8,
    num_key_value_heads=4,
    head_dim=32,
    ffn_hidden_size=768,
    vocabulary_size=1024,
)
MOE = DENSE.model_copy(
    update={
        "name": "moe",
        "experts": MixtureOfExperts(num_experts=8, experts_per_token=2, expert_ffn_hidden_size=384),
        "ffn_hidden_size": 0,
    }
)
T, P, V, C, E, ET = (
    f"{name}_parallel_size" for name in ("tensor", "pipeline", "virtual_pipeline", "context", "expert", "expert_tensor")
)
B, SCHEDULE = "micro_batch_size", "pipeline_schedule"
BEGIN, END = "<!-- a run of make accuracy-cpu -->", "<!-- end of the run -->"
LAYOUTS: Sequence[tuple[ModelArchitecture, int, str, dict[str, Any]]] = (
    (DENSE, 2, "data", {}),
    (DENSE, 2, "data, micro batch 4", {B: 4}),
    (DENSE, 2, "data, fsdp2", {"optimizer": "fsdp2"}),
    (DENSE, 2, "data, full recomputation", {"recompute_granularity": "full"}),
    (DENSE, 2, "tensor", {T: 2}),
    (DENSE, 2, "context", {C: 2}),
    (DENSE, 2, "pipeline", {P: 2}),
    (DENSE, 2, "pipeline, interleaved", {P: 2, V: 2, SCHEDULE: "interleaved-1f1b"}),
    (DENSE, 2, "pipeline, zero-bubble-v", {P: 2, V: 2, SCHEDULE: "zero-bubble-v"}),
    (DENSE, 2, "pipeline, zero-bubble-h1", {P: 2, SCHEDULE: "zero-bubble-h1"}),
    (DENSE, 4, "data", {}),
    (DENSE, 4, "tensor 2", {T: 2}),
    (DENSE, 4, "context 2", {C: 2}),
    (DENSE, 4, "pipeline 2", {P: 2}),
    (DENSE, 4, "pipeline 4", {P: 4}),
    (DENSE, 4, "tensor 2, pipeline 2", {T: 2, P: 2}),
    (MOE, 2, "data", {}),
    (MOE, 2, "expert", {E: 2}),
    (MOE, 2, "expert, micro batch 4", {E: 2, B: 4}),
    (MOE, 2, "expert tensor", {ET: 2}),
    (MOE, 2, "tensor, expert", {T: 2, E: 2}),
    (MOE, 2, "pipeline", {P: 2}),
    (MOE, 4, "data", {}),
    (MOE, 4, "expert 4", {E: 4}),
    (MOE, 4, "expert 2", {E: 2}),
    (MOE, 4, "pipeline 2, expert 2", {P: 2, E: 2}),
)


@dataclass
class Row:
    """One layout. Figures are tokens per second and rank, one a repetition."""

    model: ModelArchitecture
    world: int
    name: str
    problem: TuningProblem
    config: TrainingConfig
    projections: list[float] = field(default_factory=list)
    measured: list[float] = field(default_factory=list)
    steps: list[float] = field(default_factory=list)

    @property
    def projected(self) -> float:
        return statistics.median(self.projections)

    @property
    def median(self) -> float:
        return statistics.median(self.measured)

    @property
    def spread(self) -> float:
        low, middle, high = statistics.quantiles(self.steps, n=4, method="inclusive")
        return (high - low) / 2 / middle

    @property
    def ratio(self) -> float:
        return self.projected / self.median


def rows(accelerator: Accelerator, only: str) -> list[Row]:
    network = shipped_catalog().default_network_for(accelerator.name)
    made = []
    for model, world, name, fields in LAYOUTS:
        cluster = Cluster(nodes=1, gpus_per_node=world, accelerator=accelerator, network=network)
        problem = TuningProblem(
            model=model,
            sequence_length=128,
            global_batch_size=16,
            precision="fp32",
            backend="builtin",
            implementation="torch",
            cluster=cluster,
        )
        if only in f"{model.name} {world} {name}":
            made.append(Row(model, world, name, problem, TrainingConfig.parse({"precision": "fp32", **fields})))
    return made


def request(row: Row, kind: TrialKind, number: int) -> TrialRequest:
    return TrialRequest(
        identity=TrialIdentity.of(f"accuracy-{os.getpid()}", f"t{number:04d}", 1, kind, row.config),
        problem=row.problem,
        config=row.config,
        device=ExpectedDevice(preset="cpu", vendor="cpu", count=row.world),
        processes_per_node=row.world,
        warmup_steps=2,
        steps=5,
        deadline_seconds=300,
    )


async def run(trials: LocalTrials, wanted: TrialRequest) -> TrialReport:
    await trials.start(wanted)
    while True:
        seen = next(one for one in await trials.observe() if one.trial == wanted.identity.trial)
        if seen.state == "finished":
            if seen.report is None or seen.failure is not None:
                raise SystemExit(f"{wanted.identity.kind} of {wanted.config} failed: {seen.failure} {seen.message}")
            return seen.report
        await asyncio.sleep(0.05)


async def fill(table: list[Row], repeats: int, folder: Path) -> None:
    """Profile, project and measure every row, again and again."""
    trials = LocalTrials(folder)
    numbers = iter(range(1, 10**4))
    for row in table * repeats:
        profile = await run(trials, request(row, "profile", next(numbers)))
        row.projections.append(project(row.problem, row.config, profile).tokens_per_second_per_gpu)
        report = await run(trials, request(row, "measure", next(numbers)))
        assert report.measured is not None
        row.measured.append(report.measured.tokens_per_second_per_gpu)
        row.steps.extend(report.measured.step_seconds)
        print(f"{row.model.name} {row.world} {row.name}: {row.projections[-1]:.0f} {row.measured[-1]:.0f}", flush=True)


def groups(table: Iterable[Row]) -> dict[tuple[str, int], list[Row]]:
    found: dict[tuple[str, int], list[Row]] = {}
    for row in table:
        found.setdefault((row.model.name, row.world), []).append(row)
    return found


def ranks(values: Sequence[float]) -> list[int]:
    """Rank 1 is the largest."""
    order = sorted(range(len(values)), key=lambda index: -values[index])
    return [order.index(index) + 1 for index in range(len(values))]


def rank_correlation(one: Sequence[float], other: Sequence[float]) -> float:
    """Spearman's, without ties."""
    count = len(one)
    squares = sum((first - second) ** 2 for first, second in zip(ranks(one), ranks(other), strict=True))
    return 1 - 6 * squares / (count * (count**2 - 1)) if count > 1 else 1.0


def table_lines(table: list[Row]) -> list[str]:
    lines = [
        "| model | ranks | layout | projected | measured | ± | ratio | rank projected | rank measured |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for members in groups(table).values():
        projected, measured = ranks([row.projected for row in members]), ranks([row.median for row in members])
        for row, mine, real in zip(members, projected, measured, strict=True):
            lines.append(
                f"| {row.model.name} | {row.world} | {row.name} | {row.projected:,.0f} | {row.median:,.0f} "
                f"| {row.spread:.0%} | {row.ratio:.2f} | {mine} | {real} |"
            )
    return lines


def summary(table: list[Row]) -> dict[str, Any]:
    errors = [abs(row.ratio - 1) for row in table]
    by_group = {
        f"{model} on {world}": {
            "layouts": len(members),
            "rankCorrelation": round(
                rank_correlation([row.projected for row in members], [row.median for row in members]), 3
            ),
            "firstChoiceOfBest": round(
                max(members, key=lambda row: row.projected).median / max(row.median for row in members), 3
            ),
        }
        for (model, world), members in groups(table).items()
    }
    return {
        "layouts": len(table),
        "cores": os.cpu_count(),
        "loadAverage": [round(value, 1) for value in os.getloadavg()],
        "rankCorrelationOfAll": round(
            rank_correlation([row.projected for row in table], [row.median for row in table]), 3
        ),
        "medianError": round(statistics.median(errors), 3),
        "medianSpread": round(statistics.median(row.spread for row in table), 3),
        "groups": by_group,
    }


def guide_lines(table: list[Row], found: dict[str, Any], repeats: int) -> list[str]:
    """Return the run as the guide shows it: the figures in words, then the table."""
    groups = found["groups"].items()
    ranked = ", ".join(f"{figures['rankCorrelation']:.2f} ({name})" for name, figures in groups)
    chosen = ", ".join(f"{figures['firstChoiceOfBest']:.0%} ({name})" for name, figures in groups)
    return [
        f"{found['cores']} cores, repetitions: {repeats}, load average at the end: {found['loadAverage'][0]}.",
        "",
        f"- Rank correlation over all {found['layouts']} layouts: {found['rankCorrelationOfAll']:.2f}; within a model"
        f" and world size: {ranked}.",
        f"- Speed of the first choice, of the best layout's: {chosen}.",
        f"- Median error: {found['medianError']:.0%}; median spread of the steps: {found['medianSpread']:.0%}.",
        "",
        *table_lines(table),
    ]


def write_guide(guide: Path, lines: Iterable[str]) -> None:
    """Replace what stands between the two marks of the guide."""
    before, _, rest = guide.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    text = "\n".join([f"{before}{BEGIN}", *lines, f"{END}{after}"])
    guide.write_text(text, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", default="", help="layouts whose `model ranks name` contains this text")
    parser.add_argument("--json", type=Path, help="file for the figures")
    parser.add_argument("--guide", type=Path, help="Markdown file that shows the run between its two marks")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="accuracy-") as folder:
        nominal = shipped_catalog().accelerator("cpu")
        accelerator = nominal.model_copy(update=probe_cpu(Path(folder) / "cpu.json"))
        table = rows(accelerator, options.only)
        asyncio.run(fill(table, options.repeats, Path(folder) / "trials"))
    found = summary(table)
    print("\n".join(table_lines(table)))
    print(json.dumps(found, indent=2))
    if options.guide:
        write_guide(options.guide, guide_lines(table, found, options.repeats))
    if options.json:
        figures = [
            {"model": row.model.name, "ranks": row.world, "layout": row.name, "projected": row.projected}
            | {"measured": row.measured, "projections": row.projections, "stepSeconds": row.steps}
            for row in table
        ]
        options.json.write_text(json.dumps({"summary": found, "layouts": figures}, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
