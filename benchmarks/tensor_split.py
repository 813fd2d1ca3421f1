"""Times one tensor-split MLP by this project's functions, by DTensor, and with DTensor for the moves alone.

The figures of docs/adr/0009.

`python -m benchmarks.tensor_split`. Two gloo processes with the sequence split between them, and one process alone,
where nothing is sent and what differs is the host's time. Shapes are those of the quickstart's model and of a layer
that is larger than most of what a CPU trial trains.
"""

import multiprocessing
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    parallelize_module,
)
from torch.nn import functional

from tunewright.domain.catalog_loader import shipped_catalog
from tunewright.domain.model_architecture import ModelArchitecture
from tunewright_trial.layers.context import LayerContext
from tunewright_trial.layers.mlp import DenseMlp
from tunewright_trial.layers.parameters import initialise
from tunewright_trial.layers.split import Split
from tunewright_trial.place import Place
from tunewright_trial.rendezvous import joined

TOKENS = 128
ROUNDS = 4
REPETITIONS = 25
CPU = torch.device("cpu")


class PlainMlp(nn.Module):
    """The same MLP as torch has it, for `parallelize_module`."""

    def __init__(self, hidden: int, width: int) -> None:
        super().__init__()
        self.gate, self.up = (nn.Linear(hidden, width, bias=False) for _ in range(2))
        self.down = nn.Linear(width, hidden, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Apply the MLP."""
        result: torch.Tensor = self.down(functional.silu(self.gate(tokens)) * self.up(tokens))
        return result


class MovedMlp(PlainMlp):
    """A rank's part of it on plain tensors, its tokens gathered and its sums scattered by DTensor."""

    def __init__(self, hidden: int, width: int, ranks: int) -> None:
        super().__init__(hidden, width // ranks)
        self.mesh = DeviceMesh("cpu", list(range(ranks)))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Apply the MLP."""
        part = DTensor.from_local(tokens, self.mesh, (Shard(0),), run_check=False)
        whole = part.redistribute(placements=(Replicate(),)).to_local(grad_placements=(Partial(),))
        sums = DTensor.from_local(super().forward(whole), self.mesh, (Partial(),), run_check=False)
        result: torch.Tensor = sums.redistribute(placements=(Shard(0),)).to_local()
        return result


def ours(model: ModelArchitecture, ranks: int, rank: int) -> nn.Module:
    """Build the trial program's MLP."""
    context = LayerContext(
        model=model,
        sequence_length=TOKENS,
        sequence_slice=TOKENS,
        micro_batch_size=1,
        dtype=torch.float32,
        device=CPU,
        tensor=Split(ranks, rank, torch.distributed.group.WORLD),
    )
    return DenseMlp(context, model.ffn_hidden_size)


def by_dtensor(model: ModelArchitecture, ranks: int) -> nn.Module:
    """Build torch's MLP and split it with DTensor, gathering and scattering the sequence once, as ours does."""
    mesh = DeviceMesh("cpu", list(range(ranks)))
    plan: dict[str, Any] = {
        "0": PrepareModuleInput(input_layouts=Shard(0), desired_input_layouts=Replicate()),
        "0.gate": ColwiseParallel(),
        "0.up": ColwiseParallel(),
        "0.down": RowwiseParallel(output_layouts=Shard(0)),
    }
    return parallelize_module(nn.Sequential(PlainMlp(model.hidden_size, model.ffn_hidden_size)), mesh, plan)


def seconds_of(mlp: nn.Module, hidden: torch.Tensor) -> tuple[float, float]:
    """Return a thread's own and the wall seconds of a forward with its backward pass."""
    own, wall = time.thread_time(), time.perf_counter()
    for _ in range(REPETITIONS):
        mlp(hidden).sum().backward()
    return (time.thread_time() - own) / REPETITIONS, (time.perf_counter() - wall) / REPETITIONS


def compare(place: Place, name: str, model: ModelArchitecture) -> None:
    """Time all on every rank, in turn, and print the first rank's medians."""
    torch.set_num_threads(1)
    with joined(place, CPU):
        hidden = torch.randn((TOKENS // place.world, 1, model.hidden_size), requires_grad=True)
        modules = {
            "functions": ours(model, place.world, place.rank),
            "DTensor": by_dtensor(model, place.world),
            "DTensor for the moves": MovedMlp(model.hidden_size, model.ffn_hidden_size, place.world),
        }
        initialise([modules["functions"]], 0)
        found: dict[str, list[tuple[float, float]]] = {label: [] for label in modules}
        for _ in range(ROUNDS):
            for label, mlp in modules.items():
                found[label].append(seconds_of(mlp, hidden))
    if place.rank == 0:
        for label, rounds in found.items():
            own, wall = (median(values) * 1e3 for values in zip(*rounds[1:], strict=True))
            print(f"{name}, ranks {place.world}, {label}: {own:.2f} ms of its thread, {wall:.2f} ms in all", flush=True)


def main() -> None:
    """Compare them on one rank and on two."""
    small = shipped_catalog().model("tiny-quickstart")
    large = small.model_copy(update={"hidden_size": 1024, "ffn_hidden_size": 3072})
    context = multiprocessing.get_context("fork")
    for name, model in (("quickstart", small), ("hidden size 1024", large)):
        for world in (1, 2):
            with tempfile.TemporaryDirectory() as folder:
                places = [Place(rank, world, 0, 1, str(Path(folder) / "meeting"), 60.0) for rank in range(world)]
                ranks = [context.Process(target=compare, args=(place, name, model)) for place in places]
                for process in ranks:
                    process.start()
                for process in ranks:
                    process.join()


if __name__ == "__main__":
    main()
