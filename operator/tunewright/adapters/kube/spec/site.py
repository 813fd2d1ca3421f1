"""What the owners of a cluster set for all runs: defaults of trials, what runs may name, limits of namespaces.

The chart puts it into the operator's environment, `controller.settings` reads it, `adapters.kube.site` applies it.
"""

from typing import Annotated

from pydantic import Field, StringConstraints

from tunewright.adapters.kube.spec.base import ObjectName, PositiveDecimal, unique_by
from tunewright.adapters.kube.spec.trial import EnvVar, PodSpec
from tunewright.domain.value import Value

Prefix = Annotated[str, StringConstraints(min_length=1, max_length=512, pattern=r"^\S+$")]


class TrialDefaults(Value):
    """What trials have where their run leaves a field at its default."""

    pod: PodSpec = Field(PodSpec(), description="In the words of a run's spec.pod.")
    env: Annotated[tuple[EnvVar, ...], unique_by("name")] = Field(
        (), description="Variables of every trial; a run's own of the same name win."
    )


class Allowed(Value):
    """What runs may name. An empty list allows everything."""

    images: tuple[Prefix, ...] = Field(
        (),
        description="For spec.trial.image: whole references, or what comes before a / : or @ in them, such as"
        " registry.example.com/ml. The default image is always allowed.",
    )
    llm_models: tuple[Prefix, ...] = Field(
        (),
        description="For spec.llm.model: whole LiteLLM names, or what comes before a /, such as openai. The operator's"
        " own endpoint is always allowed.",
    )
    llm_addresses: tuple[Prefix, ...] = Field(
        (), description="For spec.llm.apiBase: whole addresses. With a list, each run has to name one of them."
    )
    claims: tuple[ObjectName, ...] = Field((), description="For the claimName of spec.trial.volumes.")


class NamespaceLimit(Value):
    """What all runs of one namespace may use together."""

    namespace: ObjectName
    max_llm_cost_usd: PositiveDecimal | None = Field(
        None,
        description="USD. Once the namespace's TuningRuns have spent it, deleted ones included, their LLMs are asked no"
        " more, and the surrogate goes on alone. Runs there need prices: spec.llm.price, or llm.price.",
    )


class Site(Value):
    """Everything of this cluster."""

    trial: TrialDefaults = TrialDefaults()
    allow: Allowed = Allowed()
    namespace_limits: Annotated[tuple[NamespaceLimit, ...], unique_by("namespace")] = ()

    def llm_limit(self, namespace: str) -> float | None:
        """Return how many USD the LLMs of a namespace's runs may cost; None: as much as they like."""
        limits = {limit.namespace: limit.max_llm_cost_usd for limit in self.namespace_limits}
        found = limits.get(namespace)
        return None if found is None else float(found)
