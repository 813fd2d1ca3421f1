"""Megatron-core's own argument checks agree with what our rules accept. Runs where megatron-core is installed.

It is no dependency of this project: `pip install --no-deps megatron-core` beside torch is enough.
"""

import warnings
from typing import Any

import pytest
from hypothesis import given, settings

from tests.property.test_rendered_arguments import Arguments, legal_points, one, read
from tunewright.backends import megatron
from tunewright.domain.problem import TuningProblem
from tunewright.domain.training_config import TrainingConfig

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    configs = pytest.importorskip("megatron.core.transformer.transformer_config")
    layouts = pytest.importorskip("megatron.core.transformer.pipeline_parallel_layer_layout")

_COUNTS = {
    "--num-layers": "num_layers",
    "--hidden-size": "hidden_size",
    "--ffn-hidden-size": "ffn_hidden_size",
    "--num-attention-heads": "num_attention_heads",
    "--num-query-groups": "num_query_groups",
    "--tensor-model-parallel-size": "tensor_model_parallel_size",
    "--pipeline-model-parallel-size": "pipeline_model_parallel_size",
    "--context-parallel-size": "context_parallel_size",
    "--expert-model-parallel-size": "expert_model_parallel_size",
    "--expert-tensor-parallel-size": "expert_tensor_parallel_size",
    "--num-experts": "num_moe_experts",
    "--moe-router-topk": "moe_router_topk",
    "--moe-ffn-hidden-size": "moe_ffn_hidden_size",
    "--moe-shared-expert-intermediate-size": "moe_shared_expert_intermediate_size",
    "--decoder-first-pipeline-num-layers": "num_layers_in_first_pipeline_stage",
    "--decoder-last-pipeline-num-layers": "num_layers_in_last_pipeline_stage",
    "--recompute-num-layers": "recompute_num_layers",
    "--q-lora-rank": "q_lora_rank",
    "--kv-lora-rank": "kv_lora_rank",
    "--qk-head-dim": "qk_head_dim",
    "--qk-pos-emb-head-dim": "qk_pos_emb_head_dim",
    "--v-head-dim": "v_head_dim",
}
_WORDS = {
    "--recompute-granularity": "recompute_granularity",
    "--recompute-method": "recompute_method",
    "--moe-token-dispatcher-type": "moe_token_dispatcher_type",
    "--moe-router-dtype": "moe_router_dtype",
}
_SWITCHES = {
    "--sequence-parallel": "sequence_parallel",
    "--moe-enable-deepep": "moe_enable_deepep",
    "--moe-grouped-gemm": "moe_grouped_gemm",
    "--multi-latent-attention": "multi_latent_attention",
    "--bf16": "bf16",
}


def fields_of(arguments: Arguments) -> dict[str, Any]:
    """The configuration that Megatron's argument parser would make."""
    fields: dict[str, Any] = {field: one(arguments, flag) for flag, field in _COUNTS.items() if flag in arguments}
    fields |= {field: arguments[flag][0] for flag, field in _WORDS.items() if flag in arguments}
    fields |= {field: True for flag, field in _SWITCHES.items() if flag in arguments}
    if "--recompute-modules" in arguments:
        fields["recompute_modules"] = list(arguments["--recompute-modules"])
    chunks = one(arguments, "--num-virtual-stages-per-pipeline-rank")
    fields["virtual_pipeline_model_parallel_size"] = chunks if chunks > 1 else None
    fields["pipeline_dtype"] = configs.torch.bfloat16
    fields["add_bias_linear"] = "--disable-bias-linear" not in arguments
    return fields


@settings(max_examples=100)
@given(legal_points("megatron"))
def test_megatron_core_takes_what_our_rules_accept(point: tuple[TuningProblem, TrainingConfig]) -> None:
    arguments = read(megatron.render(*point))
    fields = fields_of(arguments)
    make = configs.MLATransformerConfig if "multi_latent_attention" in fields else configs.TransformerConfig
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = make(**fields)
    assert made.num_layers == point[0].model.num_layers
    layout = arguments.get("--pipeline-model-parallel-layout")
    if layout:
        parsed = layouts.PipelineParallelLayerLayout.from_str(
            layout[0], one(arguments, "--pipeline-model-parallel-size")
        )
        parsed.validate_layer_layout(num_layers=made.num_layers, mtp_num_layers=None)
