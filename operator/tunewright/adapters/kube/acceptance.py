"""From a TuningRun document to everything a run needs, or every reason why not. Pure but for the catalog's files.

Called by the operator's reconcile and by the command line, so both accept and refuse alike.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tunewright.adapters.kube.baseline import checked_baseline, unchecked_baseline
from tunewright.adapters.kube.empty_space import why_empty
from tunewright.adapters.kube.manifests import PodOptions
from tunewright.adapters.kube.problem_reader import (
    CPU,
    ConfigMapTexts,
    Findings,
    NotAccepted,
    read_accelerator,
    read_problem,
)
from tunewright.adapters.kube.settings_reader import given_fields, naming_spec_fields, planner_settings
from tunewright.adapters.kube.spec.search import OWN_KEY, LLMSpec
from tunewright.adapters.kube.spec.tuning_run import TuningRun, TuningRunSpec, read_tuning_run
from tunewright.domain.axes import AxisValue, axis_named
from tunewright.domain.catalog_loader import Catalog
from tunewright.domain.hardware import Accelerator
from tunewright.domain.problem import TuningProblem
from tunewright.domain.training_config import TrainingConfig
from tunewright.domain.value import camel_case
from tunewright.errors import Problem
from tunewright.planner.settings import PlannerSettings
from tunewright.search.space import Space, build_space
from tunewright.trial_protocol.request import ExpectedDevice


@dataclass(frozen=True)
class Accepted:
    """A TuningRun with every name resolved and every check passed."""

    document: TuningRun
    problem: TuningProblem
    settings: PlannerSettings
    device: ExpectedDevice
    pod_options: PodOptions
    llm: LLMSpec | None
    space: Space


@naming_spec_fields()
def accept(
    document: object,
    catalog: Catalog,
    *,
    cpu_accelerator: Accelerator | None = None,
    config_maps: ConfigMapTexts | None = None,
    default_image: str = "",
    default_llm: LLMSpec | None = None,
    build: Callable[[TuningProblem, PlannerSettings], Space] = build_space,
) -> Accepted:
    """Check and resolve a document; raise `InvalidInput`, `IllegalConfig` or `DoesNotFit` with all that is wrong.

    `default_llm` is for runs that want an LLM and name none. `build` makes the search space, or has it already.
    """
    run = read_tuning_run(document)
    spec = run.spec
    problem = read_problem(spec, catalog, config_maps or {}, cpu_accelerator)
    findings = Findings()
    device = _device(spec, problem, catalog, cpu_accelerator, findings)
    sweep = _sweep_axes(spec, findings)
    _check_cross_fields(spec, findings)
    llm = spec.llm or (default_llm if spec.explore.strategy == "LLM" else None)
    _check_llm(spec, llm, findings)
    findings.raise_if_any()
    baseline = checked_baseline(problem, given_fields(spec.baseline))
    settings = planner_settings(spec, problem, baseline, sweep, llm)
    space = build(problem, settings)
    _check_space(problem, settings, space)
    return Accepted(run, problem, settings, device, _pod_options(spec, problem, default_image), llm, space)


@naming_spec_fields()
def read_candidate(
    document: object,
    catalog: Catalog,
    *,
    cpu_accelerator: Accelerator | None = None,
    config_maps: ConfigMapTexts | None = None,
) -> tuple[TuningProblem, TrainingConfig]:
    """Return the problem and one configuration of it, which need not be legal; raise `InvalidInput`.

    For looking into a run that `accept` refuses: its search space may be empty and its baseline may not fit.
    """
    spec = read_tuning_run(document).spec
    problem = read_problem(spec, catalog, config_maps or {}, cpu_accelerator)
    return problem, unchecked_baseline(problem, given_fields(spec.baseline))


def check_runs_in_cluster(accepted: Accepted) -> None:
    """Check what only Pods need; raise `NotAccepted`. The command line plans runs that this refuses."""
    findings = Findings()
    if not accepted.pod_options.image:
        remedy = "is required: name an image with the trial program, or give the operator a default"
        findings.add("Illegal", Problem("spec.trial.image", None, remedy))
    findings.raise_if_any()


def _device(
    spec: TuningRunSpec, problem: TuningProblem, catalog: Catalog, cpu: Accelerator | None, findings: Findings
) -> ExpectedDevice:
    preset = spec.trial.device_preset or spec.cluster.accelerator.preset
    found = read_accelerator(preset, "spec.trial.devicePreset", catalog, cpu, findings)
    accelerator = found or problem.cluster.accelerator
    return ExpectedDevice(
        preset=preset,
        vendor=accelerator.vendor,
        architecture=accelerator.architecture,
        count=problem.cluster.gpus_per_node,
        hbm_capacity_bytes=0 if preset == CPU else accelerator.hbm_capacity_bytes,
    )


def _sweep_axes(spec: TuningRunSpec, findings: Findings) -> tuple[str, ...]:
    axes = [
        findings.attempt("Illegal", "spec.sweep.axes", lambda name=name: axis_named(name))  # type: ignore[misc]
        for name in spec.sweep.axes
    ]
    return tuple(dict.fromkeys(axis.field for axis in axes if axis is not None))


def _check_cross_fields(spec: TuningRunSpec, findings: Findings) -> None:
    """The rules that the API server has as CEL, for files that never meet it."""
    if spec.parallel_trials > spec.budget.max_trials:
        remedy = f"exceeds budget.maxTrials {spec.budget.max_trials}: lower it"
        findings.add("Illegal", Problem("spec.parallelTrials", spec.parallel_trials, remedy))
    nodes = spec.validation.nodes
    if nodes is not None and nodes > spec.cluster.nodes:
        remedy = f"exceeds cluster.nodes {spec.cluster.nodes}: lower it"
        findings.add("Illegal", Problem("spec.validation.nodes", nodes, remedy))
    if spec.llm is not None and spec.explore.strategy != "LLM":
        remedy = "is of no use with explore.strategy Surrogate: remove llm or set the strategy to LLM"
        findings.add("Illegal", Problem("spec.llm", spec.llm.model, remedy))


def _check_llm(spec: TuningRunSpec, llm: LLMSpec | None, findings: Findings) -> None:
    """An endpoint of the user's needs a key of the user's; a cost can only be reserved where the price is known."""
    if spec.llm is not None and spec.llm.api_base is not None and spec.llm.api_key_secret_ref is None:
        findings.add("Illegal", Problem("spec.llm", spec.llm.api_base, OWN_KEY))
    limit = spec.budget.max_llm_cost_usd
    if llm is not None and limit is not None and llm.price is None:
        place = "spec.llm.price" if spec.llm is not None else "spec.llm, as the operator's own endpoint has no price"
        remedy = f"needs {place}, or calls could not be reserved before they are made: give the endpoint's prices"
        findings.add("Illegal", Problem("spec.budget.maxLLMCostUSD", limit, remedy))


def _check_space(problem: TuningProblem, settings: PlannerSettings, space: Space) -> None:
    """The space always holds the baseline; alone and outside the given values, nothing that was asked for is legal."""
    if len(space.batch) > 1 or _is_within(settings.baseline, settings.search_space):
        return
    value = {camel_case(field): list(values) for field, values in settings.search_space.items()}
    remedy = f"allows no legal configuration: {why_empty(problem, settings)}; widen it"
    raise NotAccepted("EmptySpace", [Problem("spec.searchSpace", value, remedy)])


def _is_within(config: TrainingConfig, search_space: Mapping[str, tuple[AxisValue, ...]]) -> bool:
    values = {**config.model_dump(), "recompute_modules": "+".join(config.recompute_modules)}
    return all(values[field] in allowed for field, allowed in search_space.items())


def _pod_options(spec: TuningRunSpec, problem: TuningProblem, default_image: str) -> PodOptions:
    return PodOptions(
        image=spec.trial.image or default_image,
        trial=spec.trial,
        pod=spec.pod,
        gpus_per_node=problem.cluster.gpus_per_node,
        pci_device_ids=problem.cluster.accelerator.pci_device_ids,
    )
