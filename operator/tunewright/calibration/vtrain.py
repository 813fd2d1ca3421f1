"""Rows in vTrain's two layouts: A100 iteration times of dense GPTs under Megatron-DeepSpeed (arXiv 2312.12391).

Called by `reading`. The study's validation runs recompute every layer; its tables do not say so.
"""

from tunewright.calibration.columns import Row, integer, number
from tunewright.calibration.layout import balanced_layout
from tunewright.calibration.measured_row import MeasuredRow, Unusable
from tunewright.domain.catalog_loader import Catalog
from tunewright.domain.hardware import Cluster
from tunewright.domain.model_architecture import ModelArchitecture
from tunewright.domain.problem import TuningProblem
from tunewright.domain.training_config import TrainingConfig
from tunewright.errors import InvalidInput
from tunewright.performance.software import Software

_VOCABULARY = 51200
"""GPT-2's 50,257, padded."""
_DEVICE, _NETWORK = "a100-80gb", "infiniband-4x200g"
_NOTES = (
    "full recomputation, as the study's validation configurations",
    "attention before FlashAttention, replicated optimizer, no overlap",
)


def vtrain_row(row: Row, catalog: Catalog, index: int) -> MeasuredRow:
    """Turn row number `index` into a measurement; raises `Unusable` with a reason for people."""
    model = _model(row)
    gpus = integer(row, "# GPUs")
    problem = TuningProblem(
        model=model,
        sequence_length=integer(row, "sequence length"),
        global_batch_size=integer(row, "global batch"),
        backend="megatron",
        cluster=_cluster(gpus, catalog),
    )
    milliseconds = number(row, "iteration time (ms)")
    if not milliseconds:
        raise Unusable("iteration time (ms) is not stated")
    return MeasuredRow(
        identity=f"vtrain-{index:04d}",
        device="A100-80GB",
        model=model.name,
        precision="fp16",
        schedule="1f1b",
        source="vtrain-single-node" if gpus <= 8 else "vtrain-multi-node",
        group=(model.name, problem.sequence_length, gpus, problem.global_batch_size),
        problem=problem,
        config=_config(row, problem),
        software=Software(
            flash_attention=False,
            sequence_parallel=False,
            overlaps_tensor=False,
            overlaps_pipeline=False,
            gradient_bytes=2.0,
        ),
        step_seconds=milliseconds / 1e3,
        memory_bytes=None,
        memory_kind="",
        notes=_NOTES,
    )


def _model(row: Row) -> ModelArchitecture:
    layers, hidden, heads = integer(row, "# layers"), integer(row, "hidden size"), integer(row, "attention heads")
    if not heads or hidden % heads:
        raise Unusable(f"hidden size {hidden} is not a multiple of the attention heads {heads}")
    return ModelArchitecture(
        name=f"gpt-{layers}l-{hidden}h",
        num_layers=layers,
        hidden_size=hidden,
        num_attention_heads=heads,
        num_key_value_heads=heads,
        head_dim=hidden // heads,
        ffn_hidden_size=4 * hidden,
        vocabulary_size=_VOCABULARY,
        gated_mlp=False,
        tied_embeddings=True,
        normalization="layernorm",
        learned_position_embeddings=integer(row, "sequence length"),
    )


def _cluster(gpus: int, catalog: Catalog) -> Cluster:
    per_node = min(gpus, 8)
    if not gpus or gpus % per_node:
        raise Unusable(f"# GPUs {gpus} is not a multiple of 8")
    return Cluster(
        nodes=gpus // per_node,
        gpus_per_node=per_node,
        accelerator=catalog.accelerator(_DEVICE),
        network=catalog.network(_NETWORK),
    )


def _config(row: Row, problem: TuningProblem) -> TrainingConfig:
    tensor, pipeline = integer(row, "tensor parallelism"), integer(row, "pipeline parallelism")
    data, micro = integer(row, "data parallelism"), integer(row, "micro batch")
    if tensor * pipeline * data != problem.world_size:
        raise Unusable(f"tensor·data·pipeline {tensor * pipeline * data} is not # GPUs {problem.world_size}")
    if not micro or problem.global_batch_size % (micro * data):
        raise Unusable(f"global batch {problem.global_batch_size} is not a multiple of {micro * data}")
    try:
        return TrainingConfig(
            tensor_parallel_size=tensor,
            pipeline_parallel_size=pipeline,
            micro_batch_size=micro,
            recompute_granularity="full",
            optimizer="replicated",
            overlap_grad_reduce=False,
            overlap_param_gather=False,
            cross_entropy_fusion=True,
            pipeline_layout=balanced_layout(problem.model.num_layers, 0, pipeline, 1),
        )
    except InvalidInput as error:
        raise Unusable(str(error)) from None
