"""The model of a row: its columns, over the catalog's preset of the nearest name for what columns do not state.

Latent attention, sliding windows, head widths and leading dense layers have no column; a preset has them.
"""

import re
from typing import Any

from tunewright.calibration.columns import Row, integer, text
from tunewright.domain.catalog_loader import Catalog
from tunewright.domain.model_architecture import ModelArchitecture
from tunewright.errors import InvalidInput

_PRESETS = (
    (r"deepseek-?v3", "deepseek-v3"),
    (r"deepseek-?v2-?lite", "deepseek-v2-lite"),
    (r"moonlight", "deepseek-v2-lite"),
    (r"deepseek-?v2", "deepseek-v2"),
    (r"kimi-?k2", "deepseek-v3"),
    (r"qwen3-235b", "qwen3-235b-a22b"),
    (r"qwen3-30b", "qwen3-30b-a3b"),
    (r"gpt-oss-120b", "gpt-oss-120b"),
    (r"gpt-oss-20b", "gpt-oss-20b"),
    (r"mixtral-?8x22b", "mixtral-8x22b"),
    (r"mixtral-?8x7b", "mixtral-8x7b"),
    (r"grok-?1", "grok-1"),
)
_NO_PREDICTION = re.compile(r"kimi|moonlight", re.IGNORECASE)


def architecture_of(row: Row, catalog: Catalog) -> tuple[ModelArchitecture, tuple[str, ...]]:
    """Return the architecture of a row and what was taken from a preset; raises `Unusable` where columns lack."""
    name = text(row, "model")
    preset = next((known for pattern, known in _PRESETS if re.search(pattern, name, re.IGNORECASE)), None)
    fields = _columns(row)
    if preset is None:
        return ModelArchitecture.parse(fields, "row"), ()
    base = catalog.model(preset)
    return _over(base, fields, name), (f"architecture beyond the columns from preset {preset}",)


def _columns(row: Row) -> dict[str, Any]:
    hidden, heads = integer(row, "hidden"), integer(row, "heads")
    ffn, experts = integer(row, "ffn", 4 * hidden), integer(row, "experts", 0)
    groups = integer(row, "kv_heads", heads) or heads
    plain = not experts and ffn == 4 * hidden and groups == heads
    fields: dict[str, Any] = {
        "name": (re.sub(r"[^A-Za-z0-9.-]", "-", text(row, "model")) or "model")[:63],
        "num_layers": integer(row, "layers"),
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "num_key_value_heads": groups,
        "head_dim": max(hidden // heads, 1),
        "ffn_hidden_size": ffn,
        "vocabulary_size": integer(row, "vocab", _GPT_VOCABULARY),
        "gated_mlp": not plain,
        "normalization": "layernorm" if plain else "rmsnorm",
    }
    if experts:
        width = integer(row, "moe_ffn")
        fields["experts"] = {
            "num_experts": experts,
            "experts_per_token": integer(row, "topk"),
            "expert_ffn_hidden_size": width,
            "shared_expert_ffn_hidden_size": width * integer(row, "shared_experts", 0),
        }
    return fields


_GPT_VOCABULARY = 51200
"""GPT-2's 50,257 padded by Megatron-LM: the models whose tables state none are GPTs."""


def _over(base: ModelArchitecture, fields: dict[str, Any], name: str) -> ModelArchitecture:
    """Put a row's columns over a preset; its dense width, head width and routing details stay."""
    document = base.model_dump()
    kept = {"head_dim", "ffn_hidden_size", "gated_mlp", "normalization", "experts"}
    document |= {key: value for key, value in fields.items() if key not in kept}
    if base.ffn_hidden_size:
        document["ffn_hidden_size"] = fields["ffn_hidden_size"]
    if "experts" in fields and document["experts"]:
        document["experts"] |= fields["experts"]
        document["experts"]["num_leading_dense_layers"] = min(
            document["experts"]["num_leading_dense_layers"], document["num_layers"] - 1
        )
    if _NO_PREDICTION.search(name):
        document["num_multi_token_prediction_layers"] = 0
    try:
        return ModelArchitecture.parse(document, "row")
    except InvalidInput as error:
        from tunewright.calibration.measured_row import Unusable

        raise Unusable(str(error)) from None
