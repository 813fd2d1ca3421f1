"""`tunewright init`: a TuningRun to start from, out of a Primus experiment, Megatron arguments or a config.json.

What the source says is taken over; what it cannot say, such as the number of nodes, is an option, and a comment in the
file where nobody gave it.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from tunewright.adapters.catalog import catalog_of
from tunewright.adapters.kube.acceptance import read_candidate
from tunewright.adapters.kube.baseline import checked_baseline
from tunewright.adapters.kube.spec.tuning_run import MAX_NAME_LENGTH, NAME_PATTERN
from tunewright.backends import megatron, primus
from tunewright.backends.model_reader import (
    architecture_of_arguments,
    architecture_of_keys,
    arguments_as_keys,
    known_model,
)
from tunewright.cli.console import messages, output
from tunewright.cli.outputs import write_new_text
from tunewright.cli.yaml_document import read_text
from tunewright.domain.axes import describe
from tunewright.domain.catalog_loader import Catalog
from tunewright.domain.huggingface import architecture_from_config
from tunewright.domain.model_architecture import ModelArchitecture
from tunewright.domain.training_config import TrainingConfig
from tunewright.errors import InvalidInput, Problem

_SEQUENCE, _BATCH_PER_GPU = 4096, 8
_MOST_DOUBLINGS = 12
"""Of nodes, until the model fits: 2,048 of them."""
_SOURCES = "--from-primus FILE, --from-megatron FILE, --model-config FILE or --model PRESET"
_NOT_CARRIED = (
    "decoder_first_pipeline_num_layers",
    "decoder_last_pipeline_num_layers",
    "pipeline_model_parallel_layout",
)
"""Keys of layouts that `parse` does not read: the run then begins with even layers."""


@dataclass(frozen=True)
class Options:
    """What the command line gave; empty and None where it gave nothing."""

    primus: Path | None = None
    megatron: Path | None = None
    model_config: Path | None = None
    model: str = ""
    accelerator: str = "mi355x"
    nodes: int | None = None
    gpus_per_node: int = 8
    sequence_length: int | None = None
    global_batch_size: int | None = None
    name: str = ""


@dataclass(frozen=True)
class Source:
    """A launch as keys, whose names are Megatron's; without one there are no keys and no configuration."""

    keys: Mapping[str, Any]
    config: TrainingConfig | None
    backend: str
    name: str


def run_init(options: Options, out: Path | None) -> None:
    """Write the TuningRun, to standard output without `out`."""
    text, notes = new_run(options, catalog_of(os.environ))
    if out is None:
        output.print(text, end="", soft_wrap=True, markup=False, highlight=False)
    else:
        write_new_text(out, text, "--out")
        messages.print(f"wrote {out}; next: tunewright check {out}", soft_wrap=True, markup=False)
    for note in notes:
        messages.print(f"note: {note}", soft_wrap=True, markup=False)


def new_run(options: Options, catalog: Catalog) -> tuple[str, list[str]]:
    """Return the file and what a person should know of it; raise `InvalidInput` with field, value and remedy."""
    source = _source(options)
    model = _model(options, source, catalog)
    document, guesses = _roomy_document(options, source, model, catalog)
    _, baseline = read_candidate(document, catalog)
    notes = [f"{guess} is a guess: set it to what you train with" for guess in guesses]
    notes += [f"{key} is not carried over: set baseline.pipelineLayout" for key in _NOT_CARRIED if source.keys.get(key)]
    head = f"# Made by tunewright init from {source.name}. Baseline: {describe(baseline)}.\n"
    marks = "".join(f"# Guessed, to be set: {guess}.\n" for guess in guesses)
    return head + marks + yaml.safe_dump(document, sort_keys=False, width=100), notes


def _source(options: Options) -> Source:
    if options.primus is not None and options.megatron is not None:
        raise InvalidInput.of("--from-megatron", str(options.megatron), "is given beside --from-primus: give one")
    if options.primus is not None:
        keys = primus.override_keys(read_text(options.primus, "--from-primus"))
        return Source(keys, primus.parse_keys(keys), "primus", options.primus.name)
    if options.megatron is not None:
        text = read_text(options.megatron, "--from-megatron")
        keys = arguments_as_keys(text)
        if not keys:
            raise InvalidInput.of("--from-megatron", str(options.megatron), "holds no --argument: give a launch line")
        return Source(keys, megatron.parse(text), "megatron", options.megatron.name)
    if options.model_config is None and not options.model:
        raise InvalidInput.of("init", None, f"has nothing to start from: give {_SOURCES}")
    return Source({}, None, "primus", options.model_config.name if options.model_config else options.model)


def _model(options: Options, source: Source, catalog: Catalog) -> ModelArchitecture:
    """Return the model that was named, or the one that the source describes."""
    if options.model:
        return catalog.model(options.model)
    if options.model_config is not None:
        return _from_huggingface(options.model_config)
    name = _name_of(source.name)
    try:
        if source.backend == "megatron":
            return architecture_of_arguments(source.keys, name)
        return architecture_of_keys(source.keys, name)
    except InvalidInput as error:
        remedy = "name the model: --model PRESET or --model-config FILE"
        raise InvalidInput([*error.problems, *InvalidInput.of("--model", "", remedy).problems]) from None


