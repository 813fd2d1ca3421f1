"""Models, devices and problems for the memory tests, with the shapes of their public configurations."""

from tunewright.domain.hardware import Accelerator, Cluster, Network
from tunewright.domain.model_architecture import MixtureOfExperts, ModelArchitecture, MultiLatentAttention
from tunewright.domain.problem import TuningProblem
from tunewright.units import GIB


def architecture(name: str, layers: int, hidden: int, heads: int, groups: int, **more: object) -> ModelArchitecture:
    fields = {
        "name": name,
        "num_layers": layers,
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "num_key_value_heads": groups,
        "head_dim": hidden // heads,
    }
    return ModelArchitecture.model_validate({**fields, **more})


LLAMA_3_8B = architecture("llama-3-8b", 32, 4096, 32, 8, ffn_hidden_size=14336, vocabulary_size=128256)
LLAMA_3_70B = architecture("llama-3-70b", 80, 8192, 64, 8, ffn_hidden_size=28672, vocabulary_size=128256)
LLAMA_3_70B_12_LAYERS = LLAMA_3_70B.model_copy(update={"name": "llama-3-70b-12l", "num_layers": 12})
LLAMA_32_1B = architecture(
    "llama-3.2-1b", 16, 2048, 32, 8, ffn_hidden_size=8192, vocabulary_size=128256, tied_embeddings=True
)
MIXTRAL_8X22B = architecture(
    "mixtral-8x22b",
    56,
    6144,
    48,
    8,
    ffn_hidden_size=16384,
    vocabulary_size=32768,
    experts=MixtureOfExperts(num_experts=8, experts_per_token=2, expert_ffn_hidden_size=16384),
)
DEEPSEEK_V2_LITE = architecture(
    "deepseek-v2-lite",
    27,
    2048,
    16,
    16,
    ffn_hidden_size=10944,
    vocabulary_size=102400,
    latent_attention=MultiLatentAttention(
        query_rank=0, key_value_rank=512, unrotated_head_dim=128, rotated_head_dim=64, value_head_dim=128
    ),
    experts=MixtureOfExperts(
        num_experts=64,
        experts_per_token=6,
        expert_ffn_hidden_size=1408,
        shared_expert_ffn_hidden_size=2816,
        num_leading_dense_layers=1,
    ),
)
DEEPSEEK_V2_4_LAYERS = architecture(
    "deepseek-v2-4l",
    4,
    5120,
    128,
    128,
    ffn_hidden_size=12288,
    vocabulary_size=102400,
    latent_attention=MultiLatentAttention(
        query_rank=1536, key_value_rank=512, unrotated_head_dim=128, rotated_head_dim=64, value_head_dim=128
    ),
    experts=MixtureOfExperts(
        num_experts=160,
        experts_per_token=6,
        expert_ffn_hidden_size=1536,
        shared_expert_ffn_hidden_size=3072,
        num_leading_dense_layers=1,
    ),
)
MODELS = {
    model.name: model
    for model in (
        LLAMA_3_8B,
        LLAMA_3_70B,
        LLAMA_3_70B_12_LAYERS,
        LLAMA_32_1B,
        MIXTRAL_8X22B,
        DEEPSEEK_V2_LITE,
        DEEPSEEK_V2_4_LAYERS,
    )
}


def accelerator(name: str, vendor: str, architecture_name: str, usable_gib: float) -> Accelerator:
    return Accelerator(
        name=name,
        vendor=vendor,
        architecture=architecture_name,
        compute_units=256,
        peak_flops_per_second={"bf16": 1e15},
        matmul_efficiency=0.6,
        hbm_capacity_bytes=int(usable_gib * GIB),
        hbm_bytes_per_second=8e12,
        scale_up_bytes_per_second=5e11,
    )


MI355X = accelerator("mi355x", "amd", "gfx950", 287.98)
H100 = accelerator("h100", "nvidia", "sm_90", 79.2)
B200 = accelerator("b200", "nvidia", "sm_100", 178.35)
CPU = accelerator("cpu", "cpu", "", 16)
ACCELERATORS = {device.name: device for device in (MI355X, H100, B200, CPU)}


def problem(
    model: ModelArchitecture = LLAMA_3_8B, ranks: int = 8, device: Accelerator = MI355X, **more: object
) -> TuningProblem:
    in_node = min(ranks, 8)
    network = Network(name="roce", bytes_per_second_per_gpu=5e10)
    cluster = Cluster(nodes=ranks // in_node, gpus_per_node=in_node, accelerator=device, network=network)
    fields = {"model": model, "cluster": cluster, "sequence_length": 4096, "global_batch_size": 512}
    return TuningProblem.model_validate({**fields, **more})
