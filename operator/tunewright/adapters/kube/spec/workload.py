"""`workload` and `cluster`: what is trained, on what. Immutable. Read by `acceptance`."""

from pydantic import ConfigDict, Field, model_validator

from tunewright.adapters.kube.spec.base import KeyRef, PresetName, rule, validated
from tunewright.domain.hardware import MOST_GPUS_PER_NODE, MOST_NODES
from tunewright.domain.model_architecture import ModelArchitecture
from tunewright.domain.problem import Backend
from tunewright.domain.training_config import Precision
from tunewright.domain.value import Value

_ONE_MODEL = "set exactly one of preset, configMapKeyRef and architecture"


class ModelRef(Value):
    """The model: a preset of the catalog, a Hugging Face config.json in a ConfigMap, or its sizes in place."""

    model_config = ConfigDict(
        json_schema_extra=validated(
            rule(
                "[has(self.preset), has(self.configMapKeyRef), has(self.architecture)].filter(x, x).size() == 1",
                message=_ONE_MODEL,
            )
        )
    )
    preset: PresetName | None = Field(None, description="A model of the catalog, such as llama-3-70b.")
    config_map_key_ref: KeyRef | None = Field(None, description="Key with a Hugging Face config.json.")
    architecture: ModelArchitecture | None = None

    @model_validator(mode="after")
    def _is_one(self) -> "ModelRef":
        if [self.preset, self.config_map_key_ref, self.architecture].count(None) != 2:
            raise ValueError(_ONE_MODEL)
        return self


class WorkloadSpec(Value):
    """One training job."""

    model_config = ConfigDict(
        json_schema_extra=validated(
            rule("self == oldSelf", message="is immutable: create a TuningRun with another name")
        )
    )
    model: ModelRef
    sequence_length: int = Field(ge=1, le=2**24, description="Tokens per sequence.")
    global_batch_size: int = Field(ge=1, le=2**24, description="Sequences per optimizer step over all ranks.")
    precision: Precision = Field("bf16", description="Number format of the large products.")
    backend: Backend = Field("primus", description="Whose launch rules hold; every export is written anyway.")


class PresetRef(Value):
    """An entry of the catalog."""

    preset: PresetName = Field(description="Its name in the catalog, such as mi355x.")


class ClusterSpec(Value):
    """What is modelled: homogeneous nodes of one accelerator over one network."""

    model_config = ConfigDict(
        json_schema_extra=validated(
            rule("self == oldSelf", message="is immutable: create a TuningRun with another name")
        )
    )
    nodes: int = Field(ge=1, le=MOST_NODES, description="Nodes of the training job.")
    gpus_per_node: int = Field(
        8, ge=1, le=MOST_GPUS_PER_NODE, description="Accelerators of a node; trials take whole nodes."
    )
    accelerator: PresetRef
    network: PresetRef | None = Field(None, description="Default: the catalog's network for this accelerator.")
