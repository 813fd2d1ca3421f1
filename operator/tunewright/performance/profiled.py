"""Layer times from a trial's profile; what the profile lacks is modelled, and named. Called by `projection`."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tunewright.domain.config_batch import ConfigBatch, FloatArray
from tunewright.domain.problem import TuningProblem
from tunewright.performance.compute import analytic_layer_times
from tunewright.performance.constants import Efficiency
from tunewright.performance.layer_times import LayerTimes
from tunewright.trial_protocol.report import LayerTiming, Profile


@dataclass(frozen=True, eq=False)
class ProfiledTimes:
    """The times, the parts that had to be modelled, and the widest spread of those that were timed."""

    times: LayerTimes
    modelled: tuple[str, ...]
    spread: float


def profiled_layer_times(
    problem: TuningProblem, batch: ConfigBatch, profile: Profile, efficiency: Efficiency | None = None
) -> ProfiledTimes:
    """Take the times of every row of `batch` (all of the profile's key) from `profile`."""
    times = analytic_layer_times(problem, batch, efficiency)
    expected = {
        "dense": (problem.model.num_dense_layers > 0, profile.dense_layer),
        "moe": (problem.model.num_moe_layers > 0, profile.moe_layer),
        "embedding": (True, profile.embedding),
        "head": (True, profile.head),
    }
    modelled = [kind for kind, (needed, timing) in expected.items() if needed and timing is None]
    for kind, (_, timing) in expected.items():
        if timing is not None:
            times = _with_timing(times, kind, timing)
    if profile.optimizer_seconds_per_parameter > 0:
        seconds = np.full(len(batch), profile.optimizer_seconds_per_parameter)
        times = replace(times, optimizer_seconds_per_parameter=seconds)
    else:
        modelled.append("optimizer")
    times = replace(times, included_groups=_included(profile), contention=profile.contention)
    timed = [timing for _, timing in expected.values() if timing is not None]
    return ProfiledTimes(times, tuple(modelled), max((_spread(timing) for timing in timed), default=0.0))


def _included(profile: Profile) -> dict[str, frozenset[str]]:
    """Return what is in the times of the layers that were timed.

    A group that did not fit in the node ran with fewer ranks than the candidate's: its collectives are modelled.
    """
    groups = frozenset(profile.included_groups) - frozenset(profile.modelled_groups)
    layers = {"dense": profile.dense_layer, "moe": profile.moe_layer}
    return {kind: groups for kind, timing in layers.items() if timing is not None and groups}


def _with_timing(times: LayerTimes, kind: str, timing: LayerTiming) -> LayerTimes:
    forward: FloatArray = getattr(times, f"{kind}_forward")
    backward: FloatArray = getattr(times, f"{kind}_backward_input")
    columns: dict[str, Any] = {
        f"{kind}_forward": np.full_like(forward, timing.forward.seconds),
        f"{kind}_backward_input": np.full_like(forward, timing.backward_input.seconds),
        f"{kind}_backward_weight": np.full_like(forward, timing.backward_weight.seconds),
    }
    if kind in ("dense", "moe"):
        # A profile times the recomputation with the input gradient: the model says which share it is.
        share = getattr(times, f"{kind}_recompute") / np.maximum(backward, 1e-30)
        columns[f"{kind}_recompute"] = share * timing.backward_input.seconds
        for name, whole, seconds in (
            ("forward", forward, timing.forward.seconds),
            ("backward", backward, timing.backward_input.seconds),
        ):
            waiting = getattr(times, f"{kind}_wait_{name}") / np.maximum(whole, 1e-30)
            columns[f"{kind}_wait_{name}"] = waiting * seconds
        core = times.dense_core_forward / np.maximum(forward, 1e-30)
        columns["dense_core_forward"] = core * timing.forward.seconds
    return replace(times, **columns)


def _spread(timing: LayerTiming) -> float:
    return max(part.spread for part in (timing.forward, timing.backward_input, timing.backward_weight))
