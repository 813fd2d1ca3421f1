"""Every accepted configuration renders to launch arguments whose arithmetic holds, recomputed from the text alone.

The checks below read the rendered text with a parser of their own and use whole numbers only: nothing of the rules, of
the batch arithmetic or of the layout code.
"""

import shlex
from functools import lru_cache

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.property.test_legality import CONFIGS
from tests.unit.legality.problems import a_problem
from tunewright.backends import megatron, primus
from tunewright.domain.config_batch import ConfigBatch
from tunewright.domain.problem import Backend, TuningProblem
from tunewright.domain.training_config import TrainingConfig
from tunewright.legality import judge
from tunewright.search.enumeration import enumerate_space

Arguments = dict[str, list[str]]

CASES: tuple[tuple[str, int, int, int], ...] = (
    ("tiny-moe", 1, 48, 1024),
    ("llama-3-8b", 2, 96, 4096),
    ("llama-3-405b", 16, 256, 8192),
    ("mixtral-8x22b", 4, 256, 4096),
    ("deepseek-v2-lite", 2, 64, 4096),
    ("deepseek-v3", 4, 512, 4096),
    ("gpt-oss-20b", 1, 64, 4096),
)
WIDE: dict[str, tuple[str | int | bool, ...]] = {
    "context_parallel_size": (1, 2, 4),
    "expert_tensor_parallel_size": (1, 2),
    "precision": ("bf16", "fp8"),
    "optimizer": ("distributed", "replicated", "fsdp2"),
}


@lru_cache(maxsize=32)
def accepted(case: int, backend: Backend) -> tuple[TuningProblem, ConfigBatch]:
    """A problem and everything that is legal in a wide space of it."""
    model, nodes, batch, sequence = CASES[case]
    problem = a_problem(model, nodes=nodes, batch=batch, sequence=sequence, backend=backend)
    return problem, enumerate_space(problem, WIDE)


@st.composite
def legal_points(draw: st.DrawFn, backend: Backend) -> tuple[TuningProblem, TrainingConfig]:
    problem, batch = accepted(draw(st.integers(0, len(CASES) - 1)), backend)
    return problem, batch.config(draw(st.integers(0, len(batch) - 1)))


def read(text: str) -> Arguments:
    found: Arguments = {}
    name = ""
    for word in shlex.split(text, comments=True):
        if word.startswith("--"):
            name = word
            found[name] = []
        else:
            found[name].append(word)
    return found


def one(arguments: Arguments, name: str, default: int = 1) -> int:
    return int(arguments[name][0]) if name in arguments else default


def layers_of_cells(layout: str) -> list[int]:
    """Layers of each cell; embedding and loss must stand at the ends, once each."""
    cells = layout.split("|")
    assert cells[0].startswith("E")
    assert cells[-1].endswith("L")
    assert layout.count("E") == layout.count("L") == 1
    assert set(layout) <= set("EtL|")
    return [cell.count("t") for cell in cells]


def check_layers(layers: int, ranks: int, chunks: int, edges: tuple[int, int] | None, layout: str | None) -> None:
    """Megatron's three ways to say how many layers a stage has; the last two exclude each other."""
    assert edges is None or layout is None
    if layout is not None:
        cells = layers_of_cells(layout)
        assert len(cells) == ranks * chunks
        assert sum(cells) == layers
        assert all(cells[1:-1])
    elif edges is not None:
        assert ranks > 1
        middle = layers - sum(edges)
        assert min(edges) > 0
        assert not [edge for edge in edges if edge % chunks]
        assert middle == 0 if ranks == 2 else middle % ((ranks - 2) * chunks) == 0 < middle
    else:
        assert layers % (ranks * chunks) == 0


def check_groups(problem: TuningProblem, degrees: dict[str, int]) -> int:
    """Check the groups and return the number of micro batches."""
    world = problem.cluster.nodes * problem.cluster.gpus_per_node
    model, tensor, ring = problem.model, degrees["tensor"], degrees["context"]
    assert world % (tensor * ring * degrees["pipeline"]) == 0
    data = world // (tensor * ring * degrees["pipeline"])
    assert world % (degrees["expert"] * degrees["expert_tensor"] * degrees["pipeline"]) == 0
    assert degrees["batch"] % (degrees["micro"] * data) == 0
    assert problem.cluster.gpus_per_node % tensor == 0
    assert model.num_attention_heads % tensor == 0
    if model.latent_attention is None:
        assert model.num_key_value_heads % tensor == 0 or tensor % model.num_key_value_heads == 0
    assert degrees["sequence"] % (2 * ring if ring > 1 else 1) == 0
    assert degrees["sequence"] // ring % tensor == 0
    if model.experts is not None:
        assert model.experts.num_experts % degrees["expert"] == 0
        assert model.experts.expert_ffn_hidden_size % degrees["expert_tensor"] == 0
    else:
        assert degrees["expert"] == degrees["expert_tensor"] == 1
    return degrees["batch"] // (degrees["micro"] * data)


