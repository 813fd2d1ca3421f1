"""Reads a TuningRun file and accepts it, as the operator would. Used by every command that takes a FILE."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tunewright.adapters.kube.acceptance import Accepted, accept, read_candidate
from tunewright.adapters.trials.probe import probe_cpu
from tunewright.cli.yaml_document import read_yaml
from tunewright.domain.catalog_loader import Catalog, shipped_catalog
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


def load(path: Path) -> Accepted:
    """Read and accept a file. The preset `cpu` is this machine, measured at first use."""
    document = read_document(path)
    catalog = shipped_catalog()
    return accept(document, catalog, cpu_accelerator=this_machine(catalog) if _wants_cpu(document) else None)


def load_candidate(path: Path) -> tuple[TuningProblem, TrainingConfig]:
    """Read a file's problem and one configuration of it, also where `load` refuses the search."""
    document = read_document(path)
    catalog = shipped_catalog()
    cpu = this_machine(catalog) if _wants_cpu(document) else None
    return read_candidate(document, catalog, cpu_accelerator=cpu)


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


def _wants_cpu(document: Mapping[str, Any]) -> bool:
    accelerator: object = document
    for key in ("spec", "cluster", "accelerator", "preset"):
        accelerator = accelerator.get(key) if isinstance(accelerator, dict) else None
    return accelerator == CPU_PRESET
