"""A real profile on an accelerator, when there is one: layer times against the roofline, memory against the model.

Run alone with `make gpu-check`; never needed for green.
"""

import asyncio
import os
from pathlib import Path

import pytest

from tunewright.adapters.trials.local import LocalTrials
from tunewright.domain.catalog_loader import shipped_catalog
from tunewright.domain.config_batch import ConfigBatch
from tunewright.domain.degrees import Degrees
from tunewright.domain.hardware import Accelerator, Cluster
from tunewright.domain.problem import TuningProblem
from tunewright.domain.training_config import Precision, TrainingConfig
from tunewright.memory.activations_torch import saved_bytes
from tunewright.memory.saved_bytes import total
from tunewright.performance.compute import analytic_layer_times
from tunewright.ports import TrialObservation
from tunewright.trial_protocol.identity import TrialIdentity
from tunewright.trial_protocol.request import ExpectedDevice, TrialRequest

pytestmark = pytest.mark.gpu


def preset_of_this_machine() -> Accelerator:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no CUDA or ROCm device")
    name = torch.cuda.get_device_name(0).lower()
    catalog = shipped_catalog()
    found = [preset for preset in catalog.accelerators if preset.split("-")[0] in name.replace(" ", "")]
    if not found:
        pytest.skip(f"no preset for {name}")
    return catalog.accelerator(found[-1])


async def profiled(request: TrialRequest, folder: Path) -> TrialObservation:
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


def problem_of_this_machine(accelerator: Accelerator) -> TuningProblem:
    return TuningProblem(
        model=shipped_catalog().model("llama-3-8b"),
        sequence_length=4096,
        global_batch_size=8,
        backend="builtin",
        implementation="torch",
        cluster=Cluster(
            nodes=1,
            gpus_per_node=1,
            accelerator=accelerator,
            network=shipped_catalog().default_network_for(accelerator.name),
        ),
    )


def request_of(problem: TuningProblem, config: TrainingConfig) -> TrialRequest:
    accelerator = problem.cluster.accelerator
    identity = TrialIdentity.of(f"gpu-{os.getpid()}", "t0001", 1, "profile", config)
    device = ExpectedDevice(preset=accelerator.name, vendor=accelerator.vendor, count=1)
    return TrialRequest(identity=identity, problem=problem, config=config, device=device)


@pytest.mark.parametrize("precision", ["bf16", "fp8"])
async def test_a_profile_of_llama_3_8b_layers(
    precision: Precision, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    problem = problem_of_this_machine(preset_of_this_machine())
    config = TrainingConfig(precision=precision)
    batch = ConfigBatch.of([config])
    seen = await profiled(request_of(problem, config), tmp_path)
    assert seen.report is not None, seen.message
    assert seen.report.profile is not None, seen.message
    profile, layer = seen.report.profile, seen.report.profile.dense_layer
    assert layer is not None
    roofline = analytic_layer_times(problem, batch)
    kept = total(saved_bytes(problem, batch, Degrees.of(problem, batch)).dense, "kept")[0]
    with capsys.disabled():
        print(f"\n{seen.report.device}")
        print(
            f"{precision} forward {layer.forward.seconds * 1e3:.3f} ms, model {roofline.dense_forward[0] * 1e3:.3f} ms"
        )
        print(f"input gradient {layer.backward_input.seconds * 1e3:.3f} ms", end=", ")
        print(f"model {roofline.dense_backward_input[0] * 1e3:.3f} ms")
        print(f"saved bytes {profile.saved_bytes_per_layer['dense']}, model {kept:.0f}")
        print(f"peak {profile.phase_peak_bytes}, time spent {profile.spent_seconds} s")
    assert layer.forward.seconds > 0
    assert profile.saved_bytes_per_layer["dense"] == pytest.approx(kept, rel=0.1)
    assert seen.report.wall_seconds < 60
