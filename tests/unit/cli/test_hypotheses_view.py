"""The table of hypotheses."""

from rich.console import Console

from tunewright.cli.hypotheses_view import hypotheses_table
from tunewright.planner.hypotheses import TrackedHypothesis


def shown(*hypotheses: TrackedHypothesis) -> str:
    console = Console(width=100, record=True, file=None)
    with console.capture() as captured:
        console.print(hypotheses_table(hypotheses))
    return captured.get()


def a_hypothesis(**changes: object) -> TrackedHypothesis:
    fields: dict[str, object] = {
        "round": 3,
        "axes": ("moeDispatcher", "pipelineSchedule"),
        "mechanism": "hides the all-to-all behind the weight gradient",
        "expected_gain_percent": 5.0,
        "status": "confirmed",
        "gain_percent": 7.9,
        "kind": "projected",
        "reason": "beyond noise",
    }
    return TrackedHypothesis.model_validate(fields | changes)


def test_expected_and_found_stand_side_by_side() -> None:
    text = shown(a_hypothesis(), a_hypothesis(status="untested", gain_percent=None, expected_gain_percent=None))
    assert "1 of 2 hypotheses of the LLM confirmed" in text
    assert "+5.0 %" in text
    assert "+7.9 %" in text
    assert "untested" in text


def test_words_of_the_llm_are_no_markup() -> None:
    assert "[red]stop[/red]" in shown(a_hypothesis(mechanism="[red]stop[/red]"))
