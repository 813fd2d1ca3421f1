"""Rows of a table as measurements: what is derived, what is assumed, what is skipped and why."""

import pytest

from tunewright.calibration.layout import balanced_layout, single_layer_chunks
from tunewright.calibration.measured_row import MeasuredRow, SkippedRow
from tunewright.calibration.reading import format_of, read_rows
from tunewright.domain.catalog_loader import shipped_catalog
from tunewright.errors import InvalidInput

ROW = {
    "id": "a",
    "model": "Llama3-8B",
    "layers": "32",
    "hidden": "4096",
    "ffn": "14336",
    "heads": "32",
    "kv_heads": "8",
    "vocab": "128256",
    "gpu": "MI355X",
    "n_gpus": "16",
    "gpus_per_node": "8",
    "seq": "8192",
    "gbs": "64",
    "mbs": "2",
    "tp": "2",
    "pp": "1",
    "vpp": "1",
    "cp": "1",
    "schedule": "none",
    "recompute": "none",
    "precision": "bf16",
    "tokens_s_gpu": "8192",
    "step_time_s": "",
    "tflops_gpu": "",
    "mem_gb_measured": "",
    "memory_kind": "",
    "scored": "yes",
    "software": "primus",
    "source_url": "https://example.org/a",
}


def read(**changes: str) -> tuple[list[MeasuredRow], list[SkippedRow]]:
    row = ROW | changes
    table = ",".join(row) + "\n" + ",".join(f'"{value}"' for value in row.values()) + "\n"
    return read_rows(table, "published", shipped_catalog())


def used(**changes: str) -> MeasuredRow:
    rows, skipped = read(**changes)
    assert not skipped, skipped
    return rows[0]


def reason(**changes: str) -> str:
    rows, skipped = read(**changes)
    assert not rows
    return skipped[0].reason


def test_step_time_follows_from_tokens_per_second() -> None:
    row = used()
    assert row.step_seconds == pytest.approx(64 * 8192 / (8192 * 16))
    assert "step time from tokens/s/GPU" in row.notes
    assert (row.problem.cluster.nodes, row.config.tensor_parallel_size) == (2, 2)


def test_a_stated_step_time_is_taken_as_it_is() -> None:
    assert used(step_time_s="3.5").step_seconds == 3.5


def test_what_is_not_stated_takes_the_launchers_default_and_says_so() -> None:
    row = used(recompute="", schedule="", pp="4", tp="1", vpp="")
    assert (row.config.recompute_granularity, row.config.pipeline_schedule) == ("none", "1f1b")
    assert any("recomputation not stated" in note for note in row.notes)
    assert any("schedule not stated" in note for note in row.notes)


def test_unstated_recomputation_is_the_least_that_fits() -> None:
    row = used(recompute="", gpu="A100-80GB", mbs="2", gbs="64", tp="1")
    assert row.config.recompute_granularity != "none"
    assert any("least that fits" in note for note in row.notes)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"gbs": ""}, "gbs is not stated"),
        ({"mbs": "3"}, "gbs 64 is not a multiple of mbs·dp 24"),
        ({"gpu": "TPU"}, "gpu is not in the catalog: TPU"),
        ({"precision": "nvfp4"}, "precision is not modelled: nvfp4"),
        ({"schedule": "dualpipe"}, "schedule is not modelled: dualpipe"),
        ({"recompute": "selective:everything"}, "recompute module is not known: everything"),
        ({"scored": "no:lora"}, "not scored: lora"),
        ({"tokens_s_gpu": ""}, "has neither a time nor a memory figure"),
        ({"hidden": "many"}, "hidden is not a number: many"),
    ],
)
def test_a_row_that_cannot_be_used_is_skipped_with_its_reason(changes: dict[str, str], expected: str) -> None:
    assert reason(**changes) == expected


def test_columns_go_over_the_preset_that_a_name_suggests() -> None:
    changes = {"layers": "4", "hidden": "5120", "ffn": "12288", "heads": "128", "kv_heads": "128", "vocab": "102400"}
    experts = {"experts": "160", "topk": "6", "moe_ffn": "1536", "shared_experts": "2", "ep": "8", "tp": "1"}
    model = used(model="DeepSeek-V2-4L", **changes, **experts).problem.model
    assert (model.num_layers, model.num_dense_layers) == (4, 1)
    assert model.latent_attention is not None
    assert model.experts is not None
    assert model.experts.shared_expert_ffn_hidden_size == 2 * 1536


def test_layers_that_do_not_divide_leave_the_outer_stages_shorter() -> None:
    assert balanced_layout(32, 0, 4, 2) == "even"
    assert balanced_layout(22, 0, 8, 1) == "2,3,3,3,3,3,3,2"
    stages = [int(part) for part in balanced_layout(126, 0, 8, 4).split(",")]
    assert (len(stages), sum(stages), stages[0], stages[-1]) == (32, 126, 3, 3)
    assert single_layer_chunks(22, 8) == 3


def test_vtrain_rows_recompute_fully_and_use_no_flash_attention() -> None:
    table = (
        "# GPUs,global batch,micro batch,hidden size,attention heads,# layers,sequence length,tensor parallelism,"
        "data parallelism,pipeline parallelism,iteration time (ms)\n8,16,8,1024,16,16,1024,4,1,2,134.5\n"
        "8,16,8,1024,16,16,1024,4,1,1,134.5\n"
    )
    assert format_of(table) == "vtrain"
    rows, skipped = read_rows(table, "vtrain", shipped_catalog())
    assert rows[0].config.recompute_granularity == "full"
    assert not rows[0].software.flash_attention
    assert rows[0].software.gradient_bytes == 2
    assert rows[0].step_seconds == pytest.approx(0.1345)
    assert skipped[0].reason == "tensor·data·pipeline 4 is not # GPUs 8"


def test_the_other_format_is_named_when_columns_are_missing() -> None:
    with pytest.raises(InvalidInput, match="use the other format"):
        read_rows("a,b\n1,2\n", "published", shipped_catalog())
