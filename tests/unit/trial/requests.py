"""Small trial requests for the tests of the trial program and of its adapters."""

from typing import Any

from tunewright.domain.hardware import Accelerator, Cluster, Network
from tunewright.domain.model_architecture import MixtureOfExperts, ModelArchitecture, MultiLatentAttention
from tunewright.domain.problem import TuningProblem
from tunewright.domain.training_config import TrainingConfig
from tunewright.trial_protocol.identity import TrialIdentity, TrialKind
from tunewright.trial_protocol.request import ExpectedDevice, TrialRequest

CPU = Accelerator(
    name="cpu",
    vendor="cpu",
    compute_units=1,
    peak_flops_per_second={"fp32": 1e11, "bf16": 1e11},
    matmul_efficiency=1.0,
    hbm_capacity_bytes=2**33,
    hbm_bytes_per_second=1e10,
    scale_up_bytes_per_second=1e9,
)
DENSE = ModelArchitecture(
    name="tiny",
    num_layers=4,
    hidden_size=32,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=8,
    ffn_hidden_size=64,
    vocabulary_size=256,
)
MOE = DENSE.model_copy(
    update={
        "experts": MixtureOfExperts(
            num_experts=4,
            experts_per_token=2,
            expert_ffn_hidden_size=32,
            shared_expert_ffn_hidden_size=16,
            shared_expert_gate=True,
            num_leading_dense_layers=1,
        )
    }
)
LATENT = DENSE.model_copy(
    update={
        "latent_attention": MultiLatentAttention(
            query_rank=16, key_value_rank=8, unrotated_head_dim=8, rotated_head_dim=4, value_head_dim=8
        )
    }
)
WIDE = DENSE.model_copy(update={"vocabulary_size": 512})
"""The vocabulary is padded to 128·T rows, which is a whole number of times 128 for T up to 4 here."""
NORMED = WIDE.model_copy(update={"query_key_norm": "per-layer"})
UNUSUAL = DENSE.model_copy(
    update={
        "gated_mlp": False,
        "tied_embeddings": True,
        "attention_input_bias": True,
        "attention_output_bias": True,
        "mlp_bias": True,
        "query_key_norm": "per-head",
        "normalization": "layernorm",
        "norms_per_layer": 4,
        "learned_position_embeddings": 32,
        "sliding_window": 8,
        "sliding_window_every": 2,
    }
)
"""Every switch of a dense model in its less common position."""


def make_request(
    kind: TrialKind = "profile",
    model: ModelArchitecture = DENSE,
    world: int = 1,
    request: dict[str, Any] | None = None,
    **config: object,
) -> TrialRequest:
    """Build a request for a tiny job of `world` CPU ranks on one node."""
    candidate = TrainingConfig.parse({"precision": "fp32", **config})
    network = Network(name="loopback", bytes_per_second_per_gpu=1e9)
    problem = TuningProblem(
        model=model,
        sequence_length=32,
        global_batch_size=8,
        precision=candidate.precision,
        backend="builtin",
        implementation="torch",
        cluster=Cluster(nodes=1, gpus_per_node=world, accelerator=CPU, network=network),
    )
    requested = (request or {}).get("config", candidate)
    identity = TrialIdentity.of("run-1", "t0001", 1, kind, requested)
    fields: dict[str, Any] = {
        "identity": identity,
        "problem": problem,
        "config": candidate,
        "device": ExpectedDevice(preset="cpu", vendor="cpu", count=world),
        "processes_per_node": world,
        "warmup_steps": 0,
        "steps": 2,
        "deadline_seconds": 300,
    }
    return TrialRequest(**(fields | (request or {})))
