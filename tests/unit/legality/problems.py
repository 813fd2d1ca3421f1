"""Small problems for the rule tables: real models on a real accelerator, changed where a row needs it."""

from tunewright.domain.catalog_loader import shipped_catalog
from tunewright.domain.hardware import Cluster
from tunewright.domain.model_architecture import ModelArchitecture
from tunewright.domain.problem import Backend, TuningProblem
from tunewright.domain.training_config import Precision


def a_model(preset: str = "llama-3-8b", **changes: object) -> ModelArchitecture:
    """A catalog model with some fields changed; `experts_<field>` changes a field of the experts."""
    document = shipped_catalog().model(preset).model_dump()
    for name, value in changes.items():
        if name.startswith("experts_"):
            document["experts"][name.removeprefix("experts_")] = value
        else:
            document[name] = value
    return ModelArchitecture.parse(document)


def a_problem(
    model: ModelArchitecture | str = "llama-3-8b",
    *,
    nodes: int = 2,
    gpus_per_node: int = 8,
    batch: int = 64,
    sequence: int = 4096,
    backend: Backend = "primus",
    accelerator: str = "mi355x",
    precision: Precision = "bf16",
) -> TuningProblem:
    """16 MI355X under Primus unless a row says otherwise."""
    catalog = shipped_catalog()
    return TuningProblem(
        model=catalog.model(model) if isinstance(model, str) else model,
        sequence_length=sequence,
        global_batch_size=batch,
        precision=precision,
        backend=backend,
        cluster=Cluster(
            nodes=nodes,
            gpus_per_node=gpus_per_node,
            accelerator=catalog.accelerator(accelerator),
            network=catalog.default_network_for(accelerator),
        ),
    )
