"""The catalog: presets of models, accelerators and networks, one YAML file each, every number with its source.

The one module of the core that reads files, and only those of the package. Callers are the edges that turn the name
of a preset into a value. Adding a preset is adding a file named after it. Besides the files,
`gpt-<layers>l-<hidden>h-<heads>a` names a GPT of any size, with 2,048 positions unless `-<positions>p` follows.
"""

import difflib
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, Literal, TypeVar, cast

import yaml

from tunewright.domain.hardware import Accelerator, Network
from tunewright.domain.model_architecture import ModelArchitecture
from tunewright.errors import CatalogError, InvalidInput

Kind = Literal["model", "accelerator", "network"]
_Preset = TypeVar("_Preset", ModelArchitecture, Accelerator, Network)

_FOLDERS: Mapping[Kind, str] = {"model": "models", "accelerator": "accelerators", "network": "networks"}
_GPT = re.compile(r"gpt-([0-9]{1,5})l-([0-9]{1,6})h-([0-9]{1,5})a(?:-([0-9]{1,7})p)?")
_GPT2_VOCABULARY_SIZE = 50257
_GPT3_POSITIONS = 2048


@dataclass(frozen=True)
class Catalog:
    """Presets below `root`, which has the folders `models`, `accelerators` and `networks`. Reads a file when asked."""

    root: Traversable

    @cached_property
    def version(self) -> str:
        """A digest of every file, 12 hexadecimal digits: equal catalogs have equal versions."""
        digest = hashlib.sha256()
        for kind in _FOLDERS:
            for preset in self._names(kind):
                digest.update(f"{kind}/{preset}\0{self._text(kind, preset)}\0".encode())
        return digest.hexdigest()[:12]

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the model presets, sorted."""
        return self._names("model")

    @property
    def accelerators(self) -> tuple[str, ...]:
        """Names of the accelerator presets, sorted."""
        return self._names("accelerator")

    @property
    def networks(self) -> tuple[str, ...]:
        """Names of the network presets, sorted."""
        return self._names("network")

    def model(self, preset: str) -> ModelArchitecture:
        """Return a model; raise `InvalidInput` with the nearest names when there is none."""
        sized = _GPT.fullmatch(preset)
        if sized and preset not in self.models:
            return _gpt(preset, *(int(part) if part else _GPT3_POSITIONS for part in sized.groups()))
        return self._parsed("model", preset, self._document("model", preset).get("model"), ModelArchitecture)

    def accelerator(self, preset: str) -> Accelerator:
        """Return an accelerator; raise `InvalidInput` with the nearest names when there is none."""
        return self._parsed("accelerator", preset, self._document("accelerator", preset), Accelerator)

    def network(self, preset: str) -> Network:
        """Return a network; raise `InvalidInput` with the nearest names when there is none."""
        return self._parsed("network", preset, self._document("network", preset).get("network"), Network)

    def default_network_for(self, accelerator: str) -> Network:
        """Return the network that nodes of `accelerator` usually have; raise `InvalidInput` when none is named."""
        for preset in self.networks:
            if accelerator in self._document("network", preset).get("defaultFor", ()):
                return self.network(preset)
        choices = ", ".join(self.networks)
        raise InvalidInput.of("network", accelerator, f"has no default network: name one of {choices}")

    def sources(self, kind: Kind, preset: str) -> dict[str, str]:
        """Return where the numbers of a preset come from, by field."""
        document = self._document(kind, preset)
        holder = document["network"] if kind == "network" else document
        return {str(field): str(source) for field, source in holder.get("sources", {}).items()}

    def _names(self, kind: Kind) -> tuple[str, ...]:
        entries = (entry.name for entry in self.root.joinpath(_FOLDERS[kind]).iterdir())
        return tuple(sorted(name.removesuffix(".yaml") for name in entries if name.endswith(".yaml")))

    def _text(self, kind: Kind, preset: str) -> str:
        return self.root.joinpath(_FOLDERS[kind], f"{preset}.yaml").read_text(encoding="utf-8")

    def _document(self, kind: Kind, preset: str) -> dict[str, Any]:
        if preset not in self._names(kind):
            raise InvalidInput.of(kind, preset, f"is not a preset; {self._hint(kind, preset)}")
        return _load(self._text(kind, preset), f"{_FOLDERS[kind]}/{preset}.yaml")

    def _hint(self, kind: Kind, preset: str) -> str:
        names = self._names(kind)
        near = difflib.get_close_matches(preset.lower(), names, n=3, cutoff=0.5)
        return f"did you mean {' or '.join(near)}?" if near else f"use one of {', '.join(names)}"

    def _parsed(self, kind: Kind, preset: str, document: object, value_type: type[_Preset]) -> _Preset:
        where = f"{_FOLDERS[kind]}/{preset}.yaml"
        try:
            value = value_type.parse(document)
        except InvalidInput as error:
            raise CatalogError(f"{where}: {error}") from None
        if value.name != preset:
            raise CatalogError(f"{where}: name is {value.name!r}, and must be the file's: {preset!r}")
        return value


@cache
def shipped_catalog() -> Catalog:
    """Return the catalog of this package."""
    return Catalog(files("tunewright.domain").joinpath("catalog"))


@cache
def _load(text: str, where: str) -> dict[str, Any]:
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise CatalogError(f"{where}: is not YAML: {error}") from None
    if not isinstance(document, dict):
        raise CatalogError(f"{where}: must be a mapping")
    return cast("dict[str, Any]", document)


def _gpt(name: str, layers: int, hidden: int, heads: int, positions: int) -> ModelArchitecture:
    """Build a GPT-3-like model: four times wider MLP with GELU, biases, tied embeddings, learned positions."""
    if not heads or hidden % heads:
        raise InvalidInput.of("model", name, f"the hidden size {hidden} must be a multiple of the heads {heads}")
    sizes = {
        "name": name,
        "num_layers": layers,
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "num_key_value_heads": heads,
        "head_dim": hidden // heads,
        "ffn_hidden_size": 4 * hidden,
        "vocabulary_size": _GPT2_VOCABULARY_SIZE,
        "gated_mlp": False,
        "tied_embeddings": True,
        "attention_input_bias": True,
        "attention_output_bias": True,
        "mlp_bias": True,
        "normalization": "layernorm",
        "learned_position_embeddings": positions,
    }
    try:
        return ModelArchitecture.parse(sizes)
    except InvalidInput as error:
        found = "; ".join(f"{problem.field} {problem.value}: {problem.remedy}" for problem in error.problems)
        raise InvalidInput.of("model", name, f"names a model of impossible size: {found}") from None
