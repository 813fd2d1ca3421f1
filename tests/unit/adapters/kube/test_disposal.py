from dataclasses import replace

from tests.support.kube_documents import a_job, an_identity
from tunewright.adapters.kube.attempts import AttemptView, view_attempt
from tunewright.adapters.kube.disposal import Ended, disposals
from tunewright.adapters.kube.spec.search import ResultsSpec
from tunewright.adapters.kube.spec.trial import PodSpec
from tunewright.trial_protocol.report import FailureClass

RESULTS = ResultsSpec(keep_failed_trials=1, trial_ttl_seconds_after_finished=60)


def a_view(trial: str, *, is_suspended: bool = False, lifetime: int | None = None) -> AttemptView:
    view = view_attempt(a_job(), [], (), an_identity(trial=trial), PodSpec(), 0)
    return replace(view, job_name=trial, is_suspended=is_suspended, lifetime_seconds=lifetime)


def ended(**failures: FailureClass | None) -> Ended:
    return {(trial, 1): failure for trial, failure in failures.items()}


def test_a_job_gets_its_lifetime_only_when_the_ledger_has_its_end() -> None:
    assert disposals([a_view("t0001"), a_view("t0002")], ended(t0001=None), RESULTS) == {"t0001": 60}


def test_what_has_its_lifetime_is_left_alone() -> None:
    assert disposals([a_view("t0001", lifetime=60)], ended(t0001=None), RESULTS) == {}
    assert disposals([a_view("t0001", lifetime=5)], ended(t0001=None), RESULTS) == {"t0001": 60}


def test_the_latest_failed_trials_stay() -> None:
    views = [a_view("t0001"), a_view("t0002"), a_view("t0003")]
    failures = ended(t0002="NodeLost", t0001="DeviceOutOfMemory", t0003=None)
    assert disposals(views, failures, RESULTS) == {"t0002": 60, "t0003": 60}


def test_what_was_interrupted_or_stopped_is_no_failed_trial() -> None:
    views = [a_view("t0001"), a_view("t0002", is_suspended=True)]
    assert disposals(views, ended(t0001="NodeLost", t0002="Interrupted"), RESULTS) == {"t0002": "delete"}


def test_more_failed_trials_to_keep_take_a_lifetime_back() -> None:
    views = [a_view("t0001", lifetime=60), a_view("t0002")]
    failures = ended(t0001="NodeLost", t0002="NodeLost")
    assert disposals(views, failures, ResultsSpec(keep_failed_trials=2)) == {"t0001": None}
    none = ResultsSpec(keep_failed_trials=0, trial_ttl_seconds_after_finished=60)
    assert disposals(views, failures, none) == {"t0002": 60}
