"""The chart's values: what is generated is up to date, and `values.yaml` says what the types say."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from tunewright.adapters.kube import chart_schema
from tunewright.adapters.kube.chart_values import ChartValues
from tunewright.errors import InvalidInput

VALUES = yaml.safe_load((chart_schema.ROOT / "charts" / "tunewright" / "values.yaml").read_text())
SCHEMA = chart_schema.schema()


def leaves(document: object, path: str = "") -> Iterator[str]:
    if isinstance(document, dict) and document:
        for key, value in document.items():
            yield from leaves(value, f"{path}.{key}")
    else:
        yield path


@pytest.mark.parametrize("file", chart_schema.outputs(), ids=lambda file: file.name)
def test_the_committed_file_is_the_generated_one(file: Path) -> None:
    assert file.read_text() == chart_schema.outputs()[file], "run make schema"


def test_check_tells_a_stale_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SCHEMA_FILE", "PAGE_FILE"):
        (tmp_path / name).write_text("old")
        monkeypatch.setattr(chart_schema, name, tmp_path / name)
    assert chart_schema.main(["--check"]) == 1
    assert chart_schema.main([]) == 0
    assert chart_schema.main(["--check"]) == 0


def test_the_values_file_has_the_typed_defaults_and_every_one_of_them() -> None:
    assert ChartValues.parse(VALUES) == ChartValues()
    typed = ChartValues().to_json()
    typed["trial"]["pod"] = {}  # in the words of a run: explained there
    assert sorted(leaves(VALUES)) == sorted(leaves(typed))


def test_the_values_file_fits_the_schema() -> None:
    jsonschema.validate(VALUES, SCHEMA)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("image.tagg", "1"),
        ("image.digest", "sha256:12"),
        ("image.pullPolicy", "Sometimes"),
        ("watch.namespaces", ["Team A"]),
        ("watch.namespaces", "team-a"),
        ("trial.pod", {"queue": "tuning"}),
        ("trial.pod", {"startDeadlineSeconds": "soon"}),
        ("trial.networkProfiles", {"mine": {"NCCL_IB_HCA": 1}}),
        ("catalog.accelerators", {"mi 355x": "name: mi 355x"}),
        ("catalog.networks", {"fabric": {"network": {}}}),
        ("catalog.devices", {}),
        ("llm.price", {"inputUSDPerMillionTokens": "1"}),
        ("llm.apiBase", "llm.example.com"),
        ("namespaceLimits", [{"namespace": "team-a", "maxGPUs": -1}]),
        ("namespaceLimits", [{"maxGPUs": 1}]),
        ("allow.registries", ["a"]),
        ("networkPolicy.egressPorts", [0]),
        ("replicas", 2),
    ],
    ids=lambda value: json.dumps(value) if not isinstance(value, str) else value,
)
def test_the_schema_and_the_types_refuse_the_same(path: str, value: Any) -> None:
    document = json.loads(json.dumps(VALUES))
    *sections, last = path.split(".")
    place = document
    for section in sections:
        place = place[section]
    place[last] = value
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, SCHEMA)
    with pytest.raises(InvalidInput):
        ChartValues.parse_strictly(document)


def test_a_parent_charts_own_globals_are_let_through() -> None:
    jsonschema.validate({**VALUES, "global": {"imageRegistry": "", "storageClass": "fast"}}, SCHEMA)


def test_the_schema_is_plain_json_schema() -> None:
    text = json.dumps(SCHEMA)
    assert "x-kubernetes" not in text
    assert '"default"' not in text
