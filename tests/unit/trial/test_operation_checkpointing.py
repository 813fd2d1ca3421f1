"""torchtitan's `selective`, run by the program's own layers: what is kept, and that nothing else changes."""

from contextlib import nullcontext

import pytest
import torch

from tests.unit.trial.requests import DENSE, LATENT, MOE, make_request
from tunewright.domain.config_batch import ConfigBatch
from tunewright.domain.degrees import Degrees
from tunewright.domain.model_architecture import ModelArchitecture
from tunewright.memory import activations_torchtitan
from tunewright.memory.saved_bytes import total
from tunewright.trial_protocol.request import TrialRequest
from tunewright_trial.layers.parameters import initialise
from tunewright_trial.layers.transformer_layer import TransformerLayer
from tunewright_trial.profile import profile_context
from tunewright_trial.profile_layers import profile_layer, random_hidden


def torchtitans_selective(model: ModelArchitecture) -> TrialRequest:
    request = make_request(model=model, recompute_granularity="selective", optimizer="fsdp2")
    return request.model_copy(update={"problem": request.problem.model_copy(update={"backend": "torchtitan"})})


def test_torchtitans_selective_keeps_what_the_memory_model_says() -> None:
    request = torchtitans_selective(DENSE)
    batch = ConfigBatch.of([request.config])
    modelled = activations_torchtitan.saved_bytes(request.problem, batch, Degrees.of(request.problem, batch)).dense
    found = profile_layer(profile_context(request, torch.device("cpu")), "dense", (1, 2), 1)
    assert found.saved_bytes == total(modelled, "kept")[0] < total(modelled, "whole")[0]


@pytest.mark.parametrize("model", [DENSE, MOE, LATENT], ids=["dense", "moe", "latent"])
def test_torchtitans_selective_changes_no_gradient(model: ModelArchitecture) -> None:
    context = profile_context(torchtitans_selective(model), torch.device("cpu"))
    layer = TransformerLayer(context, "moe" if model.is_moe else "dense", 1)
    initialise([layer], 0)
    found = []
    for suspend in (True, False):
        hidden = random_hidden(context)
        with context.recompute.suspended() if suspend else nullcontext():
            result = context.recompute.run_layers([layer], hidden)
        found.append(torch.autograd.grad(result.square().sum(), [hidden, *layer.parameters()]))
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))
