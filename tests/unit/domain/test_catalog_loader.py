"""The catalog: every preset loads, every number has a source, and mistakes are explained."""

from pathlib import Path

import pytest

from tunewright.domain.catalog_loader import Catalog, shipped_catalog
from tunewright.domain.hardware import Accelerator, Network
from tunewright.errors import CatalogError, InvalidInput

CATALOG = shipped_catalog()
UNSOURCED = {"name", "vendor", "sources"}


@pytest.mark.parametrize("preset", CATALOG.models)
def test_model_loads_with_its_sources(preset: str) -> None:
    assert CATALOG.model(preset).name == preset
    assert CATALOG.sources("model", preset)["architecture"]


@pytest.mark.parametrize("preset", CATALOG.accelerators)
def test_accelerator_has_a_source_for_each_number(preset: str) -> None:
    accelerator = CATALOG.accelerator(preset)
    aliases = {field.alias for name, field in Accelerator.model_fields.items() if name not in UNSOURCED}
    unset = {"pciDeviceIds"} if not accelerator.pci_device_ids else set()

    assert set(accelerator.sources) == aliases - unset


@pytest.mark.parametrize("preset", CATALOG.networks)
def test_network_has_a_source_for_each_number(preset: str) -> None:
    aliases = {field.alias for name, field in Network.model_fields.items() if name not in UNSOURCED}

    assert set(CATALOG.network(preset).sources) == aliases
    assert CATALOG.sources("network", preset) == CATALOG.network(preset).sources


@pytest.mark.parametrize("preset", CATALOG.accelerators)
def test_every_accelerator_has_a_default_network(preset: str) -> None:
    assert CATALOG.default_network_for(preset).name in CATALOG.networks


@pytest.mark.parametrize(
    ("preset", "ids", "architecture"),
    [
        ("mi300x", ("74a1", "74b5"), "gfx942"),
        ("mi325x", ("74a5", "74b9"), "gfx942"),
        ("mi350x", ("75a0", "75b0"), "gfx950"),
        ("mi355x", ("75a3", "75b3"), "gfx950"),
    ],
)
def test_instinct_devices_are_known_by_physical_and_virtual_function(
    preset: str, ids: tuple[str, ...], architecture: str
) -> None:
    accelerator = CATALOG.accelerator(preset)

    assert (accelerator.pci_device_ids, accelerator.architecture) == (ids, architecture)


def test_matrix_peak_of_gfx950_follows_from_units_and_clock() -> None:
    peak = CATALOG.accelerator("mi350x").peak_flops_per_second["bf16"]

    assert peak == pytest.approx(256 * 4096 * 2.2e9, rel=1e-4)


def test_usable_memory_is_whole_bytes_below_the_printed_size() -> None:
    assert CATALOG.accelerator("mi355x").hbm_capacity_bytes == 288 * 2**30 - 16 * 2**20


@pytest.mark.parametrize(
    ("kind", "preset", "expected"),
    [
        ("model", "mixtral-8x22", "did you mean mixtral-8x22b or mixtral-8x7b?"),
        ("model", "Llama-3-8B", "did you mean llama-3-8b"),
        ("accelerator", "MI355", "did you mean mi355x"),
        ("network", "zzz", "use one of infiniband-200g"),
    ],
)
def test_unknown_preset_names_the_nearest(kind: str, preset: str, expected: str) -> None:
    with pytest.raises(InvalidInput, match=preset) as caught:
        getattr(CATALOG, kind)(preset)

    assert expected in str(caught.value)
    assert caught.value.problems[0].field == kind


def test_preset_that_leaves_the_folder_is_unknown() -> None:
    with pytest.raises(InvalidInput, match="is not a preset"):
        CATALOG.model("../accelerators/cpu")


def test_accelerator_without_default_network_names_the_choices() -> None:
    with pytest.raises(InvalidInput, match="has no default network"):
        CATALOG.default_network_for("abacus")


def test_gpt_of_any_size_is_a_preset() -> None:
    model = CATALOG.model("gpt-24l-2304h-24a")

    assert (model.num_layers, model.head_dim, model.ffn_hidden_size) == (24, 96, 9216)
    assert (model.learned_position_embeddings, model.vocabulary_size) == (2048, 50257)


def test_gpt_positions_can_be_given() -> None:
    assert CATALOG.model("gpt-2l-64h-4a-4096p").learned_position_embeddings == 4096


@pytest.mark.parametrize("preset", ["gpt-24l-2048h-17a", "gpt-24l-2048h-0a"])
def test_gpt_whose_heads_do_not_divide_the_hidden_size_is_refused(preset: str) -> None:
    with pytest.raises(InvalidInput, match="must be a multiple of the heads"):
        CATALOG.model(preset)


def test_gpt_without_layers_is_refused() -> None:
    with pytest.raises(InvalidInput, match="numLayers 0"):
        CATALOG.model("gpt-0l-2048h-16a")


def a_catalog(root: Path, **models: str) -> Catalog:
    for folder in ("models", "accelerators", "networks"):
        (root / folder).mkdir()
    for preset, text in models.items():
        (root / "models" / f"{preset}.yaml").write_text(text)
    return Catalog(root)


TINY = """
model: {name: tiny, numLayers: 2, hiddenSize: 8, numAttentionHeads: 2, numKeyValueHeads: 2, headDim: 4,
        ffnHiddenSize: 16, vocabularySize: 32}
"""


def test_adding_a_preset_is_adding_a_file(tmp_path: Path) -> None:
    catalog = a_catalog(tmp_path, tiny=TINY)

    assert catalog.models == ("tiny",)
    assert catalog.model("tiny").num_layers == 2


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("model: [", "is not YAML"),
        ("- 1", "must be a mapping"),
        (TINY.replace("numLayers: 2", "numLayers: 0"), "numLayers"),
        (TINY.replace("name: tiny", "name: other"), "must be the file's"),
        ("modle: {}", "models/tiny.yaml"),
    ],
)
def test_malformed_file_is_named(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(CatalogError, match=complaint):
        a_catalog(tmp_path, tiny=text).model("tiny")


def test_version_changes_with_any_content(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    first = a_catalog(tmp_path / "a", tiny=TINY)
    second = a_catalog(tmp_path / "b", tiny=TINY.replace("32", "64"))

    assert first.version != second.version
    assert len(first.version) == 12
    assert Catalog(tmp_path / "a").version == first.version
