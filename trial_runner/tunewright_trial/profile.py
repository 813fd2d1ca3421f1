"""kind=profile: times a rank's own work at the candidate's shapes, and the collectives of this node beside it.

Called by `rank` in every process of the node: all of them work at once, as they would in the job, so that what they
share (memory channels, power, cores) is in the figures. The first rank's figures are reported.
"""

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

from tunewright.trial_protocol.report import Profile
from tunewright.trial_protocol.request import TrialRequest
from tunewright_trial.failures import unsupported
from tunewright_trial.layers.context import LayerContext
from tunewright_trial.layers.split import Split
from tunewright_trial.layers.transformer_layer import LayerKind
from tunewright_trial.number_format import dtype_of, uses_eight_bit
from tunewright_trial.peak_memory import PeakMemory
from tunewright_trial.place import Place
from tunewright_trial.profile_collectives import (
    ParameterCounts,
    modelled_groups,
    time_collectives,
    updated_parameters,
)
from tunewright_trial.profile_edges import profile_embedding, profile_head
from tunewright_trial.profile_layers import profile_layer
from tunewright_trial.profile_overheads import launch_overhead_seconds, optimizer_seconds_per_parameter
from tunewright_trial.progress import Progress
from tunewright_trial.rendezvous import joined
from tunewright_trial.training import check_dispatcher, recompute_policy


def profile(request: TrialRequest, place: Place, device: torch.device) -> Profile:
    """Profile the candidate on this node."""
    check_dispatcher(request.config)
    context = profile_context(request, device)
    progress = Progress(place)
    if place.world == 1:
        return _profile(request, place, context, progress)
    progress.enter("rendezvous")
    with joined(place, device):
        return _profile(request, place, context, progress)


def profile_context(request: TrialRequest, device: torch.device) -> LayerContext:
    """Return the shapes of one rank, with splits that send nothing."""
    problem, config = request.problem, request.config
    if problem.sequence_length % config.context_parallel_size:
        raise unsupported(f"contextParallelSize {config.context_parallel_size} does not divide sequenceLength")
    return LayerContext(
        model=problem.model,
        sequence_length=problem.sequence_length,
        sequence_slice=problem.sequence_length // config.context_parallel_size,
        micro_batch_size=config.micro_batch_size,
        dtype=dtype_of(config.precision),
        device=device,
        eight_bit=uses_eight_bit(config.precision, device),
        tensor=Split(config.tensor_parallel_size),
        expert=Split(config.expert_parallel_size),
        expert_tensor=Split(config.expert_tensor_parallel_size),
        routing_imbalance=problem.routing_imbalance,
        recompute=recompute_policy(request),
    )


def _profile(request: TrialRequest, place: Place, context: LayerContext, progress: Progress) -> Profile:
    phases = Phases(context.device, progress)
    with phases.phase("layers"):
        layers = {kind: profile_layer(context, kind, request.depths, request.steps) for kind in layer_kinds(context)}
    with phases.phase("edges"):
        embedding, embedding_parameters = profile_embedding(context, request.steps)
        head, head_parameters = profile_head(context, request.steps)
    dense, moe = layers.get("dense"), layers.get("moe")
    counts = ParameterCounts.of(
        layers, embedding_parameters if context.model.tied_embeddings else embedding_parameters + head_parameters
    )
    with phases.phase("optimizer"):
        optimizer_seconds = optimizer_seconds_per_parameter(context, updated_parameters(request, counts), request.steps)
    with phases.phase("collectives"):
        collectives = time_collectives(request, place, context, counts)
    return Profile(
        dense_layer=dense and dense.timing,
        moe_layer=moe and moe.timing,
        embedding=embedding,
        head=head,
        optimizer_seconds_per_parameter=optimizer_seconds,
        collectives=collectives,
        contention=contention([layer.stretch for layer in layers.values()], place.processes_per_node),
        launch_overhead_seconds=launch_overhead_seconds(context.device),
        saved_bytes_per_layer={kind: layer.saved_bytes for kind, layer in layers.items()},
        peak_memory_bytes=max(phases.peak_bytes.values()),
        modelled_groups=modelled_groups(request, place),
        spent_seconds=phases.seconds,
        phase_peak_bytes=phases.peak_bytes,
    )


def contention(stretches: Sequence[float], processes: int) -> float:
    """Return how much of the layers' stretch is due to ranks that share cores: at most ranks over cores."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    shared = max(processes / cores, 1.0)
    return float(f"{max(1.0, min(shared, *stretches)):.4g}")


class Phases:
    """Where a profile's own time and memory go."""

    def __init__(self, device: torch.device, progress: Progress) -> None:
        self._progress = progress
        self.seconds: dict[str, float] = {}
        self.peak_bytes: dict[str, int] = {}
        self._memory = PeakMemory(device)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count the block as `name`."""
        self._progress.enter(name)
        self._memory.restart()
        start = time.perf_counter()
        yield
        self.seconds[name] = round(time.perf_counter() - start, 3)
        self.peak_bytes[name] = self._memory.bytes


def layer_kinds(context: LayerContext) -> tuple[LayerKind, ...]:
    """Return the kinds of layers that the model has."""
    kinds: list[LayerKind] = []
    if context.model.num_dense_layers:
        kinds.append("dense")
    if context.model.num_moe_layers:
        kinds.append("moe")
    return tuple(kinds)
