from typing import Any

import pytest

from tests.support.kube_documents import a_tuning_run
from tunewright.adapters.kube.spec.tuning_run import read_tuning_run
from tunewright.errors import InvalidInput


def problems(document: object) -> dict[str, str]:
    with pytest.raises(InvalidInput) as caught:
        read_tuning_run(document)
    return {problem.field: problem.remedy for problem in caught.value.problems}


def test_five_lines_are_enough() -> None:
    run = read_tuning_run(a_tuning_run())
    assert run.spec.budget.max_trials == 30
    assert run.spec.trial.command == ("python", "-m", "tunewright_trial")
    assert run.spec.explore.strategy == "LLM"


def test_names_every_wrong_field_at_once() -> None:
    document = a_tuning_run(
        budget={"maxTrails": 3},
        parallelTrials=0,
        baseline={"tensorParallelSize": 0},
        searchSpace={"pipelineSchedule": ["2f2b"]},
    )
    assert set(problems(document)) == {
        "spec.budget.maxTrails",
        "spec.parallelTrials",
        "spec.baseline.tensorParallelSize",
        "spec.searchSpace.pipelineSchedule.0",
    }


@pytest.mark.parametrize(
    ("spec", "remedy"),
    [
        ({"workloads": {}}, "did you mean workload?"),
        ({"searchSpace": {"context_parallel_size": [1]}}, "did you mean contextParallelSize?"),
        ({"llm": {"modle": "a/b"}}, "did you mean model?"),
        ({"pod": {"tolerations": [{"kye": "amd.com/gpu"}]}}, "did you mean key?"),
        ({"whatever": 1}, "remove it or correct its spelling"),
    ],
)
def test_a_typo_is_told_with_its_remedy(spec: Any, remedy: str) -> None:
    found = [text for text in problems(a_tuning_run(**spec)).values() if text.startswith("is not a known field")]
    assert found == [f"is not a known field: {remedy}"]


@pytest.mark.parametrize(
    "model", [{}, {"preset": "a", "architecture": None, "configMapKeyRef": {"name": "a", "key": "b"}}]
)
def test_a_model_has_exactly_one_source(model: dict[str, object]) -> None:
    document = a_tuning_run()
    document["spec"]["workload"]["model"] = model
    assert problems(document) == {"spec.workload.model": "set exactly one of preset, configMapKeyRef and architecture"}


def test_decimals_are_quoted() -> None:
    assert 'put it in quotes, "0.5"' in problems(a_tuning_run(budget={"maxGPUHours": 0.5}))["spec.budget.maxGPUHours"]
    assert read_tuning_run(a_tuning_run(budget={"maxGPUHours": "0.5"})).spec.budget.max_gpu_hours == "0.5"
    assert read_tuning_run(a_tuning_run(budget={"maxGPUHours": 60})).spec.budget.max_gpu_hours == "60"


@pytest.mark.parametrize("name", ["1tiny", "a" * 41, "Tiny", "tiny-"])
def test_a_name_must_leave_room_for_trial_names(name: str) -> None:
    assert set(problems(a_tuning_run(name))) == {"metadata.name"}


def test_the_status_is_never_read() -> None:
    assert read_tuning_run(a_tuning_run() | {"status": {"anything": 1}}).metadata.name == "tiny"


def test_another_kind_is_refused() -> None:
    assert set(problems(a_tuning_run() | {"kind": "Pod"})) == {"kind"}


def test_a_list_is_no_document() -> None:
    assert "" in problems([])
