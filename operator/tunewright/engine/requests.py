"""Turns a recorded decision into the request of its trial. Called by `step`; pure."""

from tunewright.planner.decisions import StartTrial
from tunewright.planner.evaluation import on_fewer_nodes
from tunewright.planner.records import Header
from tunewright.planner.settings import PlannerSettings
from tunewright.trial_protocol.identity import TrialIdentity
from tunewright.trial_protocol.request import TrialRequest

PROFILE_REPETITIONS = 5


def trial_request(
    header: Header, settings: PlannerSettings, start: StartTrial, deadline_seconds: float
) -> TrialRequest:
    """Build the request of one attempt. A profile has one node; a measurement has `validation.nodes`."""
    cluster = header.problem.cluster
    profile = start.kind == "profile"
    nodes = 1 if profile else settings.validation.nodes
    return TrialRequest(
        identity=TrialIdentity.of(header.run_uid, start.trial, start.attempt, start.kind, start.config),
        problem=header.problem if profile else on_fewer_nodes(header.problem, nodes),
        config=start.config,
        device=header.device,
        nodes=nodes,
        processes_per_node=cluster.gpus_per_node,
        warmup_steps=1 if profile else settings.validation.warmup_steps,
        steps=PROFILE_REPETITIONS if profile else settings.validation.steps,
        cutoff_step_seconds=start.cutoff_step_seconds,
        seed=settings.random_seed,
        deadline_seconds=deadline_seconds,
    )
