"""Primus: a configuration as an experiment YAML for `primus-cli … train pretrain`, and back.

Key names are those of AMD-AGI/Primus (`modules.pre_trainer.overrides`, image v26.5). What its base configuration
switches off (distributed optimizer, overlap, all-gather dispatch) is always written, or it would win.
"""

import re
from typing import Any

import yaml

from tunewright.backends.megatron import edge_layers, layout_cells, stage_layers
from tunewright.backends.primus_model import BASE, model_keys
from tunewright.domain.problem import TuningProblem
from tunewright.domain.training_config import EVEN_LAYOUT, TrainingConfig
from tunewright.errors import InvalidInput

# Our schedule names to Primus's `pp_algorithm`; its own runner is switched on for all but Megatron's two.
ALGORITHMS = {
    "1f1b": "1f1b",
    "interleaved-1f1b": "1f1b-interleaved",
    "zero-bubble-h1": "zero-bubble",
    "zero-bubble-h2": "zero-bubble-heuristic",
    "zero-bubble-v": "zbv-formatted",
    "v-half": "v-half",
    "v-min": "v-min",
}
_MEGATRON_RUNS = frozenset({"1f1b", "interleaved-1f1b"})
_DEGREES = {
    "tensor_model_parallel_size": "tensor_parallel_size",
    "pipeline_model_parallel_size": "pipeline_parallel_size",
    "context_parallel_size": "context_parallel_size",
    "expert_model_parallel_size": "expert_parallel_size",
    "expert_tensor_parallel_size": "expert_tensor_parallel_size",
    "micro_batch_size": "micro_batch_size",
}
_RUN: dict[str, Any] = {
    "train_iters": 50,
    "log_avg_skip_iterations": 2,
    "use_rocm_mem_info": True,  # else the fullest rank's memory is refreshed at the first two iterations alone
    "mock_data": True,
    "train_data_path": None,
    "valid_data_path": None,
    "test_data_path": None,
    "auto_continue_train": False,
    "load": None,
    "save": None,
    "disable_last_saving": True,
}
"""A run of some iterations that reads and leaves nothing: what a benchmark needs, to be replaced for real training."""
TUNED_KEYS = frozenset(
    {
        *_DEGREES,
        "sequence_parallel",
        "pp_algorithm",
        "patch_primus_pipeline",
        "num_virtual_stages_per_pipeline_rank",
        "virtual_pipeline_model_parallel_size",
        "num_layers_per_virtual_pipeline_stage",
        "pp_max_mem",
        "decoder_first_pipeline_num_layers",
        "decoder_last_pipeline_num_layers",
        "pipeline_model_parallel_layout",
        "recompute_granularity",
        "recompute_method",
        "recompute_num_layers",
        "recompute_modules",
        "bf16",
        "fp8",
        "fp8_recipe",
        "use_distributed_optimizer",
        "use_torch_fsdp2",
        "overlap_grad_reduce",
        "overlap_param_gather",
        "cross_entropy_loss_fusion",
        "cross_entropy_fusion_impl",
        "moe_token_dispatcher_type",
        "use_turbo_deepep",
        "turbo_sync_free_moe_stage",
        "turbo_deepep_num_cu",
    }
)
"""Keys that say how a job is split and computed: what a configuration leaves out of them must not stay behind."""
_VARIABLE = re.compile(r"\$\{[A-Za-z0-9_]{1,64}:([^{}\n]{0,200})\}")
_PATH = "modules.pre_trainer.overrides"
_VIRTUAL = "num_virtual_stages_per_pipeline_rank"


def overrides(problem: TuningProblem, config: TrainingConfig) -> dict[str, Any]:
    """Return the override mapping of one configuration."""
    return {
        **model_keys(problem.model, problem.sequence_length),
        **_RUN,
        "seq_length": problem.sequence_length,
        "global_batch_size": problem.global_batch_size,
        **tuned_keys(problem, config),
    }


