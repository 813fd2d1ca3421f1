"""The catalog: presets of models, accelerators and networks, one YAML file each, every number with its source.

The one module of the core that reads files: those of the package, and a folder of somebody's own, whose presets stand
beside them. Callers are the edges that turn the name of a preset into a value. Adding a preset is adding a file named
after it. Besides the files, `gpt-<layers>l-<hidden>h-<heads>a` names a GPT of any size, with 2,048 positions unless
`-<positions>p` follows.
"""

import difflib
import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Literal, TypeVar

import yaml
from pydantic import Field

from tunewright.domain.hardware import Accelerator, Network
from tunewright.domain.model_architecture import ModelArchitecture
from tunewright.domain.value import Value
from tunewright.errors import CatalogError, InvalidInput

Kind = Literal["model", "accelerator", "network"]
OwnTexts = Mapping[tuple[Kind, str], str]
"""Texts of presets that the package does not have, by kind and name."""

_FOLDERS: Mapping[Kind, str] = {"model": "models", "accelerator": "accelerators", "network": "networks"}
_SUFFIX = ".yaml"
_GPT = re.compile(r"gpt-([0-9]{1,5})l-([0-9]{1,6})h-([0-9]{1,5})a(?:-([0-9]{1,7})p)?")
_GPT2_VOCABULARY_SIZE = 50257
_GPT3_POSITIONS = 2048


class _ModelFile(Value):
    model: ModelArchitecture
    sources: dict[str, str] = Field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.model.name


class _NetworkFile(Value):
    default_for: tuple[str, ...] = ()
    network: Network

    @property
    def name(self) -> str:
        return self.network.name


_File = TypeVar("_File", _ModelFile, Accelerator, _NetworkFile)


