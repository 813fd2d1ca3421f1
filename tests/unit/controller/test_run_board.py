"""The gauges that come from the statuses of all runs."""

from typing import Any

import pytest

from tests.support.kube_documents import a_tuning_run
from tunewright.controller.run_board import RunBoard, figures_of


def a_status(state: str, running: int = 0, **conditions: tuple[str, str]) -> dict[str, Any]:
    """Return a status; conditions as name: (status, reason)."""
    listed = [{"type": name, "status": status, "reason": reason} for name, (status, reason) in conditions.items()]
    return {"state": state, "trials": {"running": running}, "conditions": listed}


def gauges(board: RunBoard) -> dict[tuple[str, ...], float]:
    """Return what is not zero, by name and label values."""
    samples = [sample for metric in board.collect() for sample in metric.samples]
    return {(sample.name, *sample.labels.values()): sample.value for sample in samples if sample.value}


def test_runs_count_by_state_and_trials_together() -> None:
    board = RunBoard()
    board.saw("a/one", a_status("Sweeping", running=2, Finished=("False", "Sweeping")))
    board.saw("a/two", a_status("Sweeping", running=1, Finished=("False", "Sweeping")))
    board.saw("b/one", a_status("Succeeded", Finished=("True", "Completed")))
    board.saw("b/new", {})
    board.is_complete = True
    expected: dict[tuple[str, ...], float] = {
        ("tunewright_runs", "Sweeping"): 2,
        ("tunewright_runs", "Succeeded"): 1,
        ("tunewright_runs", "Pending"): 1,
        ("tunewright_trials_running",): 3,
    }
    assert gauges(board) == expected


def test_a_run_counts_as_it_is_now_and_not_at_all_once_it_is_gone() -> None:
    board = RunBoard()
    board.saw("a/one", a_status("Sweeping", running=1))
    board.saw("a/one", a_status("Validating", running=2))
    board.is_complete = True
    assert gauges(board) == {("tunewright_runs", "Validating"): 1, ("tunewright_trials_running",): 2}
    board.forget("a/one")
    assert gauges(board) == {}


def test_before_all_runs_are_known_there_are_no_figures() -> None:
    board = RunBoard()
    board.saw("a/one", a_status("Failed"))
    assert list(board.collect()) == []
    assert board.has_seen({"a/one"})
    assert not board.has_seen({"a/one", "a/two"})


@pytest.mark.parametrize(
    ("status", "held"),
    [
        (
            a_status("Pending", Accepted=("False", "Illegal"), Finished=("False", "NotAccepted")),
            {("Accepted", "Illegal")},
        ),
        (
            a_status("Pending", CapacityAvailable=("False", "NotEnoughNodes"), Finished=("False", "Pending")),
            {("CapacityAvailable", "NotEnoughNodes")},
        ),
        (a_status("Exploring", Finished=("False", "LedgerUnreadable")), {("Finished", "LedgerUnreadable")}),
        (a_status("Exploring", AdvisorAvailable=("False", "NotConfigured"), Finished=("False", "Exploring")), set()),
        (a_status("Succeeded", AdvisorAvailable=("False", "Timeout"), Finished=("True", "Completed")), set()),
        (a_status("Sweeping", AdvisorAvailable=("Unknown", "NotAsked")), set()),
    ],
    ids=["refused", "no nodes", "ledger", "no LLM wanted", "finished", "unknown"],
)
def test_a_run_is_held_by_conditions_that_somebody_may_want_to_change(
    status: dict[str, Any], held: set[tuple[str, str]]
) -> None:
    assert set(figures_of(status).held) == held


def test_a_run_without_a_status_is_pending() -> None:
    assert figures_of(a_tuning_run("new").get("status", {})).state == "Pending"
