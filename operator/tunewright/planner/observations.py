"""What the surrogate learns from: the figures of every row that was tried. Called by explore and briefing."""

from tunewright.performance.profile_key import KEY_FIELDS
from tunewright.planner.candidates import Candidate
from tunewright.planner.decisions import Acquisition
from tunewright.planner.turn import Turn
from tunewright.search.kernel import independent_axes
from tunewright.search.process import SHOWN_IN_FULL, SHOWN_IN_PART
from tunewright.search.surrogate import Observation, Scored, Surrogate
from tunewright.units import six_digits


def surrogate_of(turn: Turn) -> Surrogate:
    """Return the surrogate of projections. What a profile does not depend on cannot make its projection wrong."""
    space = turn.snapshot.space
    known = [(candidate.row, _figure(candidate)) for candidate in turn.evaluation.candidates]
    observations = [Observation(row, value) for row, value in known if row is not None and value > 0]
    is_all_shown = set(independent_axes(space)) <= set(KEY_FIELDS)
    return Surrogate(space, observations, KEY_FIELDS, prior=SHOWN_IN_FULL if is_all_shown else SHOWN_IN_PART)


def acquisition_of(item: Scored) -> Acquisition:
    """Return what the surrogate expects of a row, as a proposal records it."""
    return Acquisition(
        mean_tokens_per_second_per_gpu=six_digits(item.mean_tokens_per_second_per_gpu),
        sigma=six_digits(item.sigma),
        expected_improvement=six_digits(item.expected_improvement),
    )


def _figure(candidate: Candidate) -> float:
    """A measurement is put on the scale of projections, where everything else is."""
    if candidate.projected is not None:
        return candidate.projected
    return candidate.measurement.tokens_per_second_per_gpu if candidate.measurement else 0.0
