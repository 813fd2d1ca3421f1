"""Accelerators, networks and the cluster they form. Numbers live in the catalog, each with its source."""

from typing import Annotated, Literal

from pydantic import Field

from tunewright.domain.training_config import Precision
from tunewright.domain.value import Value

MOST_NODES, MOST_GPUS_PER_NODE = 16_384, 256

Vendor = Literal["amd", "nvidia", "cpu"]


class Calibration(Value):
    """What `tunewright calibrate` fitted for one accelerator: twelve numbers; everything else is derived.

    The defaults hold for a device without measurements: the middle of those that have some.
    """

    sustained_matmul: float = Field(0.85, gt=0, le=2, description="Large GEMM in a step over the best measured one.")
    fp8_matmul: float = Field(1.0, gt=0, le=2, description="8-bit over bf16 efficiency, each against its peak.")
    grouped_matmul: float = Field(0.9, gt=0, le=2, description="Grouped over plain GEMM at equal tiles.")
    attention: float = Field(0.65, gt=0, le=2, description="Flash attention's forward pass over the best GEMM.")
    host_seconds_per_layer: float = Field(7e-4, ge=0, description="Host time to launch one layer's forward pass.")
    host_seconds_per_expert_layer: float = Field(2e-3, ge=0, description="What routed experts add to it.")
    tensor_overlap: float = Field(0.5, ge=0, le=1, description="Share of GEMM time that hides tensor collectives.")
    expert_bandwidth: float = Field(0.9, gt=0, le=3, description="All-to-all over the rate of other collectives.")
    step_overhead_seconds: float = Field(0.02, ge=0, description="Data, logging, norms and barriers of one step.")
    hbm_bandwidth: float = Field(1.0, gt=0, le=3, description="Streaming kernels over hbmEfficiency.")
    scale_up_bandwidth: float = Field(1.0, gt=0, le=3, description="Collectives in the node over scaleUpEfficiency.")
    scale_out_bandwidth: float = Field(1.0, gt=0, le=3, description="Collectives between nodes over the network's.")
    measured: tuple[str, ...] = Field((), description="Kinds of rows that the fit has seen.")
    interval_dense: float = Field(0.15, gt=0, description="Half width of the 80 % interval of log step time, dense.")
    interval_moe: float = Field(0.20, gt=0, description="The same for models with experts.")


class Accelerator(Value):
    """One device. Peaks are dense; memory is what torch reports as total capacity."""

    name: str
    vendor: Vendor = Field(description="`amd`, `nvidia` or `cpu`.")
    architecture: str = Field("", description="gfx950, sm_90, ...: what a trial checks; empty: not checked.")
    pci_device_ids: tuple[str, ...] = Field((), description="Values of the node label amd.com/gpu.device-id.")
    compute_units: int = Field(ge=1)
    peak_flops_per_second: dict[Precision, Annotated[float, Field(gt=0)]] = Field(
        min_length=1, description="By precision: bf16, fp8, mxfp8, fp32."
    )
    matmul_efficiency: float = Field(gt=0, le=1, description="Best measured large matmul over the bf16 peak.")
    hbm_capacity_bytes: int = Field(ge=1, description="Usable bytes.")
    hbm_bytes_per_second: float = Field(gt=0)
    hbm_efficiency: float = Field(0.8, gt=0, le=1)
    launch_overhead_seconds: float = Field(5e-6, ge=0, description="Floor of one kernel launch.")
    scale_up_bytes_per_second: float = Field(gt=0, description="One direction, per device, inside the node.")
    scale_up_latency_seconds: float = Field(5e-6, ge=0)
    scale_up_efficiency: float = Field(0.75, gt=0, le=1)
    scale_up_is_mesh: bool = Field(False, description="Point-to-point links: n of g devices use (n-1)/(g-1) of them.")
    scale_up_domain: int = Field(8, ge=1, description="Devices that reach each other over scale-up links.")
    calibration: Calibration = Calibration()
    sources: dict[str, str] = Field(default_factory=dict, description="Where each number comes from.")


class Network(Value):
    """The scale-out network between nodes."""

    name: str
    bytes_per_second_per_gpu: float = Field(gt=0, description="One direction.")
    latency_seconds: float = Field(1e-5, ge=0)
    efficiency: float = Field(0.8, gt=0, le=1)
    sources: dict[str, str] = Field(default_factory=dict)


class Cluster(Value):
    """Homogeneous nodes of one accelerator over one network."""

    nodes: int = Field(ge=1, le=MOST_NODES)
    gpus_per_node: int = Field(ge=1, le=MOST_GPUS_PER_NODE)
    accelerator: Accelerator
    network: Network

    @property
    def world_size(self) -> int:
        """Ranks of the whole job: one per accelerator."""
        return self.nodes * self.gpus_per_node
