"""A folder of presets beside those of the package: what it adds, and what it is refused for."""

from pathlib import Path

import pytest

from tunewright.domain.catalog_loader import extended_catalog, shipped_catalog
from tunewright.errors import CatalogError

DEVICE = """
name: ours
vendor: amd
computeUnits: 256
peakFlopsPerSecond: {bf16: 2.5e+15}
matmulEfficiency: 0.5
hbmCapacityBytes: 309220868096
hbmBytesPerSecond: 8.0e+12
scaleUpBytesPerSecond: 5.0e+11
"""
NETWORK = """
defaultFor: [ours]
network: {name: fabric, bytesPerSecondPerGPU: 2.5e+10}
"""
MODEL = """
model: {name: tiny, numLayers: 2, hiddenSize: 8, numAttentionHeads: 2, numKeyValueHeads: 2, headDim: 4,
        ffnHiddenSize: 16, vocabularySize: 32}
"""
FILES = {"accelerators/ours.yaml": DEVICE, "networks/fabric.yaml": NETWORK, "models/tiny.yaml": MODEL}


def a_folder(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def refused(folder: Path, files: dict[str, str]) -> str:
    with pytest.raises(CatalogError) as caught:
        extended_catalog(a_folder(folder, files))
    return str(caught.value)


def test_own_presets_stand_beside_those_of_the_package(tmp_path: Path) -> None:
    catalog, shipped = extended_catalog(a_folder(tmp_path, FILES)), shipped_catalog()

    assert set(catalog.accelerators) == {*shipped.accelerators, "ours"}
    assert catalog.accelerator("ours").matmul_efficiency == 0.5
    assert catalog.default_network_for("ours").name == "fabric"
    assert catalog.model("tiny").num_layers == 2
    assert catalog.accelerator("mi355x") == shipped.accelerator("mi355x")


def test_the_version_covers_own_presets(tmp_path: Path) -> None:
    first = extended_catalog(a_folder(tmp_path, FILES)).version
    second = extended_catalog(a_folder(tmp_path, {"networks/fabric.yaml": NETWORK.replace("2.5", "2.4")})).version

    assert len({first, second, shipped_catalog().version}) == 3


def test_what_changes_in_the_folder_later_changes_nothing(tmp_path: Path) -> None:
    catalog = extended_catalog(a_folder(tmp_path, FILES))
    a_folder(tmp_path, {"accelerators/ours.yaml": "nothing"})

    assert catalog.accelerator("ours").compute_units == 256


def test_one_kind_of_preset_is_enough_and_hidden_entries_are_none(tmp_path: Path) -> None:
    folder = a_folder(tmp_path, {"models/tiny.yaml": MODEL, "models/.tiny.yaml.swp": "\0"})

    assert "tiny" in extended_catalog(folder).models


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        (
            "accelerators/mi355x.yaml",
            DEVICE,
            "accelerators/mi355x.yaml: tunewright has this accelerator: give file and name another, such as mi355x-own",
        ),
        (
            "accelerators/theirs.yaml",
            DEVICE,
            "accelerators/theirs.yaml: name is 'ours', and must be the file's: 'theirs'",
        ),
        (
            "accelerators/ours.yaml",
            DEVICE.replace("0.5", "51"),
            "accelerators/ours.yaml: matmulEfficiency: 51: Input should be less than or equal to 1",
        ),
        (
            "accelerators/ours.yaml",
            DEVICE.replace("amd", "AMD"),
            "accelerators/ours.yaml: vendor: 'AMD': Input should be 'amd', 'nvidia' or 'cpu'",
        ),
        (
            "accelerators/ours.yaml",
            DEVICE.replace("bf16", "bfloat16"),
            "accelerators/ours.yaml: peakFlopsPerSecond.bfloat16",
        ),
        (
            "networks/fabric.yaml",
            NETWORK.replace("defaultFor", "default"),
            "networks/fabric.yaml: default: ['ours']: is not a known field: did you mean defaultFor?",
        ),
        (
            "networks/fabric.yaml",
            NETWORK.replace("ours", "our"),
            "networks/fabric.yaml: defaultFor: 'our': is no accelerator: did you mean ours?",
        ),
        (
            "networks/fabric.yaml",
            NETWORK.replace("ours", "mi300x"),
            "networks/fabric.yaml: defaultFor: 'mi300x': has roce-400g already: leave it out; "
            "runs name a network in spec.cluster.network.preset",
        ),
        ("models/tiny.yaml", "model: [", "models/tiny.yaml: is not YAML: "),
        ("models/tiny.yml", MODEL, "models/tiny.yml: is no preset: call it NAME.yaml, or move it away"),
    ],
)
def test_a_file_that_is_wrong_is_named_with_field_value_and_remedy(
    tmp_path: Path, name: str, text: str, said: str
) -> None:
    assert refused(tmp_path, {**FILES, name: text}).startswith(said)


def test_all_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    wrong = {"models/tiny.yaml": MODEL.replace("numLayers: 2", "numLayers: 0"), "accelerators/cpu.yaml": DEVICE}
    said = refused(tmp_path, FILES | wrong).splitlines()

    assert [line.split(": ")[0] for line in said] == ["accelerators/cpu.yaml", "models/tiny.yaml"]


def test_a_folder_without_presets_is_refused(tmp_path: Path) -> None:
    said = refused(tmp_path, {"accelerator/ours.yaml": DEVICE})

    assert said == f"{tmp_path}: has no presets: put files into models, accelerators, networks below it"


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    (a_folder(tmp_path, FILES) / "models/tiny.yaml").write_bytes(b"\xff\xfe")

    assert refused(tmp_path, {}).startswith("models/tiny.yaml: cannot be read: ")
