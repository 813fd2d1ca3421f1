"""Projections from a profile: round trip with the model, uncertainty, flags, refusal."""

import pytest

from tests.unit.performance.builders import a_batch, a_latent_model, a_moe_model, a_problem
from tunewright.domain.model_architecture import ModelArchitecture
from tunewright.domain.problem import TuningProblem
from tunewright.domain.training_config import TrainingConfig
from tunewright.errors import InvalidInput
from tunewright.performance.compute import analytic_layer_times
from tunewright.performance.projection import REPRODUCIBILITY, project
from tunewright.performance.step import estimate
from tunewright.trial_protocol.identity import TrialIdentity, TrialKind
from tunewright.trial_protocol.report import (
    CollectiveTiming,
    LayerTiming,
    Measured,
    Profile,
    Timing,
    TrialReport,
)

MEASURED = Measured(step_seconds=(1.0,), tokens_per_step=1, world_size=1, nodes=1, first_loss=1, last_loss=1)


def a_report(profile: Profile | None, **outcome: object) -> TrialReport:
    kind: TrialKind = "measure" if "measured" in outcome else "profile"
    identity = TrialIdentity(run_uid="run", trial="t0001", attempt=1, kind=kind, config_digest="0" * 16)
    return TrialReport.model_validate({"identity": identity, "profile": profile, **outcome})


def modelled_profile(problem: TuningProblem, config: TrainingConfig, *, spread: float = 0.0) -> Profile:
    """What the analytic model would have measured."""
    times = analytic_layer_times(problem, a_batch(config.model_dump()))

    def timing(kind: str) -> LayerTiming:
        columns = (getattr(times, f"{kind}_{part}")[0] for part in ("forward", "backward_input", "backward_weight"))
        forward, backward_input, backward_weight = (Timing(seconds=float(c), spread=spread) for c in columns)
        return LayerTiming(forward=forward, backward_input=backward_input, backward_weight=backward_weight)

    return Profile(
        dense_layer=timing("dense") if problem.model.num_dense_layers else None,
        moe_layer=timing("moe") if problem.model.num_moe_layers else None,
        embedding=timing("embedding"),
        head=timing("head"),
        optimizer_seconds_per_parameter=float(times.optimizer_seconds_per_parameter[0]),
    )


CONFIGS = [
    TrainingConfig(),
    TrainingConfig(tensor_parallel_size=4, pipeline_parallel_size=4, pipeline_schedule="zero-bubble-h1"),
    TrainingConfig(expert_parallel_size=8, pipeline_parallel_size=4, recompute_granularity="full"),
    TrainingConfig(context_parallel_size=2, recompute_granularity="selective", recompute_modules=("moe",)),
]


@pytest.mark.parametrize("config", CONFIGS, ids=str)
@pytest.mark.parametrize("model", [a_moe_model(), a_latent_model()], ids=lambda model: model.name)
def test_a_profile_made_by_the_model_projects_to_the_estimate(model: ModelArchitecture, config: TrainingConfig) -> None:
    problem = a_problem(model)
    step = estimate(problem, a_batch(config.model_dump()))
    projection = project(problem, config, a_report(modelled_profile(problem, config)))
    assert projection.step_seconds == pytest.approx(step.step_seconds[0], rel=1e-9)
    assert projection.tokens_per_second_per_gpu == pytest.approx(step.tokens_per_second_per_gpu[0], rel=1e-9)
    assert projection.parts == pytest.approx({name: part[0] for name, part in step.parts.items()}, rel=1e-9, abs=1e-15)
    assert sum(projection.parts.values()) == pytest.approx(projection.step_seconds)


def test_slower_layers_project_to_a_slower_step() -> None:
    problem, config = a_problem(), TrainingConfig(pipeline_parallel_size=4)
    profile = modelled_profile(problem, config)
    assert profile.dense_layer is not None
    slow = profile.dense_layer.model_copy(update={"forward": Timing(seconds=1.0)})
    fast = project(problem, config, a_report(profile))
    slower = project(problem, config, a_report(profile.model_copy(update={"dense_layer": slow})))
    assert slower.step_seconds > 2 * fast.step_seconds
    assert slower.parts["computeBackward"] == pytest.approx(fast.parts["computeBackward"])


