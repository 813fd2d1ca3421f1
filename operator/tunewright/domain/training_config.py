"""One point of the search space: how a model is split, scheduled and computed.

The field names are the glossary's (the CRD uses them in camelCase). `ConfigBatch` holds many of them as arrays;
`axes` says how people name and range them.
"""

import re
from typing import Literal, get_args

from pydantic import Field, field_validator, model_validator

from tunewright.domain.model_architecture import ModelArchitecture
from tunewright.domain.value import Value

RecomputeGranularity = Literal["none", "selective", "full"]
RecomputeMethod = Literal["uniform", "block"]
RecomputeModule = Literal["core_attn", "mlp", "moe", "moe_act", "layernorm", "mla_up_proj", "shared_experts"]
MoeDispatcher = Literal["all-to-all", "deepep"]
PipelineSchedule = Literal[
    "1f1b", "interleaved-1f1b", "zero-bubble-h1", "zero-bubble-h2", "zero-bubble-v", "v-half", "v-min"
]
Precision = Literal["bf16", "fp8", "mxfp8", "fp32"]
Optimizer = Literal["distributed", "replicated", "fsdp2"]

RECOMPUTE_GRANULARITIES: tuple[RecomputeGranularity, ...] = get_args(RecomputeGranularity)
RECOMPUTE_METHODS: tuple[RecomputeMethod, ...] = get_args(RecomputeMethod)
RECOMPUTE_MODULES: tuple[RecomputeModule, ...] = get_args(RecomputeModule)
MOE_DISPATCHERS: tuple[MoeDispatcher, ...] = get_args(MoeDispatcher)
PIPELINE_SCHEDULES: tuple[PipelineSchedule, ...] = get_args(PipelineSchedule)
PRECISIONS: tuple[Precision, ...] = get_args(Precision)
OPTIMIZERS: tuple[Optimizer, ...] = get_args(Optimizer)

ZERO_BUBBLE_SCHEDULES = frozenset({"zero-bubble-h1", "zero-bubble-h2", "zero-bubble-v", "v-half", "v-min"})
V_SHAPED_SCHEDULES = frozenset({"zero-bubble-v", "v-half", "v-min"})

EVEN_LAYOUT = "even"
SHORTER_EDGES_LAYOUT = "shorter-edges"
_EXPLICIT_LAYOUT = re.compile(r"^[0-9]{1,6}(,[0-9]{1,6})*$")


MOST_RANKS = 2**22
"""Ranks of the largest cluster (16,384 nodes of 256): no group can have more."""


class TrainingConfig(Value):
    """One candidate. Degrees are counts of ranks; derived degrees need the world size, so `Problem` has them."""

    tensor_parallel_size: int = Field(1, ge=1, le=4096, description="Ranks that share each layer's matrices.")
    pipeline_parallel_size: int = Field(1, ge=1, le=MOST_RANKS, description="Pipeline ranks.")
    virtual_pipeline_parallel_size: int = Field(1, ge=1, le=256, description="Model chunks per pipeline rank.")
    context_parallel_size: int = Field(1, ge=1, le=MOST_RANKS, description="Ranks that split a sequence.")
    expert_parallel_size: int = Field(1, ge=1, le=MOST_RANKS, description="Ranks that split the experts.")
    expert_tensor_parallel_size: int = Field(1, ge=1, le=4096, description="Tensor ranks inside an expert.")
    micro_batch_size: int = Field(1, ge=1, le=65536, description="Sequences per rank and forward pass.")
    recompute_granularity: RecomputeGranularity = Field("none", description="What the backward pass computes again.")
    recompute_modules: tuple[RecomputeModule, ...] = Field((), description="What `selective` drops; sorted.")
    recompute_method: RecomputeMethod = Field("uniform", description="How `full` picks layers.")
    recompute_num_layers: int = Field(1, ge=1, le=4096, description="Layers per unit (uniform) or per chunk (block).")
    moe_dispatcher: MoeDispatcher = Field("all-to-all", description="How tokens reach their experts.")
    pipeline_schedule: PipelineSchedule = Field("1f1b", description="Order of passes in the pipeline.")
    pipeline_layout: str = Field(
        EVEN_LAYOUT, max_length=512, description="`even`, `shorter-edges`, or layers per pipeline rank: `7,7,7,6`."
    )
    precision: Precision = Field("bf16", description="Number format of the large products.")
    optimizer: Optimizer = Field(
        "distributed", description="What data ranks share: optimizer states, nothing, or everything."
    )
    overlap_grad_reduce: bool = Field(True, description="Reduce gradients during the backward pass.")
    overlap_param_gather: bool = Field(True, description="Gather parameters during the forward pass.")
    cross_entropy_fusion: bool = Field(True, description="Compute the loss in one kernel.")
    sync_free_stage: int = Field(
        0, ge=0, le=3, description="Primus: how much of MoE runs without waiting for the host."
    )

    @field_validator("recompute_modules")
    @classmethod
    def _sorted_modules(cls, modules: tuple[RecomputeModule, ...]) -> tuple[RecomputeModule, ...]:
        return tuple(sorted(set(modules)))

    @field_validator("pipeline_layout")
    @classmethod
    def _known_layout(cls, layout: str) -> str:
        if layout in (EVEN_LAYOUT, SHORTER_EDGES_LAYOUT) or _EXPLICIT_LAYOUT.fullmatch(layout):
            return layout
        raise ValueError(f"use {EVEN_LAYOUT}, {SHORTER_EDGES_LAYOUT} or a list of layers per rank such as 7,7,7,6")

    @model_validator(mode="after")
    def _modules_only_when_selective(self) -> "TrainingConfig":
        if self.recompute_modules and self.recompute_granularity != "selective":
            raise ValueError("recomputeModules needs recomputeGranularity: selective")
        return self

    @property
    def sequence_parallel(self) -> bool:
        """Norm and dropout activations are split over the tensor group whenever there is one."""
        return self.tensor_parallel_size > 1


def default_recompute_modules(model: ModelArchitecture) -> tuple[RecomputeModule, ...]:
    """Return the modules whose recomputation pays under flash attention for this model, sorted.

    `core_attn` alone frees only the log-sum-exp. Dense layers gain from `mlp`; MoE layers from the expert
    activation and the unfused norms; MLA from its up projections.
    """
    modules: set[RecomputeModule] = set()
    if model.num_dense_layers:
        modules.add("mlp")
    if model.is_moe:
        modules |= {"moe_act", "layernorm"}
    if model.latent_attention is not None:
        modules.add("mla_up_proj")
    return tuple(sorted(modules))
