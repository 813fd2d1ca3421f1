"""What is to be tuned: a model, a batch, a cluster and whose launch rules hold. Everything a formula may read."""

from typing import Literal

from pydantic import Field

from tunewright.domain.hardware import Cluster
from tunewright.domain.model_architecture import ModelArchitecture
from tunewright.domain.training_config import Optimizer, Precision
from tunewright.domain.value import Value

Backend = Literal["primus", "megatron", "torchtitan", "builtin"]
Implementation = Literal["torch", "transformer-engine"]


class TuningProblem(Value):
    """The fixed part of a run. `global_batch_size` counts sequences per optimizer step over all ranks."""

    model: ModelArchitecture
    sequence_length: int = Field(ge=1, le=2**24)
    global_batch_size: int = Field(ge=1, le=2**24)
    precision: Precision = "bf16"
    backend: Backend = Field("primus", description="Whose launch rules hold; `builtin` is our own trial program.")
    implementation: Implementation = Field(
        "transformer-engine", description="Whose kernels and saved tensors the models describe."
    )
    cluster: Cluster
    memory_safety_margin_percent: float = Field(2.0, ge=0, le=50)
    routing_imbalance: float = Field(
        1.0, ge=1, le=16, description="Rows of the busiest rank's experts over the balanced share."
    )

    @property
    def world_size(self) -> int:
        """Ranks of the whole job."""
        return self.cluster.world_size

    @property
    def usual_optimizer(self) -> Optimizer:
        """What a launcher's states are spread by when nobody says: torchtitan shards weights and gradients as well."""
        return "fsdp2" if self.backend == "torchtitan" else "distributed"

    @property
    def tokens_per_step(self) -> int:
        """Tokens that one optimizer step consumes."""
        return self.global_batch_size * self.sequence_length
