"""What `make gpu-check` does on a device: a real profile beside the roofline and the memory model.

Called by `test_device` where there is an accelerator, and by a unit test on the CPU, so that it works when one comes.
"""

import asyncio
import os
from pathlib import Path

import pytest

from tunewright.adapters.trials.local import LocalTrials
from tunewright.domain.config_batch import ConfigBatch
from tunewright.domain.degrees import Degrees
from tunewright.domain.problem import TuningProblem
from tunewright.domain.training_config import TrainingConfig
from tunewright.memory.activations_torch import saved_bytes
from tunewright.memory.saved_bytes import total
from tunewright.performance.compute import analytic_layer_times
from tunewright.ports import TrialObservation
from tunewright.trial_protocol.identity import TrialIdentity
from tunewright.trial_protocol.request import ExpectedDevice, TrialRequest


async def profiled(request: TrialRequest, folder: Path) -> TrialObservation:
    """Run one local trial to its end."""
    trials = LocalTrials(folder)
    await trials.start(request)
    try:
        while True:
            (seen,) = await trials.observe()
            if seen.state == "finished":
                return seen
            await asyncio.sleep(0.2)
    finally:
        await trials.close()


def request_of(problem: TuningProblem, config: TrainingConfig) -> TrialRequest:
    """Ask for a profile on one device of the problem's kind."""
    accelerator = problem.cluster.accelerator
    identity = TrialIdentity.of(f"gpu-{os.getpid()}", "t0001", 1, "profile", config)
    device = ExpectedDevice(preset=accelerator.name, vendor=accelerator.vendor, count=1)
    return TrialRequest(identity=identity, problem=problem, config=config, device=device)


async def check_profile(problem: TuningProblem, config: TrainingConfig, folder: Path) -> tuple[float, list[str]]:
    """Profile a dense candidate; return how long it took and the figures beside the models', for people.

    Its times must be there and its kept bytes those of the memory model.
    """
    batch = ConfigBatch.of([config])
    seen = await profiled(request_of(problem, config), folder)
    assert seen.report is not None, seen.message
    assert seen.report.profile is not None, seen.message
    profile, layer = seen.report.profile, seen.report.profile.dense_layer
    assert layer is not None
    assert layer.forward.seconds > 0
    kept = total(saved_bytes(problem, batch, Degrees.of(problem, batch)).dense, "kept")[0]
    assert profile.saved_bytes_per_layer["dense"] == pytest.approx(kept, rel=0.1)
    roofline = analytic_layer_times(problem, batch)
    forward, inputs = roofline.dense_forward[0] * 1e3, roofline.dense_backward_input[0] * 1e3
    return seen.report.wall_seconds, [
        str(seen.report.device),
        f"{config.precision} forward {layer.forward.seconds * 1e3:.3f} ms, model {forward:.3f} ms",
        f"input gradient {layer.backward_input.seconds * 1e3:.3f} ms, model {inputs:.3f} ms",
        f"saved bytes {profile.saved_bytes_per_layer['dense']}, model {kept:.0f}",
        f"peak {profile.phase_peak_bytes}, time spent {profile.spent_seconds} s",
    ]