@settings(max_examples=150)
@given(legal_points("megatron"))
def test_megatron_arguments_hold_their_arithmetic(point: tuple[TuningProblem, TrainingConfig]) -> None:
    problem, config = point
    arguments = read(megatron.render(problem, config))
    ranks, chunks = (
        one(arguments, "--pipeline-model-parallel-size"),
        one(arguments, "--num-virtual-stages-per-pipeline-rank"),
    )
    degrees = {
        "tensor": one(arguments, "--tensor-model-parallel-size"),
        "pipeline": ranks,
        "context": one(arguments, "--context-parallel-size"),
        "expert": one(arguments, "--expert-model-parallel-size"),
        "expert_tensor": one(arguments, "--expert-tensor-parallel-size"),
        "micro": one(arguments, "--micro-batch-size"),
        "batch": one(arguments, "--global-batch-size"),
        "sequence": one(arguments, "--seq-length"),
    }
    micro_batches = check_groups(problem, degrees)
    first, last = "--decoder-first-pipeline-num-layers", "--decoder-last-pipeline-num-layers"
    edges = (one(arguments, first), one(arguments, last)) if first in arguments else None
    layout = arguments.get("--pipeline-model-parallel-layout", [None])[0]
    check_layers(one(arguments, "--num-layers"), ranks, chunks, edges, layout)
    if chunks > 1:
        assert ranks > 1
        assert micro_batches % ranks == 0
    assert ("--sequence-parallel" in arguments) == (degrees["tensor"] > 1)
    if "--num-experts" in arguments:
        assert "--expert-tensor-parallel-size" in arguments, "unset, Megatron takes the tensor parallel size"
    check_switches(arguments)


def check_switches(arguments: Arguments) -> None:
    """What Megatron's argument checks refuse together."""
    granularity = arguments.get("--recompute-granularity", [""])[0]
    assert ("--recompute-method" in arguments) == ("--recompute-num-layers" in arguments) == (granularity == "full")
    assert bool(arguments.get("--recompute-modules")) == (granularity == "selective")
    sharded, fully = "--use-distributed-optimizer" in arguments, "--use-torch-fsdp2" in arguments
    assert not (sharded and fully)
    if "--overlap-param-gather" in arguments:
        assert sharded
        assert "--overlap-grad-reduce" in arguments
    if fully:
        assert one(arguments, "--pipeline-model-parallel-size") == one(arguments, "--expert-model-parallel-size") == 1
        assert "--untie-embeddings-and-output-weights" in arguments
        assert "--no-gradient-accumulation-fusion" in arguments
    if "--moe-enable-deepep" in arguments:
        assert arguments["--moe-token-dispatcher-type"] == ["flex"]
        assert arguments["--moe-router-dtype"] == ["fp32"]
        assert one(arguments, "--expert-model-parallel-size") * one(arguments, "--expert-tensor-parallel-size") > 1


@settings(max_examples=150)
@given(legal_points("primus"))
def test_primus_overrides_hold_their_arithmetic(point: tuple[TuningProblem, TrainingConfig]) -> None:
    problem, config = point
    keys = yaml.safe_load(primus.render(problem, config))["modules"]["pre_trainer"]["overrides"]
    ranks, chunks = keys["pipeline_model_parallel_size"], keys.get("num_virtual_stages_per_pipeline_rank", 1)
    micro_batches = check_groups(
        problem,
        {
            "tensor": keys["tensor_model_parallel_size"],
            "pipeline": ranks,
            "context": keys["context_parallel_size"],
            "expert": keys["expert_model_parallel_size"],
            "expert_tensor": keys["expert_tensor_parallel_size"],
            "micro": keys["micro_batch_size"],
            "batch": keys["global_batch_size"],
            "sequence": keys["seq_length"],
        },
    )
    first, last = "decoder_first_pipeline_num_layers", "decoder_last_pipeline_num_layers"
    edges = (keys[first], keys[last]) if first in keys else None
    check_layers(problem.model.num_layers, ranks, chunks, edges, keys.get("pipeline_model_parallel_layout"))
    algorithm = keys["pp_algorithm"]
    assert chunks == 2 if algorithm in ("zbv-formatted", "v-half", "v-min") else True
    if algorithm == "1f1b-interleaved":
        assert micro_batches % ranks == 0
    if algorithm == "zbv-formatted":
        assert micro_batches >= 2 * ranks - 1
    if keys["patch_primus_pipeline"]:
        assert not (keys["overlap_grad_reduce"] or keys["overlap_param_gather"])
        assert keys["recompute_granularity"] is None
        assert not keys["create_attention_mask_in_dataloader"]
        assert keys["gradient_accumulation_fusion"]
    assert not (keys["use_distributed_optimizer"] and keys["use_torch_fsdp2"])
    if keys["use_torch_fsdp2"]:
        assert ranks == keys["expert_model_parallel_size"] == 1
        assert keys["gradient_accumulation_fusion"] is False
    if keys.get("use_turbo_deepep"):
        assert keys["enable_primus_turbo"]
        assert keys["expert_model_parallel_size"] * keys["expert_tensor_parallel_size"] > 1
        assert keys["turbo_deepep_num_cu"] <= 32


@settings(max_examples=40)
@given(
    st.integers(0, len(CASES) - 1), st.sampled_from(("primus", "megatron")), st.lists(CONFIGS, min_size=1, max_size=30)
)
def test_what_is_accepted_outside_the_default_space_renders_too(
    case: int, backend: Backend, configs: list[TrainingConfig]
) -> None:
    problem, _ = accepted(case, backend)
    legal = judge(problem, ConfigBatch.of(configs)).legal
    render = primus.overrides if backend == "primus" else megatron.arguments
    for config, is_legal in zip(configs, legal, strict=True):
        if is_legal:
            assert render(problem, config)


def test_the_points_reach_uneven_layouts_every_schedule_and_every_optimizer() -> None:
    problem, batch = accepted(5, "primus")
    assert problem.model.num_layers == 61
    assert {"shorter-edges"} <= set(batch.layout_names)
    for field in ("pipeline_schedule", "recompute_granularity", "moe_dispatcher"):
        assert len(set(batch.columns[field].tolist())) >= 2
    optimizers = [set(accepted(case, "megatron")[1].columns["optimizer"].tolist()) for case in range(len(CASES))]
    assert set.union(*optimizers) == {0, 1, 2}