def tuned_keys(problem: TuningProblem, config: TrainingConfig) -> dict[str, Any]:
    """Return the override keys that the configuration decides, without those of model, data and run."""
    return {
        **{key: getattr(config, field) for key, field in _DEGREES.items()},
        "sequence_parallel": config.sequence_parallel,
        **_schedule(config),
        **_layout(problem, config),
        **_recomputation(config),
        **_precision(config),
        **_optimizer(config),
        **_experts(problem, config),
    }


def render(problem: TuningProblem, config: TrainingConfig) -> str:
    """Return the experiment as YAML text. It stands alone: the model's shape is written out, data are mock data."""
    document = {
        "work_group": "tunewright",
        "user_name": "tunewright",
        "exp_name": f"{problem.model.name}-{config.digest()[:8]}",
        "workspace": "./output",
        "modules": {
            "pre_trainer": {
                "framework": "megatron",
                "config": "pre_trainer.yaml",
                "model": BASE,
                "overrides": overrides(problem, config),
            }
        },
    }
    return yaml.safe_dump(document, sort_keys=False)


def _schedule(config: TrainingConfig) -> dict[str, Any]:
    own_runner = config.pipeline_schedule not in _MEGATRON_RUNS
    keys: dict[str, Any] = {
        "pp_algorithm": ALGORITHMS[config.pipeline_schedule],
        "patch_primus_pipeline": own_runner,
    }
    if config.virtual_pipeline_parallel_size > 1:
        keys[_VIRTUAL] = config.virtual_pipeline_parallel_size
    if config.pipeline_schedule == "zero-bubble-h2":
        keys["pp_max_mem"] = 2 * config.pipeline_parallel_size - 1  # unset, it would hold every micro batch
    if own_runner:
        keys |= {
            "create_attention_mask_in_dataloader": False,
            "gradient_accumulation_fusion": True,
            "no_persist_layer_norm": True,
            "eval_iters": 0,
        }
    return keys


def _layout(problem: TuningProblem, config: TrainingConfig) -> dict[str, Any]:
    if config.pipeline_layout == EVEN_LAYOUT:
        return {}
    edges = edge_layers(problem, config)
    if edges is not None:
        return {"decoder_first_pipeline_num_layers": edges[0], "decoder_last_pipeline_num_layers": edges[1]}
    # cells in the model's order: Primus reads those of V schedules down the ranks and up again
    return {"pipeline_model_parallel_layout": layout_cells(stage_layers(problem, config))}


def _recomputation(config: TrainingConfig) -> dict[str, Any]:
    if config.recompute_granularity == "full":
        return {
            "recompute_granularity": "full",
            "recompute_method": config.recompute_method,
            "recompute_num_layers": config.recompute_num_layers,
        }
    if config.recompute_granularity == "selective":
        return {"recompute_granularity": "selective", "recompute_modules": list(config.recompute_modules)}
    return {"recompute_granularity": None}


def _precision(config: TrainingConfig) -> dict[str, Any]:
    if config.precision == "fp8":
        return {"bf16": True, "fp8": "hybrid", "fp8_recipe": "tensorwise"}
    if config.precision == "mxfp8":
        return {"bf16": True, "fp8": "e4m3", "fp8_recipe": "mxfp8"}
    return {"bf16": config.precision == "bf16", "fp8": None}


def _optimizer(config: TrainingConfig) -> dict[str, Any]:
    return {
        "use_distributed_optimizer": config.optimizer == "distributed",
        "use_torch_fsdp2": config.optimizer == "fsdp2",
        **({"gradient_accumulation_fusion": False} if config.optimizer == "fsdp2" else {}),
        "overlap_grad_reduce": config.overlap_grad_reduce,
        "overlap_param_gather": config.overlap_param_gather,
        "cross_entropy_loss_fusion": config.cross_entropy_fusion,
        **({"cross_entropy_fusion_impl": "te"} if config.cross_entropy_fusion else {}),
    }


