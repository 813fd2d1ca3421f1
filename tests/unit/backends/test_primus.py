"""Primus: an experiment that stands alone, a script with real exports, and what a run prints read back."""

import os
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.support.builders import a_cluster, a_model, a_problem, mixtral_problem
from tunewright.backends import primus, primus_launch
from tunewright.backends.training_log import failure_of, iterations
from tunewright.domain.catalog_loader import shipped_catalog
from tunewright.domain.training_config import TrainingConfig
from tunewright.trial_protocol.report import FailureClass
from tunewright.units import GIB

LOG = """\
[rank-7] iteration        1/      50 | consumed samples:  512 | elapsed time per iteration (ms): 9000.0/9000.0 \
| tokens/s/GPU inst/harmonic mean: 3640.9/3640.9 | lm loss: 1.193843E+01 | rank-3 rocm max mem usage/usage_ratio: \
200.00GB/69.44% |
loading something
[rank-7] iteration        2/      50 | elapsed time per iteration (ms): 7658.8/8329.4 | lm loss: 1.18E+01 \
| hip mem usage/free/total/usage_ratio: 201.50GB/86.5GB/288.00GB/69.97% |
"""


def test_an_experiment_describes_the_model_itself() -> None:
    document = yaml.safe_load(primus.render(mixtral_problem(), TrainingConfig(expert_parallel_size=8)))
    trainer = document["modules"]["pre_trainer"]
    assert (trainer["framework"], trainer["model"]) == ("megatron", "language_model.yaml")
    keys = trainer["overrides"]
    shape = ("num_layers", "hidden_size", "num_attention_heads", "num_query_groups", "num_experts", "moe_router_topk")
    assert [keys[name] for name in shape] == [56, 6144, 48, 8, 8, 2]
    assert (keys["mock_data"], keys["save"], keys["tokenizer_type"]) == (True, None, "NullTokenizer")


@pytest.mark.parametrize("name", sorted(shipped_catalog().models))
def test_every_model_of_the_catalog_is_written_without_leftovers(name: str) -> None:
    model = shipped_catalog().model(name)
    keys = primus.overrides(a_problem(model=model), TrainingConfig())
    assert keys["untie_embeddings_and_output_weights"] is not model.tied_embeddings
    assert keys["multi_latent_attention"] is (model.latent_attention is not None)
    assert (keys["num_experts"] or 0) == (model.experts.num_experts if model.experts else 0)


def test_leading_dense_layers_become_a_pattern() -> None:
    keys = primus.overrides(a_problem(model=shipped_catalog().model("deepseek-v3")), TrainingConfig())
    assert keys["moe_layer_freq"] == "([0]*3+[1]*58)"


def test_the_script_exports_what_its_command_sees(tmp_path: Path) -> None:
    """Run it against a stand-in that prints its environment and arguments."""
    problem = a_problem(cluster=a_cluster("mi300x"))
    (tmp_path / "best-primus.sh").write_text(primus_launch.render(problem, TrainingConfig()))
    stand_in = tmp_path / "primus" / "runner" / "primus-cli"
    stand_in.parent.mkdir(parents=True)
    stand_in.write_text('env; echo "arguments: $*"\n')
    environment = {
        "PATH": os.environ["PATH"],
        "NODE_RANK": "1",
        "MASTER_ADDR": "node-0",
        "PRIMUS_HOME": str(tmp_path / "primus"),
    }
    command = ["bash", str(tmp_path / "best-primus.sh"), "--train_iters", "10"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert {"NNODES=2", "GPUS_PER_NODE=4", "NODE_RANK=1", "MASTER_PORT=1234", "HSA_NO_SCRATCH_RECLAIM=1"} <= set(lines)
    assert "NVTE_CK_IS_V3_ATOMIC_FP32=1" in lines  # gfx942 alone
    expected = f"direct -- train pretrain --config {tmp_path}/best-primus.yaml --train_iters 10"
    assert f"arguments: {expected}" in lines


def test_the_script_says_what_is_not_set() -> None:
    script = primus_launch.render(a_problem(), TrainingConfig())
    done = subprocess.run(["bash", "-c", script], env={"PATH": os.environ["PATH"]}, capture_output=True, text=True)
    assert done.returncode != 0
    assert "set it to the number of this node" in done.stderr


def test_deepep_and_gfx942_need_variables_of_their_own() -> None:
    deepep = TrainingConfig(moe_dispatcher="deepep", expert_parallel_size=8)
    assert "PRIMUS_TURBO_MOE_DISPATCH_COMBINE_BACKEND" in primus_launch.exports(mixtral_problem(), deepep)
    plain = primus_launch.exports(a_problem(model=a_model()), TrainingConfig())
    assert set(plain) == {"HSA_NO_SCRATCH_RECLAIM", "GPU_MAX_HW_QUEUES", "NVTE_CK_USES_BWD_V3"}


def test_iterations_are_read_in_order_with_the_instant_time() -> None:
    first, second = iterations(LOG)
    assert (first.number, first.seconds, first.loss, first.memory_bytes) == (1, 9.0, 11.93843, 200 * GIB)
    assert (second.seconds, second.loss, second.memory_bytes) == (7.6588, 11.8, int(201.5 * GIB))


def test_plain_megatron_lines_are_read_too() -> None:
    line = " [2026-08-20 10:00:00] iteration  10/  20 | elapsed time per iteration (ms): 812.5 | lm loss: nan |"
    (found,) = iterations(line)
    assert found.seconds == 0.8125
    assert found.loss != found.loss


@pytest.mark.parametrize("text", ["", "iteration 3/", "elapsed time per iteration (ms): 3", "iteration x/y | | |"])
def test_lines_without_number_or_time_are_no_iterations(text: str) -> None:
    assert iterations(text) == ()


@pytest.mark.parametrize(
    ("log", "code", "failure"),
    [
        ("torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 GiB\nNCCL error", 1, "DeviceOutOfMemory"),
        ("RCCL watchdog error: remote process exited", 1, "RcclFailure"),
        ("pretrain.py: error: unrecognized arguments: --x", 2, "Unsupported"),
        ("ValueError: 3", 1, "CrashInTraining"),
        ("", 1, "CrashInTraining"),
        ("", -9, "HostOOMKilled"),
        ("RuntimeError: No HIP GPUs are available", 1, "DeviceMismatch"),
        ("iteration 3/ 5 | number of nan iterations:   1 |", 0, "NaNLoss"),
    ],
)
def test_a_failed_run_has_its_class(log: str, code: int, failure: FailureClass) -> None:
    found = failure_of(log, code)
    assert found is not None and found[0] == failure
    assert found[1]


def test_a_run_that_ended_well_has_no_failure() -> None:
    assert failure_of(LOG + "| number of nan iterations:   0 |", 0) is None
