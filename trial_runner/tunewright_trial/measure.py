"""kind=measure: trains for some steps and reports the slowest rank's times. Called by `rank` on every rank."""

import math
import sys

import torch
import torch.distributed as dist

from tunewright.trial_protocol.report import Measured
from tunewright.trial_protocol.request import TrialRequest
from tunewright_trial.failures import TrialFailure
from tunewright_trial.parallel.layout import Layout
from tunewright_trial.peak_memory import PeakMemory
from tunewright_trial.place import Place
from tunewright_trial.progress import Progress
from tunewright_trial.rendezvous import joined
from tunewright_trial.timing import synchronize, time_call
from tunewright_trial.training import Training


def measure(request: TrialRequest, place: Place, device: torch.device) -> Measured:
    """Run the job on all ranks; the result is the same on each of them."""
    layout, progress = Layout.of(request.config, request.problem.model, place.world), Progress(place)
    progress.enter("rendezvous")
    with joined(place, device):
        memory = PeakMemory(device)
        progress.enter("preparation")
        training = Training.prepare(request, layout, place.rank, device)
        results = []
        for number in range(request.warmup_steps + request.steps):
            progress.enter(f"step {number}")
            results.append(_step(training, number, place))
        seconds = [step_seconds for step_seconds, _ in results[request.warmup_steps :]]
        peaks = _stage_peaks(layout, place.rank, memory.bytes, device)
    return Measured(
        step_seconds=tuple(float(f"{one:.6g}") for one in seconds[-64:]),
        tokens_per_step=request.problem.tokens_per_step,
        world_size=place.world,
        nodes=place.nodes,
        peak_memory_bytes=max(peaks),
        first_loss=results[0][1],
        last_loss=results[-1][1],
        losses=tuple(float(f"{loss:.7g}") for _, loss in results[:64]),
        stage_peak_bytes=tuple(peaks[:64]),
    )


def _stage_peaks(layout: Layout, rank: int, own_peak: int, device: torch.device) -> list[int]:
    """Return the highest peak of each pipeline stage's ranks."""
    peaks = [0.0] * layout.pipeline
    peaks[rank // layout.stage_ranks] = float(own_peak)
    _say(f"rank {rank} peak memory {own_peak} bytes")
    return [int(peak) for peak in _highest(peaks, device)]


def _step(training: Training, number: int, place: Place) -> tuple[float, float]:
    """Train one step; return the slowest rank's seconds and the loss of the whole batch."""
    dist.barrier()
    synchronize(training.device)
    seconds, (loss, squares) = time_call(training.device, lambda: training.step(number))
    slowest = _highest([seconds], training.device)[0]
    loss, squares = _summed([loss, squares], training.device)
    loss /= training.layout.stage_ranks
    if place.rank == 0:
        line = f"step {number} loss {loss:.7f} gradient norm {math.sqrt(squares):.7f} seconds {slowest:.6f}"
        _say(line)
    if not math.isfinite(loss):
        raise TrialFailure("NaNLoss", f"the loss of step {number} is {loss}")
    return slowest, loss


def _say(line: str) -> None:
    """Write one line to the log in one piece: all ranks write there."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def _highest(values: list[float], device: torch.device) -> list[float]:
    return _all_reduced(values, device, dist.ReduceOp.MAX)


def _summed(values: list[float], device: torch.device) -> list[float]:
    return _all_reduced(values, device, dist.ReduceOp.SUM)


def _all_reduced(values: list[float], device: torch.device, operation: object) -> list[float]:
    tensor = torch.tensor(values, dtype=torch.float64, device=device)
    dist.all_reduce(tensor, operation)
    reduced: list[float] = tensor.tolist()
    return reduced