def test_timed_collectives_replace_the_model_and_its_flag() -> None:
    problem, config = a_problem(), TrainingConfig(tensor_parallel_size=8)
    profile = modelled_profile(problem, config)
    timed = tuple(
        CollectiveTiming(operation=operation, ranks=8, bytes=2**20, timing=Timing(seconds=0.01))
        for operation in ("all-gather", "reduce-scatter")
    )
    modelled = project(problem, config, a_report(profile))
    measured = project(problem, config, a_report(profile.model_copy(update={"collectives": timed})))
    assert "modelled:tensorCommunication" in modelled.flags
    assert "modelled:tensorCommunication" not in measured.flags
    assert measured.parts["tensorCommunication"] > 10 * modelled.parts["tensorCommunication"]


def test_uncertainty_grows_with_the_spread_of_the_timings_and_with_what_was_modelled() -> None:
    problem, config = a_problem(), TrainingConfig()
    steady = project(problem, config, a_report(modelled_profile(problem, config)))
    noisy = project(problem, config, a_report(modelled_profile(problem, config, spread=0.2)))
    empty = project(problem, config, a_report(Profile()))
    assert REPRODUCIBILITY <= steady.uncertainty < noisy.uncertainty
    assert empty.uncertainty > 0.25
    assert {"modelled:dense", "modelled:head", "modelled:embedding", "modelled:optimizer"} <= set(empty.flags)


def test_untimed_groups_and_stand_ins_are_carried_over() -> None:
    problem, config = a_problem(), TrainingConfig()
    profile = modelled_profile(problem, config).model_copy(update={"modelled_groups": ("expert",)})
    projection = project(problem, config, a_report(profile, simulated=True))
    assert "untimed-group:expert" in projection.flags
    assert projection.simulated


def test_collectives_inside_timed_layers_are_not_added_again() -> None:
    problem = a_problem(a_moe_model(), backend="builtin")  # which hides no collective behind a layer
    config = TrainingConfig(tensor_parallel_size=2, expert_parallel_size=8)
    apart = modelled_profile(problem, config)
    whole = apart.model_copy(update={"included_groups": ("tensor", "expert")})
    added, counted_once = (project(problem, config, a_report(profile)) for profile in (apart, whole))
    inside = ("tensorCommunication", "expertCommunication")
    assert all(added.parts[name] > 0 and counted_once.parts[name] == 0 for name in inside)
    assert counted_once.step_seconds == pytest.approx(added.step_seconds - sum(added.parts[name] for name in inside))
    assert {"within-layers:tensor", "within-layers:expert"} <= set(counted_once.flags)
    assert not {"modelled:tensorCommunication", "modelled:expertCommunication"} & set(counted_once.flags)


def test_a_group_that_ran_with_fewer_ranks_is_still_modelled() -> None:
    problem, config = a_problem(a_moe_model()), TrainingConfig(expert_parallel_size=8)
    profile = modelled_profile(problem, config)
    partly = profile.model_copy(update={"included_groups": ("expert",), "modelled_groups": ("expert",)})
    expected, found = (project(problem, config, a_report(one)) for one in (profile, partly))
    assert found.parts == expected.parts


def test_layers_that_were_not_timed_keep_their_collectives() -> None:
    problem, config = a_problem(a_latent_model(), backend="builtin"), TrainingConfig(tensor_parallel_size=2)
    profile = modelled_profile(problem, config).model_copy(update={"included_groups": ("tensor",)})
    only_moe = profile.model_copy(update={"dense_layer": None})
    assert project(problem, config, a_report(profile)).parts["tensorCommunication"] == 0
    assert project(problem, config, a_report(only_moe)).parts["tensorCommunication"] > 0


def test_a_projection_survives_json() -> None:
    problem, config = a_problem(), TrainingConfig()
    projection = project(problem, config, a_report(modelled_profile(problem, config)))
    assert type(projection).parse(projection.to_json()) == projection


@pytest.mark.parametrize(
    "outcome",
    [
        {"failure": "DeviceOutOfMemory"},
        {
            "measured": Measured(
                step_seconds=(1.0,), tokens_per_step=1, world_size=1, nodes=1, first_loss=1, last_loss=1
            )
        },
    ],
    ids=["failure", "measured"],
)
def test_a_report_without_a_profile_is_refused(outcome: dict[str, object]) -> None:
    with pytest.raises(InvalidInput, match="only a report with a profile"):
        project(a_problem(), TrainingConfig(), a_report(None, **outcome))
