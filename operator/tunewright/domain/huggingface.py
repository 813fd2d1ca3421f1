"""Turns a Hugging Face `config.json` into a `ModelArchitecture`. Called where a person names a model by its file.

The document comes from outside: each field is checked, and every missing or odd one is reported by its key.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tunewright.domain.model_architecture import MOST_LAYERS, ModelArchitecture
from tunewright.errors import InvalidInput, Problem

_LARGEST = 2**24
_GIVE = "give a Hugging Face config.json"


class _Reader:
    """Reads typed fields of a config and remembers every problem; a bad field yields a harmless stand-in."""

    def __init__(self, document: Mapping[str, object]) -> None:
        self._document = document
        self.problems: list[Problem] = []

    def integer(self, key: str, default: int | None = None, *, least: int = 1, most: int = _LARGEST) -> int:
        """Return a whole number; a key that is absent or null takes `default`, and is a problem without one."""
        value = self._document.get(key)
        if value is None and default is not None:
            return default
        if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
            return value
        self._complain(key, value, f"must be a whole number from {least} to {most}")
        return max(least, 1)

    def flag(self, key: str, default: bool) -> bool:
        """Return a truth value; a key that is absent or null takes `default`."""
        value = self._document.get(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            self._complain(key, value, "must be true or false")
        return bool(value)

    def insist(self, key: str, accepted: tuple[object, ...]) -> None:
        """Report a field whose value asks for something that the models here do not describe."""
        value = self._document.get(key)
        if value is not None and value not in accepted:
            self._complain(key, value, f"is not supported: must be {' or '.join(map(str, accepted))}")

    def _complain(self, key: str, value: object, remedy: str) -> None:
        self.problems.append(Problem(key, value, "is required: set it" if value is None else remedy))


Fields = dict[str, Any]


def architecture_from_config(text: str, name: str) -> ModelArchitecture:
    """Return the architecture that a `config.json` describes, called `name`.

    Raises `InvalidInput` naming each bad key; what is wrong with the file as a whole has no field.
    """
    try:
        document = json.loads(text.removeprefix("\ufeff"), object_pairs_hook=_each_key_once)
    except RecursionError:
        raise InvalidInput.of("", text[:60], f"is nested too deeply: {_GIVE}") from None
    except ValueError as error:
        raise InvalidInput.of("", text[:60], f"is not JSON: {error}: {_GIVE}") from None
    if not isinstance(document, dict):
        raise InvalidInput.of("", text[:60], f"is no JSON object: {_GIVE}")
    return architecture_from_huggingface(document, name)


def architecture_from_huggingface(document: Mapping[str, object], name: str) -> ModelArchitecture:
    """Return the architecture that `document` describes, called `name`; raise `InvalidInput` naming each bad key."""
    model_type = document.get("model_type")
    build = _BUILDERS.get(model_type) if isinstance(model_type, str) else None
    if build is None:
        raise InvalidInput.of("model_type", model_type, _unknown_type(document))
    reader = _Reader(document)
    fields = build(reader)
    if reader.problems:
        raise InvalidInput(reader.problems)
    try:
        return ModelArchitecture.parse({"name": name, **fields})
    except InvalidInput as error:  # a rule over several keys has the whole model for its value
        raise InvalidInput([p if p.field else replace(p, value=name) for p in error.problems]) from None


def _each_key_once(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    document = dict(pairs)
    if len(document) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise InvalidInput.of(twice, document[twice], "is given twice: remove one")
    return document


def _unknown_type(document: Mapping[str, object]) -> str:
    """Say what to do with a model that nothing here builds; one with images has its language model inside."""
    inner = document.get("text_config")
    kind = inner.get("model_type") if isinstance(inner, Mapping) else None
    if isinstance(kind, str) and kind in _BUILDERS:
        return f"is not supported: give its text_config, a {kind}, as a config.json of its own"
    verb = "is not supported" if document.get("model_type") is not None else "is required"
    return f"{verb}: must be one of {', '.join(_BUILDERS)}; or give the sizes as spec.workload.model.architecture"


def _common(reader: _Reader, *, tied: bool = False) -> Fields:
    hidden = reader.integer("hidden_size")
    heads = reader.integer("num_attention_heads")
    return {
        "num_layers": reader.integer("num_hidden_layers", most=MOST_LAYERS),
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "num_key_value_heads": reader.integer("num_key_value_heads", heads),
        "head_dim": reader.integer("head_dim", max(hidden // heads, 1)),
        "ffn_hidden_size": reader.integer("intermediate_size"),
        "vocabulary_size": reader.integer("vocab_size"),
        "tied_embeddings": reader.flag("tie_word_embeddings", tied),
    }


def _llama(reader: _Reader) -> Fields:
    bias = reader.flag("attention_bias", False)
    biases = {"attention_input_bias": bias, "attention_output_bias": bias, "mlp_bias": reader.flag("mlp_bias", False)}
    return _common(reader) | biases


def _mistral(reader: _Reader) -> Fields:
    return _common(reader) | {"sliding_window": reader.integer("sliding_window", 0)}


def _mixtral(reader: _Reader) -> Fields:
    fields = _mistral(reader)
    experts = {
        "num_experts": reader.integer("num_local_experts"),
        "experts_per_token": reader.integer("num_experts_per_tok"),
        "expert_ffn_hidden_size": fields["ffn_hidden_size"],
    }
    return fields | {"ffn_hidden_size": 0, "experts": experts}


def _qwen2(reader: _Reader) -> Fields:
    reader.insist("use_sliding_window", (False,))
    return _common(reader) | {"attention_input_bias": True}


def _qwen3(reader: _Reader) -> Fields:
    reader.insist("use_sliding_window", (False,))
    bias = reader.flag("attention_bias", False)
    return _common(reader) | {
        "head_dim": reader.integer("head_dim", 128),
        "query_key_norm": "per-head",
        "attention_input_bias": bias,
        "attention_output_bias": bias,
    }


def _qwen_experts(reader: _Reader, shared_width: int) -> Fields:
    reader.insist("decoder_sparse_step", (1,))
    reader.insist("mlp_only_layers", ([],))
    experts = {
        "num_experts": reader.integer("num_experts"),
        "experts_per_token": reader.integer("num_experts_per_tok"),
        "expert_ffn_hidden_size": reader.integer("moe_intermediate_size"),
        "shared_expert_ffn_hidden_size": shared_width,
        "shared_expert_gate": shared_width > 0,
    }
    return {"ffn_hidden_size": 0, "experts": experts}


def _qwen2_moe(reader: _Reader) -> Fields:
    return _qwen2(reader) | _qwen_experts(reader, reader.integer("shared_expert_intermediate_size"))


def _qwen3_moe(reader: _Reader) -> Fields:
    return _qwen3(reader) | _qwen_experts(reader, 0)


def _deepseek_v2(reader: _Reader) -> Fields:
    reader.insist("attention_bias", (False,))
    reader.insist("moe_layer_freq", (1,))
    width = reader.integer("moe_intermediate_size")
    latent = {
        "query_rank": reader.integer("q_lora_rank", 0),
        "key_value_rank": reader.integer("kv_lora_rank"),
        "unrotated_head_dim": reader.integer("qk_nope_head_dim"),
        "rotated_head_dim": reader.integer("qk_rope_head_dim"),
        "value_head_dim": reader.integer("v_head_dim"),
    }
    experts = {
        "num_experts": reader.integer("n_routed_experts"),
        "experts_per_token": reader.integer("num_experts_per_tok"),
        "expert_ffn_hidden_size": width,
        "shared_expert_ffn_hidden_size": width * reader.integer("n_shared_experts", 0, least=0),
        "num_leading_dense_layers": reader.integer("first_k_dense_replace", 0, least=0),
    }
    fields = _common(reader) | {"latent_attention": latent, "experts": experts}
    return fields | {"head_dim": latent["value_head_dim"]}


def _deepseek_v3(reader: _Reader) -> Fields:
    fields = _deepseek_v2(reader)
    fields["experts"]["router_bias"] = True
    return fields | {"num_multi_token_prediction_layers": reader.integer("num_nextn_predict_layers", 0, least=0)}


def _gpt_oss(reader: _Reader) -> Fields:
    fields = _common(reader)
    layers = fields["num_layers"]
    alternating = ["sliding_attention" if layer % 2 == 0 else "full_attention" for layer in range(layers)]
    reader.insist("layer_types", (alternating,))
    experts = {
        "num_experts": reader.integer("num_local_experts"),
        "experts_per_token": reader.integer("num_experts_per_tok"),
        "expert_ffn_hidden_size": fields["ffn_hidden_size"],
        "router_bias": True,
    }
    bias = reader.flag("attention_bias", True)
    return fields | {
        "ffn_hidden_size": 0,
        "attention_input_bias": bias,
        "attention_output_bias": bias,
        "mlp_bias": True,
        "attention_sinks": True,
        "sliding_window": reader.integer("sliding_window"),
        "sliding_window_every": 2,
        "experts": experts,
    }


def _grok(reader: _Reader) -> Fields:
    fields = _common(reader, tied=True)
    experts = {
        "num_experts": reader.integer("num_experts"),
        "experts_per_token": reader.integer("num_experts_per_tok"),
        "expert_ffn_hidden_size": fields["ffn_hidden_size"],
    }
    return fields | {"ffn_hidden_size": 0, "norms_per_layer": 4, "experts": experts}


def _gpt2(reader: _Reader) -> Fields:
    hidden = reader.integer("n_embd")
    heads = reader.integer("n_head")
    return {
        "num_layers": reader.integer("n_layer", most=MOST_LAYERS),
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "num_key_value_heads": heads,
        "head_dim": max(hidden // heads, 1),
        "ffn_hidden_size": reader.integer("n_inner", 4 * hidden),
        "vocabulary_size": reader.integer("vocab_size"),
        "tied_embeddings": reader.flag("tie_word_embeddings", True),
        "gated_mlp": False,
        "attention_input_bias": True,
        "attention_output_bias": True,
        "mlp_bias": True,
        "normalization": "layernorm",
        "learned_position_embeddings": reader.integer("n_positions"),
    }


_BUILDERS: Mapping[str, Callable[[_Reader], Fields]] = {
    "llama": _llama,
    "mistral": _mistral,
    "mixtral": _mixtral,
    "qwen2": _qwen2,
    "qwen3": _qwen3,
    "qwen2_moe": _qwen2_moe,
    "qwen3_moe": _qwen3_moe,
    "deepseek_v2": _deepseek_v2,
    "deepseek_v3": _deepseek_v3,
    "gpt_oss": _gpt_oss,
    "grok-1": _grok,
    "gpt2": _gpt2,
}