def _from_huggingface(path: Path) -> ModelArchitecture:
    folder = path.resolve().parent.name if path.stem == "config" else path.stem
    try:
        return architecture_from_config(read_text(path, "--model-config"), _name_of(folder))
    except InvalidInput as error:
        whole = Problem("--model-config", str(path), "")
        problems = [p if p.field else replace(whole, remedy=p.remedy) for p in error.problems]
        raise InvalidInput(problems) from None


def _roomy_document(
    options: Options, source: Source, model: ModelArchitecture, catalog: Catalog
) -> tuple[dict[str, Any], list[str]]:
    """Return the file and its guesses, with the fewest nodes (a power of two) that hold the model where nobody says."""
    first = _document(options, source, model, catalog)
    if options.nodes is not None or source.config is not None:
        return first
    for nodes in (2**power for power in range(_MOST_DOUBLINGS)):
        document, guesses = _document(options, source, model, catalog, nodes)
        if _has_room(document, catalog):
            return document, guesses
    return first


def _has_room(document: dict[str, Any], catalog: Catalog) -> bool:
    """Return whether the cluster is large enough; whatever else is wrong with a file, more nodes do not help."""
    try:
        checked_baseline(read_candidate(document, catalog)[0], {})
    except InvalidInput as error:
        return "spec.cluster" not in [problem.field for problem in error.problems]
    return True


def _document(
    options: Options, source: Source, model: ModelArchitecture, catalog: Catalog, nodes: int | None = None
) -> tuple[dict[str, Any], list[str]]:
    nodes = options.nodes or nodes or _least_nodes(source.config, options.gpus_per_node)
    sequence = options.sequence_length or source.keys.get("seq_length") or _usual_sequence(model)
    batch = (
        options.global_batch_size
        or source.keys.get("global_batch_size")
        or _BATCH_PER_GPU * nodes * options.gpus_per_node
    )
    guesses = [] if options.nodes else [f"spec.cluster.nodes {nodes}"]
    if not (options.sequence_length or source.keys.get("seq_length")):
        guesses.append(f"spec.workload.sequenceLength {sequence}")
    if not (options.global_batch_size or source.keys.get("global_batch_size")):
        guesses.append(f"spec.workload.globalBatchSize {batch}")
    spec: dict[str, Any] = {
        "workload": {
            "model": _model_reference(model, catalog),
            "sequenceLength": sequence,
            "globalBatchSize": batch,
            "precision": source.config.precision if source.config else "bf16",
            "backend": source.backend,
        },
        "cluster": {
            "nodes": nodes,
            "gpusPerNode": options.gpus_per_node,
            "accelerator": {"preset": options.accelerator},
        },
    }
    if source.config is not None:
        spec["baseline"] = _baseline(source.config)
    spec["budget"] = {"maxTrials": 30}
    name = _typed_name(options.name) or _kubernetes_name(known_model(catalog, model) or model.name)
    head = {"apiVersion": "tunewright.dev/v1alpha1", "kind": "TuningRun", "metadata": {"name": name}}
    return head | {"spec": spec}, guesses


def _model_reference(model: ModelArchitecture, catalog: Catalog) -> dict[str, Any]:
    known = known_model(catalog, model)
    return {"preset": known} if known else {"architecture": _shape(model)}


def _shape(model: ModelArchitecture) -> dict[str, Any]:
    return model.model_dump(mode="json", by_alias=True, exclude_defaults=True, exclude_none=True)


def _baseline(config: TrainingConfig) -> dict[str, Any]:
    """Return the degrees, and of the other fields those that are not the default; the precision is the workload's."""
    usual = TrainingConfig().to_json()
    always = ("tensorParallelSize", "pipelineParallelSize", "microBatchSize", "optimizer")
    fields = config.to_json()
    kept = {name: value for name, value in fields.items() if name in always or value != usual[name]}
    return {name: value for name, value in kept.items() if name != "precision"}


def _least_nodes(config: TrainingConfig | None, gpus_per_node: int) -> int:
    """Return the fewest nodes that hold one copy of the model as the configuration splits it."""
    if config is None:
        return 1
    expert = config.expert_parallel_size * config.expert_tensor_parallel_size
    dense = config.tensor_parallel_size * config.context_parallel_size
    ranks = config.pipeline_parallel_size * max(expert, dense)
    return -(-ranks // gpus_per_node)


def _usual_sequence(model: ModelArchitecture) -> int:
    return min(_SEQUENCE, model.learned_position_embeddings or _SEQUENCE)


def _name_of(text: str) -> str:
    """Turn a file's name into a model's: letters, digits, dots, dashes and underscores, 63 at most."""
    stem = re.sub(r"\.(ya?ml|json|args|txt|sh)$", "", text)
    return re.sub(r"[^A-Za-z0-9._-]+", "-", stem).strip("._-")[:63] or "model"


def _kubernetes_name(text: str) -> str:
    """Turn a model's name into a run's: letters, digits and dashes, a letter first."""
    name = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    return (name if name[:1].isalpha() else f"run-{name}")[:MAX_NAME_LENGTH].rstrip("-")


def _typed_name(name: str) -> str:
    if name and not re.fullmatch(NAME_PATTERN, name):
        remedy = f"must be at most {MAX_NAME_LENGTH} lower-case letters, digits and dashes, a letter first"
        raise InvalidInput.of("--name", name, remedy)
    return name
