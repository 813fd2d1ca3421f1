import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import Field

from tunewright.adapters.kube import crd
from tunewright.adapters.kube.structural_schema import structural
from tunewright.domain.axes import AXES
from tunewright.domain.value import Value, camel_case


def nodes(schema: object, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(schema, dict):
        if "type" in schema and isinstance(schema["type"], str):
            yield path, schema
        for key, value in schema.items():
            yield from nodes(value, f"{path}.{key}")


ROOT = crd.custom_resource_definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]


def test_the_committed_file_is_the_generated_one() -> None:
    assert crd.CRD_FILE.read_text() == crd.rendered(), "run python -m tunewright.adapters.kube.crd"


def test_check_tells_a_stale_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crd, "CRD_FILE", tmp_path / "crd.yaml")
    (tmp_path / "crd.yaml").write_text("old")
    assert crd.main(["--check"]) == 1
    assert crd.main([]) == 0
    assert crd.main(["--check"]) == 0


def test_it_is_small_enough_for_client_side_apply() -> None:
    assert len(json.dumps(crd.custom_resource_definition())) < 128 * 1024


def test_every_list_map_and_text_is_bounded() -> None:
    spec = ROOT["properties"]["spec"]
    for path, node in nodes(spec):
        if node["type"] == "array":
            assert "maxItems" in node, path
        if node["type"] == "string" and "enum" not in node:
            assert "maxLength" in node, path
        if "additionalProperties" in node:
            assert "maxProperties" in node, path


def test_it_holds_nothing_that_a_structural_schema_refuses() -> None:
    text = json.dumps(ROOT)
    for refused in ("$ref", "anyOf", "$defs", '"title"', ": null"):
        assert refused not in text


def test_the_status_has_no_defaults() -> None:
    assert all("default" not in node for _, node in nodes(ROOT["properties"]["status"]))


def test_every_axis_is_in_baseline_and_search_space() -> None:
    names = {camel_case(axis.field) for axis in AXES}
    spec = ROOT["properties"]["spec"]["properties"]
    assert set(spec["baseline"]["properties"]) == names
    assert set(spec["searchSpace"]["properties"]) == names
    assert set(spec["sweep"]["properties"]["axes"]["items"]["enum"]) == names


def test_switches_are_booleans() -> None:
    spec = ROOT["properties"]["spec"]["properties"]
    assert spec["searchSpace"]["properties"]["overlapGradReduce"]["items"] == {"type": "boolean"}


def test_exclusive_limits_become_flags() -> None:
    class Model(Value):
        share: int = Field(gt=0)

    assert structural(Model.model_json_schema())["properties"]["share"] == {
        "minimum": 0,
        "exclusiveMinimum": True,
        "type": "integer",
    }


def test_two_types_in_one_field_are_refused() -> None:
    class Model(Value):
        value: int | str

    with pytest.raises(ValueError, match="has one type"):
        structural(Model.model_json_schema())


def test_a_default_inside_a_list_is_refused() -> None:
    class Item(Value):
        name: str = "x"

    class Model(Value):
        items: tuple[Item, ...] = Field(max_length=3)

    with pytest.raises(ValueError, match="no default inside a list"):
        structural(Model.model_json_schema())
