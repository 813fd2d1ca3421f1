"""`init`: from what people train with to a TuningRun that is accepted, and back."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.builders import a_problem, mixtral_problem
from tests.unit.backends.test_round_trip import CONFIGS
from tests.unit.cli.test_bad_input import tunewright
from tunewright.adapters.kube.acceptance import accept
from tunewright.backends import megatron, primus
from tunewright.backends.megatron_model import model_arguments
from tunewright.backends.model_reader import (
    architecture_of_arguments,
    architecture_of_keys,
    arguments_as_keys,
    known_model,
)
from tunewright.backends.primus_model import model_keys
from tunewright.cli.init import Options, new_run
from tunewright.domain.catalog_loader import shipped_catalog
from tunewright.domain.model_architecture import ModelArchitecture
from tunewright.errors import InvalidInput

CATALOG = shipped_catalog()
MODELS = sorted(CATALOG.models)
UNSAID = {"norms_per_layer": 2, "experts.router_bias": False, "experts.shared_expert_gate": False}
"""Fields that no launcher is told, and what they read back as."""
LLAMA = {
    "model_type": "llama",
    "hidden_size": 512,
    "num_attention_heads": 8,
    "num_hidden_layers": 4,
    "intermediate_size": 1024,
    "vocab_size": 1000,
}


def said(model: ModelArchitecture) -> dict[str, Any]:
    """What launchers are told of a model."""
    fields = {key: value for key, value in model.model_dump().items() if key not in UNSAID}
    experts = fields.get("experts")
    if experts:
        fields["experts"] = {key: value for key, value in experts.items() if f"experts.{key}" not in UNSAID}
    return fields


def sequence_of(model: ModelArchitecture) -> int:
    return model.learned_position_embeddings or 4096


@pytest.mark.parametrize("name", MODELS)
def test_a_models_primus_keys_read_back_as_its_shape(name: str) -> None:
    model = CATALOG.model(name)
    read = architecture_of_keys(model_keys(model, sequence_of(model)), name)
    assert said(read) == said(model)
    assert known_model(CATALOG, read) == name


@pytest.mark.parametrize("name", MODELS)
def test_a_models_megatron_arguments_read_back_as_its_shape(name: str) -> None:
    model = CATALOG.model(name)
    text = " ".join(" ".join(f"'{word}'" for word in words) for words in model_arguments(model, sequence_of(model)))
    assert said(architecture_of_arguments(arguments_as_keys(text), name)) == said(model)


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS.keys())
@pytest.mark.parametrize("launcher", ["primus", "megatron"])
def test_an_export_becomes_a_run_with_the_same_problem_and_baseline(tmp_path: Path, config: Any, launcher: str) -> None:
    problem = mixtral_problem().model_copy(update={"precision": config.precision})
    file = tmp_path / "launch"
    file.write_text({"primus": primus, "megatron": megatron}[launcher].render(problem, config))
    given: dict[str, Any] = {launcher: file, "nodes": problem.cluster.nodes}
    document = yaml.safe_load(new_run(Options(**given), CATALOG)[0])
    assert document["spec"]["workload"] == {
        "model": {"preset": "mixtral-8x22b"},
        "sequenceLength": problem.sequence_length,
        "globalBatchSize": problem.global_batch_size,
        "precision": config.precision,
        "backend": launcher,
    }
    baseline = document["spec"]["baseline"]
    assert {**config.to_json(), **baseline} == config.to_json()
    assert baseline["tensorParallelSize"] == config.tensor_parallel_size


def test_the_written_run_is_accepted() -> None:
    text, notes = new_run(Options(model="llama-3-8b", nodes=1, sequence_length=4096, global_batch_size=64), CATALOG)
    assert notes == []
    accepted = accept(yaml.safe_load(text), CATALOG)
    assert accepted.space.counts.fitting > 0


def test_a_config_json_becomes_a_shape_in_place(tmp_path: Path) -> None:
    file = tmp_path / "our-model.json"
    file.write_text(json.dumps(LLAMA))
    text, notes = new_run(Options(model_config=file), CATALOG)
    document = yaml.safe_load(text)
    shape = document["spec"]["workload"]["model"]["architecture"]
    assert (shape["name"], shape["numLayers"], shape["headDim"]) == ("our-model", 4, 64)
    assert document["metadata"]["name"] == "our-model"
    assert [note.split()[0] for note in notes] == [
        "spec.cluster.nodes",
        "spec.workload.sequenceLength",
        "spec.workload.globalBatchSize",
    ]
    assert all(f"# Guessed, to be set: {note.partition(' is a guess')[0]}." in text for note in notes)


def test_a_file_from_windows_is_read(tmp_path: Path) -> None:
    file = tmp_path / "our-model.json"
    file.write_bytes(b"\xef\xbb\xbf" + json.dumps(LLAMA, indent=2).replace("\n", "\r\n").encode())
    assert "numLayers: 4" in new_run(Options(model_config=file), CATALOG)[0]


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("70b-model", "run-70b-model"),
        ("Our_Model.v2", "our-model-v2"),
        ("___", "model"),
        ("a-name-that-is-longer-than-forty-letters-0123456789", "a-name-that-is-longer-than-forty-letters"),
    ],
)
def test_any_models_name_makes_the_name_of_a_run(tmp_path: Path, folder: str, name: str) -> None:
    file = tmp_path / folder / "config.json"
    file.parent.mkdir()
    file.write_text(json.dumps(LLAMA))
    document = yaml.safe_load(new_run(Options(model_config=file), CATALOG)[0])
    assert document["metadata"]["name"] == name
    assert accept(document, CATALOG).document.metadata.name == name


@pytest.mark.parametrize(("model", "nodes"), [("llama-3-8b", 1), ("deepseek-v3", 8)])
def test_the_fewest_nodes_that_hold_the_model_are_guessed(model: str, nodes: int) -> None:
    """AdamW in mixed precision keeps 16 to 18 bytes a parameter: 671 B of them fill five nodes of 2.3 TB, less room."""
    document = yaml.safe_load(new_run(Options(model=model), CATALOG)[0])
    assert document["spec"]["cluster"]["nodes"] == nodes
    assert accept(document, CATALOG).space.counts.fitting > 0


def test_a_launch_script_with_continued_lines_is_read(tmp_path: Path) -> None:
    file = tmp_path / "launch.sh"
    words = " ".join(f"'{word}'" for part in model_arguments(CATALOG.model("llama-3-8b"), 4096) for word in part)
    file.write_text(f"torchrun pretrain_gpt.py \\\n  {words} \\\r\n  --pipeline-model-parallel-size 2 \\\n  --bf16\n")
    document = yaml.safe_load(new_run(Options(megatron=file), CATALOG)[0])
    assert document["spec"]["baseline"]["pipelineParallelSize"] == 2


def test_variables_of_an_experiment_count_with_their_defaults(tmp_path: Path) -> None:
    keys = {**model_keys(CATALOG.model("llama-3-8b"), 8192), "seq_length": "${SEQ:8192}", "global_batch_size": 128}
    keys |= {"pipeline_model_parallel_size": "${PP:4}", "num_virtual_stages_per_pipeline_rank": 2, "bf16": True}
    file = tmp_path / "exp.yaml"
    file.write_text(yaml.safe_dump({"modules": {"pre_trainer": {"overrides": keys}}}))
    document = yaml.safe_load(new_run(Options(primus=file), CATALOG)[0])
    assert document["spec"]["workload"]["sequenceLength"] == 8192
    assert document["spec"]["baseline"]["pipelineParallelSize"] == 4
    assert document["spec"]["baseline"]["pipelineSchedule"] == "interleaved-1f1b"
    assert document["spec"]["workload"]["model"] == {"preset": "llama-3-8b"}


def test_a_layout_that_is_not_carried_over_is_told(tmp_path: Path) -> None:
    keys = {**model_keys(CATALOG.model("llama-3-8b"), 8192), "seq_length": 8192, "global_batch_size": 128}
    file = tmp_path / "exp.yaml"
    keys |= {"pipeline_model_parallel_layout": "Ett|tL"}
    file.write_text(yaml.safe_dump({"modules": {"pre_trainer": {"overrides": keys}}}))
    notes = new_run(Options(primus=file, nodes=1), CATALOG)[1]
    assert notes == ["pipeline_model_parallel_layout is not carried over: set baseline.pipelineLayout"]


PLAIN = primus.render(a_problem(), CONFIGS["plain"])
BAD = {
    "nothing": ({}, ["init", "nothing to start from", "--from-primus"]),
    "no YAML": ({"primus": "a: ["}, ["'a: ['", "is not YAML", "give a Primus experiment YAML"]),
    "tabs": ({"primus": "modules:\n\tpre_trainer: {}"}, ["is not YAML", "line 2", "give a Primus experiment YAML"]),
    "another YAML": ({"primus": "a: 1"}, ["modules.pre_trainer.overrides", "is missing"]),
    "no shape": ({"primus": "modules: {pre_trainer: {overrides: {a: 1}}}"}, ["num_layers", "--model PRESET"]),
    "an odd degree": (
        {"primus": PLAIN.replace("tensor_model_parallel_size: 1", "tensor_model_parallel_size: two")},
        ["tensorParallelSize", "two"],
    ),
    "an odd width": ({"primus": PLAIN.replace("hidden_size:", "hidden_size: wide #")}, ["wide"]),
    "a list of layers": (
        {"primus": PLAIN.replace("num_experts: null", "num_experts: 8\n      moe_layer_freq: [0, 1]")},
        ["moe_layer_freq", "[0, 1]"],
    ),
    "no arguments": ({"megatron": "hello"}, ["--from-megatron", "holds no --argument"]),
    "an open quote": ({"megatron": "--a 'b"}, ["arguments", "cannot be read"]),
    "two sources": ({"megatron": "--a 1", "primus": PLAIN}, ["--from-megatron", "give one"]),
    "no JSON": ({"model_config": "nope"}, ["--model-config", "is not JSON", "line 1 column 1"]),
    "a JSON key twice": ({"model_config": '{"model_type": "llama", "model_type": "gpt2"}'}, ["model_type", "twice"]),
    "no type": ({"model_config": '{"hidden_size": 8}'}, ["model_type: None: is required", "model.architecture"]),
    "a model with images": (
        {"model_config": '{"model_type": "mistral3", "text_config": {"model_type": "mistral"}}'},
        ["mistral3", "give its text_config, a mistral"],
    ),
    "an odd language model": (
        {"model_config": '{"model_type": "gemma3", "text_config": {"model_type": [1]}}'},
        ["gemma3", "not supported"],
    ),
    "heads that do not divide": (
        {"model_config": json.dumps(LLAMA | {"num_key_value_heads": 3})},
        ["--model-config: ", "numKeyValueHeads 3 must divide numAttentionHeads 8"],
    ),
    "a JSON list": ({"model_config": "[]"}, ["--model-config", "is no JSON object"]),
    "another architecture": ({"model_config": '{"model_type": "bert"}'}, ["model_type", "bert", "not supported"]),
}


@pytest.mark.parametrize(("files", "expected"), BAD.values(), ids=BAD.keys())
def test_a_bad_source_is_told_with_field_value_and_remedy(
    tmp_path: Path, files: dict[str, str], expected: list[str]
) -> None:
    given: dict[str, Any] = {}
    for option, text in files.items():
        given[option] = tmp_path / option
        given[option].write_text(text)
    with pytest.raises(InvalidInput) as error:
        new_run(Options(**given), CATALOG)
    assert all(words in str(error.value) for words in expected), str(error.value)


def test_init_writes_a_file_that_check_accepts_and_bad_input_exits_with_two(tmp_path: Path) -> None:
    out = tmp_path / "run.yaml"
    done = tunewright("init", "--model", "llama-3-8b", "--nodes", "1", "-o", str(out))
    assert done.returncode == 0, done.stderr
    assert f"next: tunewright check {out}" in done.stderr.replace("\n", " ")
    checked = tunewright("check", str(out))
    assert checked.returncode == 0, checked.stderr
    out.write_text("# mine\n")
    again = tunewright("init", "--model", "llama-3-8b", "--nodes", "1", "-o", str(out))
    assert (again.returncode, out.read_text()) == (2, "# mine\n"), "what a person may have edited stays"
    assert "is there already: remove it, or name another file" in again.stderr
    named = tunewright("init", "--model", "llama-3-8b", "--name", "3x")
    assert (named.returncode, named.stdout) == (2, "")
    assert named.stderr.startswith("error: --name: '3x': must be at most 40 lower-case letters, digits and dashes")
    bad = tunewright("init", "--model", "lama-3-8b")
    assert bad.returncode == 2
    assert "lama-3-8b" in bad.stderr and "llama-3-8b" in bad.stderr
