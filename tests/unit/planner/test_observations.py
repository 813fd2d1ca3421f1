"""What the exploration expects of errors: more of schedules where no profile shows them."""

import pytest

from tests.support.planning import a_run
from tunewright.performance.profile_key import KEY_FIELDS
from tunewright.planner.observations import surrogate_of
from tunewright.planner.turn import Turn
from tunewright.search.kernel import independent_axes
from tunewright.search.process import SHOWN_IN_FULL, SHOWN_IN_PART, Prior

SIZES_ALONE = {"pipeline_parallel_size": (1,), "pipeline_schedule": ("1f1b",)}


@pytest.mark.parametrize(
    ("changes", "prior"),
    [({"search_space": SIZES_ALONE}, SHOWN_IN_FULL), ({}, SHOWN_IN_PART)],
    ids=["profiles show all that varies", "schedules vary too"],
)
def test_errors_are_expected_by_what_a_profile_shows(changes: dict[str, object], prior: Prior) -> None:
    run = a_run(**changes)
    is_all_shown = set(independent_axes(run.space)) <= set(KEY_FIELDS)
    assert is_all_shown == (prior is SHOWN_IN_FULL)
    assert surrogate_of(Turn(run.snapshot()))._process.prior is prior
