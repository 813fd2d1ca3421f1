"""Every gradient of a layout, value by value, beside that of one process. As a script: prints the largest difference.

Each layout trains one step in forked ranks, with the optimizer whose gradients stay whole on every rank. A rank's
gradient of a parameter must be its part of the reference's.
"""

import importlib
import os
import sys
import tempfile
import traceback
from pathlib import Path

import torch

from tests.unit.trial.layouts import LAYOUTS, REFERENCES
from tunewright.trial_protocol.request import TrialRequest
from tunewright_trial.layers.parameters import placement_of
from tunewright_trial.parallel.layout import Layout
from tunewright_trial.place import Place
from tunewright_trial.rendezvous import joined
from tunewright_trial.supervisor import preloads
from tunewright_trial.training import Training

Parts = list[tuple[int, int, int]]
"""Dimension, number of parts, and which of them a rank has; in order."""
Gradients = dict[str, tuple[Parts, torch.Tensor]]
CPU = torch.device("cpu")
NEGLIGIBLE = 1e-4


def step_once(request: TrialRequest, rank: int, folder: Path) -> None:
    """Train one step as one rank and leave its gradients."""
    # A forked process remakes torch's thread pool at first use, which aborts it when two threads of autograd use it at
    # once (ATen/ParallelOpenMP.cpp: "Invalid thread pool!"): so once here, as a trial's ranks do.
    torch.set_num_threads(1)
    config = request.config
    if config.optimizer != "fsdp2":
        config = config.model_copy(update={"optimizer": "replicated"})
        request = request.model_copy(update={"config": config})
    place = Place(rank, request.processes_per_node, 0, 1, str(folder / "meeting"), 120.0)
    with joined(place, CPU):
        training = Training.prepare(request, Layout.of(config, request.problem.model, place.world), rank, CPU)
        training.step(0)
        found: Gradients = {}
        for indexed, value in training.chunks.named_parameters():
            name = indexed.partition(".")[2]  # without the number of the chunk
            assert value.grad is not None, name
            gradient = value.grad.full_tensor() if hasattr(value.grad, "full_tensor") else value.grad.clone()
            placement = placement_of(value)
            parts = [(part, split.size, split.rank) for part, split in placement.parts if split.communicates]
            found[placement.name or name] = (parts, gradient)
        torch.save(found, folder / f"rank-{rank}")


def run_rank(request: TrialRequest, rank: int, folder: Path) -> int:
    """Fork one rank and return its process."""
    process = os.fork()
    if process:
        return process
    code = 1
    try:
        step_once(request, rank, folder)
        code = 0
    except BaseException:
        traceback.print_exc()
    os._exit(code)


def gradients_of(request: TrialRequest) -> list[Gradients]:
    """Return the gradients of every rank after one step."""
    world = request.processes_per_node
    with tempfile.TemporaryDirectory() as folder:
        ranks = [run_rank(request, rank, Path(folder)) for rank in range(world)]
        statuses = [os.waitpid(process, 0)[1] for process in ranks]
        assert not any(statuses), statuses
        return [torch.load(Path(folder) / f"rank-{rank}") for rank in range(world)]


def largest_difference(found: list[Gradients], reference: Gradients) -> float:
    """Return the largest difference of a value, relative to the largest of its parameter; all must be there.

    A bias of keys has no gradient: all scores of a query shift alike, and softmax takes shifts out. What is left are
    rounding errors, which are measured against the model's other gradients.
    """
    assert set().union(*found) == set(reference)
    worst, least = 0.0, NEGLIGIBLE * max(float(gradient.abs().max()) for _, gradient in reference.values())
    for name, (parts, gradient) in (item for rank in found for item in rank.items()):
        whole = reference[name][1]
        for dimension, count, index in parts:
            whole = whole.chunk(count, dimension)[index]
        assert whole.shape == gradient.shape, name
        worst = max(worst, float((gradient - whole).abs().max() / whole.abs().max().clamp(min=least)))
    return worst


def main() -> None:
    """Compare the layouts that the command line names."""
    torch.set_num_threads(1)
    for module in {name for request in LAYOUTS.values() for name in preloads(request)}:
        importlib.import_module(module)  # once here instead of in every rank
    references: dict[str, Gradients] = {}
    for name in sys.argv[1:]:
        model = name.split(":")[0]
        if model not in references:
            (references[model],) = gradients_of(REFERENCES[model])
        found = largest_difference(gradients_of(LAYOUTS[name]), references[model])
        print(f"{name} = {found:.3g}", flush=True)


if __name__ == "__main__":
    main()
