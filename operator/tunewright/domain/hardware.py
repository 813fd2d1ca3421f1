"""Accelerators, networks and the cluster they form. Numbers live in the catalog, each with its source."""

from pydantic import Field

from tunewright.domain.value import Value


class Accelerator(Value):
    """One device. Peaks are dense; memory is what torch reports as total capacity."""

    name: str
    vendor: str = Field(description="`amd`, `nvidia` or `cpu`.")
    architecture: str = Field("", description="gfx950, sm_90, ...: what a trial checks; empty: not checked.")
    pci_device_ids: tuple[str, ...] = Field((), description="Values of the node label amd.com/gpu.device-id.")
    compute_units: int = Field(ge=1)
    peak_flops_per_second: dict[str, float] = Field(description="By precision: bf16, fp8, mxfp8, fp32.")
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

    nodes: int = Field(ge=1, le=16384)
    gpus_per_node: int = Field(ge=1, le=256)
    accelerator: Accelerator
    network: Network

    @property
    def world_size(self) -> int:
        """Ranks of the whole job: one per accelerator."""
        return self.nodes * self.gpus_per_node
