"""Turns `workload` and `cluster` of a TuningRun into the problem, collecting everything that is wrong. Called by
`acceptance`; pure but for the catalog's files.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from tunewright.adapters.kube.spec.tuning_run import TuningRunSpec
from tunewright.adapters.kube.spec.workload import ModelRef
from tunewright.domain.catalog_loader import Catalog
from tunewright.domain.hardware import Accelerator, Cluster, Network
from tunewright.domain.huggingface import architecture_from_config
from tunewright.domain.model_architecture import ModelArchitecture
from tunewright.domain.problem import Backend, Implementation, TuningProblem
from tunewright.errors import InvalidInput, Problem

CPU = "cpu"
_LONGEST_MODEL_NAME = 63
ConfigMapTexts = Mapping[tuple[str, str], str]
"""Contents of ConfigMap keys that a spec refers to, by name and key."""

_IMPLEMENTATIONS: Mapping[Backend, Implementation] = {"builtin": "torch", "torchtitan": "torch"}
_Result = TypeVar("_Result")


class NotAccepted(InvalidInput):
    """A TuningRun that cannot run as it is. `reason` is a reason of the condition Accepted."""

    def __init__(self, reason: str, problems: list[Problem]) -> None:
        self.reason = reason
        super().__init__(problems)


@dataclass
class Findings:
    """Problems found so far, with the condition reason of the first."""

    problems: list[Problem] = field(default_factory=list)
    reason: str = ""

    def add(self, reason: str, *problems: Problem) -> None:
        """Note problems."""
        self.reason = self.reason or reason
        self.problems.extend(problems)

    def attempt(self, reason: str, path: str, read: Callable[[], _Result]) -> _Result | None:
        """Call `read`; note what is wrong under `path` and return None when it refuses."""
        try:
            return read()
        except InvalidInput as error:
            self.add(reason, *(Problem(path, problem.value, problem.remedy) for problem in error.problems))
            return None

    def attempt_within(self, reason: str, path: str, read: Callable[[], _Result]) -> _Result | None:
        """Do the same for a document at `path`: its own keys are named too."""
        try:
            return read()
        except InvalidInput as error:
            for problem in error.problems:
                where = f"{path} ({problem.field})" if problem.field else path
                self.add(reason, Problem(where, problem.value, problem.remedy))
            return None

    def raise_if_any(self) -> None:
        """Raise `NotAccepted` with everything that was found."""
        if self.problems:
            raise NotAccepted(self.reason, self.problems)


def read_problem(
    spec: TuningRunSpec, catalog: Catalog, config_maps: ConfigMapTexts, cpu: Accelerator | None
) -> TuningProblem:
    """Resolve every name of `workload` and `cluster`; raise `NotAccepted` with all that do not resolve."""
    findings = Findings()
    model = _model(spec.workload.model, catalog, config_maps, findings)
    accelerator = read_accelerator(
        spec.cluster.accelerator.preset, "spec.cluster.accelerator.preset", catalog, cpu, findings
    )
    network = _network(spec, catalog, findings)
    findings.raise_if_any()
    if model is None or accelerator is None or network is None:
        raise AssertionError("a name that does not resolve is a finding")
    cluster = Cluster(
        nodes=spec.cluster.nodes, gpus_per_node=spec.cluster.gpus_per_node, accelerator=accelerator, network=network
    )
    return TuningProblem(
        model=model,
        sequence_length=spec.workload.sequence_length,
        global_batch_size=spec.workload.global_batch_size,
        precision=spec.workload.precision,
        backend=spec.workload.backend,
        implementation=_IMPLEMENTATIONS.get(spec.workload.backend, "transformer-engine"),
        cluster=cluster,
        memory_safety_margin_percent=spec.memory_model.safety_margin_percent,
    )


def read_accelerator(
    preset: str, path: str, catalog: Catalog, cpu: Accelerator | None, findings: Findings
) -> Accelerator | None:
    """Return a preset; for `cpu`, the measured values of the machine where the caller has them."""
    if preset == CPU and cpu is not None:
        return cpu
    return findings.attempt("UnknownPreset", path, lambda: catalog.accelerator(preset))


def _model(
    reference: ModelRef, catalog: Catalog, config_maps: ConfigMapTexts, findings: Findings
) -> ModelArchitecture | None:
    preset, where = reference.preset, reference.config_map_key_ref
    if preset is not None:
        return findings.attempt("UnknownPreset", "spec.workload.model.preset", lambda: catalog.model(preset))
    if where is None:
        return reference.architecture
    path = "spec.workload.model.configMapKeyRef"
    text = config_maps.get((where.name, where.key))
    if text is None:
        remedy = (
            "does not exist: create this ConfigMap with a Hugging Face config.json; "
            "on the command line, name that file with --model-config"
        )
        findings.add("ReferenceNotFound", Problem(path, f"{where.name}/{where.key}", remedy))
        return None
    name = where.name[:_LONGEST_MODEL_NAME]
    return findings.attempt_within("Illegal", path, lambda: architecture_from_config(text, name))


def _network(spec: TuningRunSpec, catalog: Catalog, findings: Findings) -> Network | None:
    named = spec.cluster.network
    if named is not None:
        return findings.attempt("UnknownPreset", "spec.cluster.network.preset", lambda: catalog.network(named.preset))
    accelerator = spec.cluster.accelerator.preset
    if accelerator not in catalog.accelerators:
        return None  # the accelerator itself is the finding
    return findings.attempt("UnknownPreset", "spec.cluster.network", lambda: catalog.default_network_for(accelerator))
