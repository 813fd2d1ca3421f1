"""Reading what a table says about recomputation. Called by `published`."""

import re
from typing import Any, get_args

from tunewright.calibration.measured_row import Unusable
from tunewright.domain.model_architecture import ModelArchitecture
from tunewright.domain.training_config import RecomputeModule, default_recompute_modules

_BLOCK = re.compile(r"^full\(block,\s*(\d+)(?:\s+of\s+\d+)?\)$")
_NAMES = {"norm": "layernorm", "rmsnorm": "layernorm", "act": "moe_act", "shared_expert": "shared_experts"}
_MODULES = get_args(RecomputeModule)


def recomputation_of(stated: str, model: ModelArchitecture) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the fields of a configuration and notes; raises `Unusable` for words that nobody defined."""
    if stated in ("", "none"):
        return {}, () if stated else ("recomputation not stated: none, the launcher's default",)
    if stated == "full":
        return {"recompute_granularity": "full"}, ()
    block = _BLOCK.match(stated)
    if block:
        layers = int(block.group(1))
        fields = {"recompute_granularity": "full", "recompute_method": "block", "recompute_num_layers": layers}
        return fields, ()
    if stated.startswith("selective:"):
        return _selective(stated.removeprefix("selective:"), model)
    if stated.startswith("selective"):
        modules = default_recompute_modules(model)
        note = f"selective recomputation without modules: {'+'.join(modules)}"
        return {"recompute_granularity": "selective", "recompute_modules": modules}, (note,)
    raise Unusable(f"recompute is not understood: {stated}")


def _selective(names: str, model: ModelArchitecture) -> tuple[dict[str, Any], tuple[str, ...]]:
    modules = []
    for name in names.split("+"):
        known = _NAMES.get(name.strip(), name.strip())
        if known == "moe_act" and not model.is_moe:
            known = "mlp"
        if known not in _MODULES:
            raise Unusable(f"recompute module is not known: {name}")
        modules.append(known)
    return {"recompute_granularity": "selective", "recompute_modules": tuple(sorted(set(modules)))}, ()
