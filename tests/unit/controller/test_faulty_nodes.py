from tests.support.planning import a_run
from tests.support.records import AT
from tunewright.controller.live_run import faulty_nodes
from tunewright.planner.decisions import StartTrial
from tunewright.planner.records import TrialFinished
from tunewright.planner.state import RunState
from tunewright.planner.trial import Attempt, Trial
from tunewright.trial_protocol.report import FailureClass


def a_state(*ends: tuple[FailureClass | None, str]) -> RunState:
    """Return a state in which trial t0001 has these attempts, each with its failure and node."""
    start: StartTrial = a_run().to_end().state.trials["t0001"].start
    attempts = [
        Attempt(number, 0.0, finished=TrialFinished(trial="t0001", attempt=number, failure=failure, node=node, at=AT))
        for number, (failure, node) in enumerate(ends, 1)
    ]
    return RunState(trials={"t0001": Trial(start, attempts)})


def test_nodes_of_faults_of_the_node_are_avoided_and_those_of_preemption_are_not() -> None:
    state = a_state(("RcclFailure", "gpu-1"), ("Preempted", "gpu-2"), ("NodeLost", ""), ("DeviceMismatch", "gpu-3"))
    assert faulty_nodes(state, "t0001") == {"gpu-1", "gpu-3"}


def test_an_attempt_that_was_interrupted_says_nothing_about_its_node() -> None:
    assert faulty_nodes(a_state(("Interrupted", "gpu-1")), "t0001") == set()
