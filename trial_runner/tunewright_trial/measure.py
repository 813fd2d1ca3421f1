"""kind=measure: trains for some steps and reports the slowest rank's times. Called by `rank` on every rank."""

import math
import statistics
from typing import NamedTuple

import torch
import torch.distributed as dist

from tunewright.trial_protocol.early_stop import is_losing
from tunewright.trial_protocol.report import Measured
from tunewright.trial_protocol.request import TrialRequest
from tunewright_trial.diagnostics import of_this_rank
from tunewright_trial.failures import TrialFailure, listed
from tunewright_trial.log import say
from tunewright_trial.parallel.layout import Layout
from tunewright_trial.peak_memory import PeakMemory
from tunewright_trial.place import Place
from tunewright_trial.progress import Progress
from tunewright_trial.rendezvous import joined
from tunewright_trial.timing import synchronize, time_call
from tunewright_trial.training import Training


class Step(NamedTuple):
    """One training step: this rank's and the slowest rank's seconds, and the loss of the whole batch."""

    own_seconds: float
    slowest_seconds: float
    loss: float


def measure(request: TrialRequest, place: Place, device: torch.device) -> Measured:
    """Run the job on all ranks; the result is the same on each of them."""
    layout, progress = Layout.of(request.config, request.problem.model, place.world), Progress(place)
    progress.enter("rendezvous")
    with joined(place, device):
        memory = PeakMemory(device)
        progress.enter("preparation")
        training = Training.prepare(request, layout, place.rank, device)
        steps = _steps(training, progress, place)
        timed = steps[request.warmup_steps :]
        _tell(place.rank, statistics.median(step.own_seconds for step in timed), memory.bytes)
        peaks = _stage_peaks(layout, place.rank, memory.bytes, device)
        progress.enter("comparison")
        _check_replicas(training, place)
    return Measured(
        step_seconds=tuple(float(f"{step.slowest_seconds:.6g}") for step in timed[-64:]),
        tokens_per_step=request.problem.tokens_per_step,
        world_size=place.world,
        nodes=place.nodes,
        peak_memory_bytes=max(peaks),
        first_loss=steps[0].loss,
        last_loss=steps[-1].loss,
        losses=tuple(float(f"{step.loss:.7g}") for step in steps[:64]),
        stage_peak_bytes=tuple(peaks[:64]),
        stopped_early=len(timed) if len(timed) < request.steps else None,
    )


def _steps(training: Training, progress: Progress, place: Place) -> list[Step]:
    """Train until all steps are done, or until they clearly lose against what was measured before.

    All ranks stop at the same step: they judge the slowest rank's times, which a collective has made the same on each.
    """
    request = training.request
    steps: list[Step] = []
    for number in range(request.warmup_steps + request.steps):
        timed = [step.slowest_seconds for step in steps[request.warmup_steps :]]
        if is_losing(timed, request.cutoff_step_seconds):
            say(f"rank {place.rank} stops after {len(timed)} of {request.steps} timed steps: they clearly lose")
            break
        progress.enter(f"step {number}")
        steps.append(_step(training, number, place))
    return steps


def _stage_peaks(layout: Layout, rank: int, own_peak: int, device: torch.device) -> list[int]:
    """Return the highest peak of each pipeline stage's ranks."""
    peaks = [0.0] * layout.pipeline
    peaks[rank // layout.stage_ranks] = float(own_peak)
    return [int(peak) for peak in _highest(peaks, device)]


def _tell(rank: int, median_seconds: float, peak_bytes: int) -> None:
    """Leave the figures of every rank in the log: the report has the slowest rank's steps and the highest memory."""
    say(f"rank {rank} median step {median_seconds:.6f} seconds peak memory {peak_bytes} bytes")
    of_this_rank.add("rank", median_step_seconds=median_seconds, peak_bytes=peak_bytes)


def _step(training: Training, number: int, place: Place) -> Step:
    """Train one step and measure it."""
    dist.barrier()
    synchronize(training.device)
    seconds, (loss, squares) = time_call(training.device, lambda: training.step(number))
    slowest = _highest([seconds], training.device)[0]
    loss, squares = _summed([loss, squares], training.device)
    loss /= training.layout.stage_ranks
    of_this_rank.add("step", number=number, seconds=seconds, slowest_rank_seconds=slowest, loss=loss)
    if place.rank == 0:
        line = f"step {number} loss {loss:.7f} gradient norm {math.sqrt(squares):.7f} seconds {slowest:.6f}"
        say(line)
    if not math.isfinite(loss):
        raise TrialFailure("NaNLoss", f"the loss of step {number} is {loss}")
    return Step(seconds, slowest, loss)


def _check_replicas(training: Training, place: Place) -> None:
    """Raise on every rank when replicas of the weights are not the same bits after the last step."""
    found = training.deviating_ranks()
    marks = _highest([float(rank in found) for rank in range(place.world)], training.device)
    ranks = [str(rank) for rank, mark in enumerate(marks) if mark]
    if ranks:
        raise TrialFailure(
            "RcclFailure",
            f"ranks {listed(ranks)} hold other weights than their replicas after the last step: "
            "a collective or a device computes wrongly there",
        )


def _highest(values: list[float], device: torch.device) -> list[float]:
    return _all_reduced(values, device, dist.ReduceOp.MAX)


def _summed(values: list[float], device: torch.device) -> list[float]:
    return _all_reduced(values, device, dist.ReduceOp.SUM)


def _all_reduced(values: list[float], device: torch.device, operation: object) -> list[float]:
    tensor = torch.tensor(values, dtype=torch.float64, device=device)
    dist.all_reduce(tensor, operation)
    reduced: list[float] = tensor.tolist()
    return reduced