def _experts(problem: TuningProblem, config: TrainingConfig) -> dict[str, Any]:
    if not problem.model.is_moe:
        return {}
    keys: dict[str, Any] = {"moe_token_dispatcher_type": "alltoall"}
    deepep = config.moe_dispatcher == "deepep"
    turbo = deepep or config.sync_free_stage > 0
    keys |= {"enable_primus_turbo": turbo, "use_turbo_deepep": deepep}
    keys["turbo_sync_free_moe_stage"] = config.sync_free_stage
    if deepep:
        keys |= {"turbo_deepep_num_cu": 32, "moe_router_dtype": "fp32", "moe_shared_expert_overlap": False}
    if config.sync_free_stage >= 2:
        keys["use_turbo_grouped_gemm"] = True
    return keys


def parse(text: str) -> TrainingConfig:
    """Read the configuration out of an experiment YAML; raise `InvalidInput` naming the key that is wrong."""
    return parse_keys(override_keys(text))


def parse_keys(keys: dict[str, Any]) -> TrainingConfig:
    """Read the configuration out of override keys."""
    names = {ours: theirs for theirs, ours in _DEGREES.items()}
    algorithms = {theirs: ours for ours, theirs in ALGORITHMS.items()}
    precision = "bf16" if keys.get("bf16") else "fp32"
    if keys.get("fp8"):
        precision = "mxfp8" if keys.get("fp8_recipe") == "mxfp8" else "fp8"
    algorithm = keys.get("pp_algorithm") or ("1f1b-interleaved" if keys.get(_VIRTUAL, 1) != 1 else "1f1b")
    granularity = keys.get("recompute_granularity") or "none"
    optimizer = "distributed" if keys.get("use_distributed_optimizer") else "replicated"
    return TrainingConfig.parse(
        {
            **{ours: keys.get(theirs, 1) for ours, theirs in names.items()},
            "virtual_pipeline_parallel_size": keys.get(_VIRTUAL, 1),
            "pipeline_schedule": algorithms.get(algorithm, algorithm),
            "recompute_granularity": granularity,
            "recompute_modules": tuple(keys.get("recompute_modules", ())),
            "recompute_method": keys.get("recompute_method", "uniform"),
            "recompute_num_layers": keys.get("recompute_num_layers", 1),
            "precision": precision,
            "optimizer": "fsdp2" if keys.get("use_torch_fsdp2") else optimizer,
            "overlap_grad_reduce": keys.get("overlap_grad_reduce", False),
            "overlap_param_gather": keys.get("overlap_param_gather", False),
            "cross_entropy_fusion": keys.get("cross_entropy_loss_fusion", False),
            "moe_dispatcher": "deepep" if keys.get("use_turbo_deepep") else "all-to-all",
            "sync_free_stage": keys.get("turbo_sync_free_moe_stage", 0),
        },
        _PATH,
    )


def override_keys(text: str) -> dict[str, Any]:
    """Return the overrides of an experiment as Primus reads them, with the defaults of its `${NAME:default}` texts."""
    return {str(key): _without_variable(value) for key, value in _override_mapping(text).items()}


def _without_variable(value: object) -> object:
    found = _VARIABLE.fullmatch(value) if isinstance(value, str) else None
    return yaml.safe_load(found[1]) if found else value


def _override_mapping(text: str) -> dict[str, Any]:
    try:
        keys = yaml.safe_load(text)["modules"]["pre_trainer"]["overrides"]
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        remedy = f"is not YAML: {' '.join(str(error).split())}: give a Primus experiment YAML"
        raise InvalidInput.of("experiment", text[:60], remedy) from None
    except (KeyError, TypeError):
        raise InvalidInput.of(
            "modules.pre_trainer.overrides", None, "is missing: give a Primus experiment YAML"
        ) from None
    if not isinstance(keys, dict):
        raise InvalidInput.of(_PATH, keys, "must be a mapping")
    return keys