@dataclass(frozen=True)
class Catalog:
    """Presets below `root`, which has the folders `models`, `accelerators` and `networks`. Reads a file when asked."""

    root: Traversable
    own: OwnTexts = field(default_factory=dict, hash=False)

    @cached_property
    def version(self) -> str:
        """A digest of every file, 12 hexadecimal digits: equal catalogs have equal versions."""
        digest = hashlib.sha256()
        for kind in _FOLDERS:
            for preset in self.names(kind):
                digest.update(f"{kind}/{preset}\0{self._text(kind, preset)}\0".encode())
        return digest.hexdigest()[:12]

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the model presets, sorted."""
        return self.names("model")

    @property
    def accelerators(self) -> tuple[str, ...]:
        """Names of the accelerator presets, sorted."""
        return self.names("accelerator")

    @property
    def networks(self) -> tuple[str, ...]:
        """Names of the network presets, sorted."""
        return self.names("network")

    def model(self, preset: str) -> ModelArchitecture:
        """Return a model; raise `InvalidInput` with the nearest names when there is none."""
        sized = _GPT.fullmatch(preset)
        if sized and preset not in self.models:
            return _gpt(preset, *(int(part) if part else _GPT3_POSITIONS for part in sized.groups()))
        return self._file("model", preset, _ModelFile).model

    def accelerator(self, preset: str) -> Accelerator:
        """Return an accelerator; raise `InvalidInput` with the nearest names when there is none."""
        return self._file("accelerator", preset, Accelerator)

    def network(self, preset: str) -> Network:
        """Return a network; raise `InvalidInput` with the nearest names when there is none."""
        return self._file("network", preset, _NetworkFile).network

    def default_network_for(self, accelerator: str) -> Network:
        """Return the network that nodes of `accelerator` usually have; raise `InvalidInput` when none is named."""
        for preset in self.networks:
            if accelerator in self.default_for(preset):
                return self.network(preset)
        choices = ", ".join(self.networks)
        raise InvalidInput.of("network", accelerator, f"has no default network: name one of {choices}")

    def default_for(self, network: str) -> tuple[str, ...]:
        """Return the accelerators whose nodes usually have `network`."""
        return self._file("network", network, _NetworkFile).default_for

    def sources(self, kind: Kind, preset: str) -> dict[str, str]:
        """Return where the numbers of a preset come from, by field."""
        if kind == "model":
            return self._file(kind, preset, _ModelFile).sources
        return self.network(preset).sources if kind == "network" else self.accelerator(preset).sources

    def names(self, kind: Kind) -> tuple[str, ...]:
        """Return the names of all presets of a kind, sorted."""
        entries = (entry.name for entry in self.root.joinpath(_FOLDERS[kind]).iterdir())
        shipped = {name.removesuffix(_SUFFIX) for name in entries if name.endswith(_SUFFIX)}
        return tuple(sorted(shipped | {preset for of_kind, preset in self.own if of_kind == kind}))

    def _text(self, kind: Kind, preset: str) -> str:
        own = self.own.get((kind, preset))
        return self.root.joinpath(_where(kind, preset)).read_text(encoding="utf-8") if own is None else own

    def _file(self, kind: Kind, preset: str, content: type[_File]) -> _File:
        if preset not in self.names(kind):
            own = "one of your own comes by TUNEWRIGHT_CATALOG, in a cluster by the chart's value catalog"
            raise InvalidInput.of(kind, preset, f"is not a preset; {self.hint(kind, preset)}; {own}")
        file: _File = _parsed(self._text(kind, preset), _where(kind, preset), content)
        if file.name != preset:
            raise CatalogError(f"{_where(kind, preset)}: name is {file.name!r}, and must be the file's: {preset!r}")
        return file

    def hint(self, kind: Kind, preset: str) -> str:
        """Say which names are near to one that there is not."""
        names = self.names(kind)
        near = difflib.get_close_matches(preset.lower(), names, n=3, cutoff=0.5)
        return f"did you mean {' or '.join(near)}?" if near else f"use one of {', '.join(names)}"


@cache
def shipped_catalog() -> Catalog:
    """Return the catalog of this package."""
    return Catalog(files("tunewright.domain").joinpath("catalog"))


def extended_catalog(folder: Traversable) -> Catalog:
    """Return the catalog of this package with the presets of `folder` beside its own.

    They are read once, here, and all are checked; raises `CatalogError` with a line for each thing that is wrong.
    """
    catalog = Catalog(shipped_catalog().root, _own_texts(folder))
    faults = [fault for kind, preset in catalog.own for fault in _faults(catalog, kind, preset)]
    faults = faults or [
        fault for kind, preset in catalog.own if kind == "network" for fault in _rivals(catalog, preset)
    ]
    if faults:
        raise CatalogError("\n".join(faults))
    return catalog


def _own_texts(folder: Traversable) -> OwnTexts:
    """Read a folder. Hidden names are passed over: a mounted ConfigMap has some."""
    texts: dict[tuple[Kind, str], str] = {}
    for kind, name in _FOLDERS.items():
        place = folder.joinpath(name)
        for entry in place.iterdir() if place.is_dir() else ():
            if entry.name.startswith("."):
                continue
            if not entry.name.endswith(_SUFFIX):
                raise CatalogError(f"{name}/{entry.name}: is no preset: call it NAME{_SUFFIX}, or move it away")
            texts[kind, entry.name.removesuffix(_SUFFIX)] = _own_text(entry, f"{name}/{entry.name}")
    if not texts:
        raise CatalogError(f"{folder}: has no presets: put files into {', '.join(_FOLDERS.values())} below it")
    return dict(sorted(texts.items()))


def _own_text(entry: Traversable, where: str) -> str:
    try:
        return entry.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CatalogError(f"{where}: cannot be read: {error}") from None


def _faults(catalog: Catalog, kind: Kind, preset: str) -> Iterator[str]:
    """Say what is wrong with a preset of somebody's own."""
    if preset in shipped_catalog().names(kind):
        yield f"{_where(kind, preset)}: tunewright has this {kind}: give file and name another, such as {preset}-own"
        return
    read = {"model": catalog.model, "accelerator": catalog.accelerator, "network": catalog.network}[kind]
    try:
        read(preset)
    except CatalogError as error:
        yield str(error)


def _rivals(catalog: Catalog, network: str) -> Iterator[str]:
    """Say for which devices a network cannot be the default: there is one for each, and those of the package stay."""
    for device in catalog.default_for(network):
        place = f"{_where('network', network)}: defaultFor: {device!r}"
        rivals = [other for other in catalog.networks if other != network and device in catalog.default_for(other)]
        if device not in catalog.accelerators:
            yield f"{place}: is no accelerator: {catalog.hint('accelerator', device)}"
        elif rivals:
            yield f"{place}: has {rivals[0]} already: leave it out; runs name a network in spec.cluster.network.preset"


def _where(kind: Kind, preset: str) -> str:
    return f"{_FOLDERS[kind]}/{preset}{_SUFFIX}"


@cache
def _parsed(text: str, where: str, content: type[_File]) -> _File:
    try:
        document = yaml.load(text, Loader=yaml.CSafeLoader)  # ten times faster than what is written in Python
    except (yaml.YAMLError, ValueError) as error:
        raise CatalogError(f"{where}: is not YAML: {error}") from None
    if not isinstance(document, dict):
        raise CatalogError(f"{where}: must be a mapping")
    try:
        return content.parse(document)
    except InvalidInput as error:
        raise CatalogError("\n".join(f"{where}: {problem}" for problem in error.problems)) from None


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
