"""The shape of a model out of Megatron's key names: Primus overrides as they are, launch arguments with underscores.

The way back from `primus_model` and `megatron_model`. Called by `tunewright init`; pure. What the keys cannot say, such
as a gate on shared experts, a model of the catalog with the same keys says.
"""

import re
from collections.abc import Mapping
from typing import Any

from tunewright.backends.megatron import flags
from tunewright.backends.primus_model import model_keys
from tunewright.domain.catalog_loader import Catalog
from tunewright.domain.model_architecture import ModelArchitecture
from tunewright.errors import InvalidInput, Problem

_NEEDED = ("num_layers", "hidden_size", "num_attention_heads", "vocab_size")
_LEADING_DENSE = re.compile(r"\(\[0\]\*(\d{1,4})\+\[1\]\*\d{1,4}\)")
_MEGATRON_DEFAULTS = {"normalization": "LayerNorm", "position_embedding_type": "learned_absolute"}
"""What Megatron-LM assumes where an argument is left out; Primus experiments write these keys."""


def architecture_of_keys(keys: Mapping[str, Any], name: str) -> ModelArchitecture:
    """Return the architecture; raise `InvalidInput` naming each key that is missing or odd."""
    missing = [Problem(key, None, "is missing: give it, or name the model") for key in _NEEDED if not keys.get(key)]
    if missing:
        raise InvalidInput(missing)
    latent = _latent_attention(keys) if keys.get("multi_latent_attention") else None
    experts = _experts(keys) if keys.get("num_experts") else None
    heads, bias = keys["num_attention_heads"], bool(keys.get("add_bias_linear", False))
    fields: dict[str, Any] = {
        "name": name,
        "num_layers": keys["num_layers"],
        "hidden_size": keys["hidden_size"],
        "num_attention_heads": heads,
        "num_key_value_heads": keys.get("num_query_groups") or heads if keys.get("group_query_attention") else heads,
        "head_dim": _head_width(keys, latent),
        "ffn_hidden_size": _inner_width(keys, experts),
        "vocabulary_size": keys["vocab_size"],
        "gated_mlp": bool(keys.get("swiglu", False)),
        "tied_embeddings": not keys.get("untie_embeddings_and_output_weights", False),
        "attention_input_bias": bias or bool(keys.get("add_qkv_bias", False)),
        "attention_output_bias": bias,
        "mlp_bias": bias,
        "query_key_norm": "per-head" if keys.get("qk_layernorm") else "none",
        "normalization": "layernorm" if keys.get("normalization") == "LayerNorm" else "rmsnorm",
        "learned_position_embeddings": _positions(keys),
        "num_multi_token_prediction_layers": keys.get("mtp_num_layers") or 0,
        "latent_attention": latent,
        "experts": experts,
        **_window(keys),
    }
    return ModelArchitecture.parse(fields, "model")


def architecture_of_arguments(values: Mapping[str, Any], name: str) -> ModelArchitecture:
    """Return the architecture of Megatron-LM arguments, with its defaults where an argument is absent."""
    keys = {**_MEGATRON_DEFAULTS, "add_bias_linear": "disable_bias_linear" not in values, **values}
    return architecture_of_keys(keys, name)


def arguments_as_keys(text: str) -> dict[str, Any]:
    """Return launch arguments as keys: one word is a number or a text, none is true, several are a list."""
    return {flag.removeprefix("--").replace("-", "_"): _plain(words) for flag, words in flags(text).items()}


def known_model(catalog: Catalog, model: ModelArchitecture) -> str:
    """Return the catalog's name of a model that every launcher is told the same of; empty where there is none."""
    wanted = model_keys(model, 1)
    return next((name for name in sorted(catalog.models) if model_keys(catalog.model(name), 1) == wanted), "")


def _plain(words: list[str]) -> Any:  # noqa: ANN401 - as Megatron reads it
    if not words:
        return True
    values = [int(word) if word.isascii() and word.isdigit() and len(word) < 10 else word for word in words]
    return values[0] if len(values) == 1 else values


def _head_width(keys: Mapping[str, Any], latent: Mapping[str, Any] | None) -> Any:  # noqa: ANN401
    if latent is not None:
        return latent["value_head_dim"]
    given = keys.get("kv_channels")
    return given if given else _whole(keys, "hidden_size") // max(_whole(keys, "num_attention_heads"), 1)


def _inner_width(keys: Mapping[str, Any], experts: Mapping[str, Any] | None) -> Any:  # noqa: ANN401
    """Return the width of the dense MLP; Megatron's default is 4 hidden widths, gated 8/3 in multiples of 64."""
    if experts is not None and not experts["num_leading_dense_layers"]:
        return 0
    if keys.get("ffn_hidden_size"):
        return keys["ffn_hidden_size"]
    hidden = _whole(keys, "hidden_size")
    return int(4 * hidden * 2 / 3) // 64 * 64 if keys.get("swiglu") else 4 * hidden


def _positions(keys: Mapping[str, Any]) -> Any:  # noqa: ANN401
    return keys.get("max_position_embeddings") or 0 if keys.get("position_embedding_type") == "learned_absolute" else 0


def _latent_attention(keys: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "query_rank": keys.get("q_lora_rank") or 0,
        "key_value_rank": keys.get("kv_lora_rank", 32),
        "unrotated_head_dim": keys.get("qk_head_dim", 128),
        "rotated_head_dim": keys.get("qk_pos_emb_head_dim", 64),
        "value_head_dim": keys.get("v_head_dim", 128),
    }


def _experts(keys: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "num_experts": keys["num_experts"],
        "experts_per_token": keys.get("moe_router_topk", 2),
        "expert_ffn_hidden_size": keys.get("moe_ffn_hidden_size") or keys.get("ffn_hidden_size"),
        "shared_expert_ffn_hidden_size": keys.get("moe_shared_expert_intermediate_size") or 0,
        "num_leading_dense_layers": _leading_dense(keys.get("moe_layer_freq", 1)),
    }


def _leading_dense(pattern: object) -> int:
    if pattern == 1:
        return 0
    found = _LEADING_DENSE.fullmatch(pattern.replace(" ", "")) if isinstance(pattern, str) else None
    if found is None:
        raise InvalidInput.of("moe_layer_freq", pattern, "is not supported: must be 1 or ([0]*DENSE+[1]*REST)")
    return int(found[1])


def _window(keys: Mapping[str, Any]) -> dict[str, Any]:
    given = keys.get("window_size")
    fields: dict[str, Any] = {"attention_sinks": keys.get("softmax_type") == "learnable"}
    if not given:
        return fields
    first = given.strip("()[]").split(",")[0] if isinstance(given, str) else given[0]
    if not str(first).strip().isdigit():
        raise InvalidInput.of("window_size", given, "is not supported: must be two numbers, such as 127,0")
    every = keys.get("window_attn_skip_freq", 1)
    return fields | {"sliding_window": int(first) + 1, "sliding_window_every": every}


def _whole(keys: Mapping[str, Any], name: str) -> int:
    value = keys[name]
    if not isinstance(value, int):
        raise InvalidInput.of(name, value, "must be a whole number")
    return value
