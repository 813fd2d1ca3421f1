"""Reads a TuningRun file and accepts it, as the operator would. Used by every command that takes a FILE."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tunewright.adapters.catalog import catalog_of
from tunewright.adapters.kube.acceptance import Accepted, accept, read_candidate
from tunewright.adapters.kube.problem_reader import ConfigMapTexts
from tunewright.adapters.trials.probe import probe_cpu
from tunewright.cli.yaml_document import read_text, read_yaml
from tunewright.domain.catalog_loader import Catalog
from tunewright.domain.hardware import Accelerator
from tunewright.domain.problem import TuningProblem
from tunewright.domain.training_config import TrainingConfig
from tunewright.errors import InvalidInput, TuningError

CPU_PRESET = "cpu"


def read_document(path: Path) -> Mapping[str, Any]:
    """Return the file's single YAML mapping; raise `InvalidInput` naming file and line."""
    document = read_yaml(path)
    if not isinstance(document, dict):
        raise InvalidInput.of("FILE", str(path), "must hold one TuningRun: a YAML mapping with apiVersion and kind")
    return document


def load(path: Path, model_config: Path | None = None, *, measured_before: Accelerator | None = None) -> Accepted:
    """Read and accept a file. The preset `cpu` is this machine: as `measured_before`, else measured at first use.

    `model_config` is the Hugging Face config.json that the file's configMapKeyRef stands for.
    """
    document = read_document(path)
    catalog = catalog_of(os.environ)
    cpu = (measured_before or this_machine(catalog)) if _wants_cpu(document) else None
    return accept(document, catalog, cpu_accelerator=cpu, config_maps=_config_maps(document, model_config))


def load_candidate(path: Path, model_config: Path | None = None) -> tuple[TuningProblem, TrainingConfig]:
    """Read a file's problem and one configuration of it, also where `load` refuses the search."""
    document = read_document(path)
    catalog = catalog_of(os.environ)
    cpu = this_machine(catalog) if _wants_cpu(document) else None
    return read_candidate(document, catalog, cpu_accelerator=cpu, config_maps=_config_maps(document, model_config))


def this_machine(catalog: Catalog) -> Accelerator:
    """Return the `cpu` preset with measured figures, or the shipped nominal ones where torch is missing."""
    nominal = catalog.accelerator(CPU_PRESET)
    try:
        measured = probe_cpu(cache_folder() / "cpu.json")
    except TuningError:
        return nominal
    return Accelerator.parse(nominal.model_dump() | measured, "cpu")


def cache_folder() -> Path:
    """Return the folder for what can be measured again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tunewright"


def _config_maps(document: Mapping[str, Any], model_config: Path | None) -> ConfigMapTexts:
    """Return the model's file as the key of the ConfigMap that the document names."""
    if model_config is None:
        return {}
    reference = [_value_at(document, "spec", "workload", "model", "configMapKeyRef", key) for key in ("name", "key")]
    if not all(isinstance(part, str) for part in reference):
        remedy = "answers spec.workload.model.configMapKeyRef, which the TuningRun does not have: give one of the two"
        raise InvalidInput.of("--model-config", str(model_config), remedy)
    return {(str(reference[0]), str(reference[1])): read_text(model_config, "--model-config")}


def _wants_cpu(document: Mapping[str, Any]) -> bool:
    return _value_at(document, "spec", "cluster", "accelerator", "preset") == CPU_PRESET


def _value_at(document: object, *keys: str) -> object:
    for key in keys:
        document = document.get(key) if isinstance(document, Mapping) else None
    return document
