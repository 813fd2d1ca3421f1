"""Stands in for `primus-cli` where there is no ROCm image: checks what it is given, then prints what Primus prints.

It obeys the documented contract of AMD-AGI/Primus (command line, experiment keys and their traps, output lines) and
trains nothing. A step takes 4 ms for each layer and micro batch, and 10 ms for the rest. STAND_IN_FAULT is oom, crash,
hang or nan.
"""

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Any

import yaml

LAYER_MILLISECONDS, REST_MILLISECONDS = 4.0, 10.0
MEMORY_GIB = 12.5
MEGATRON_SCHEDULES = ("1f1b", "1f1b-interleaved")


def main() -> None:
    arguments = parsed(sys.argv[1:])
    keys = experiment(Path(arguments.config))
    check(keys, int(os.environ["NNODES"]) * int(os.environ["GPUS_PER_NODE"]))
    Path(arguments.log_file).write_text("stand-in\n")
    fault(os.environ.get("STAND_IN_FAULT", ""))
    if int(os.environ["NODE_RANK"]) == int(os.environ["NNODES"]) - 1:  # the last rank prints
        train(keys, int(arguments.train_iters))


def parsed(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("primus-cli")
    parser.add_argument("mode", choices=["direct"])
    parser.add_argument("--log_file", required=True)
    parser.add_argument("verb", choices=["train"])
    parser.add_argument("suite", choices=["pretrain"])
    parser.add_argument("--config", required=True)
    parser.add_argument("--train_iters", required=True)
    parser.add_argument("--seed")
    return parser.parse_args([word for word in words if word != "--"])


def experiment(path: Path) -> dict[str, Any]:
    document = yaml.safe_load(path.read_text())
    assert {"work_group", "user_name", "exp_name", "workspace", "modules"} <= document.keys()
    trainer = document["modules"]["pre_trainer"]
    assert trainer["framework"] == "megatron" and trainer["config"] == "pre_trainer.yaml"
    assert trainer["model"] == "language_model.yaml", "names a model file that may not exist"
    overrides: dict[str, Any] = trainer["overrides"]
    return overrides


def check(keys: dict[str, Any], world: int) -> None:
    inner = keys["tensor_model_parallel_size"] * keys["context_parallel_size"] * keys["pipeline_model_parallel_size"]
    assert world % inner == 0, f"world size ({world}) is not divisible by {inner}"
    data = world // inner
    assert keys["global_batch_size"] % (keys["micro_batch_size"] * data) == 0, "global batch size is not divisible"
    assert keys["num_layers"] % keys["pipeline_model_parallel_size"] == 0 or keys.keys() & {
        "decoder_first_pipeline_num_layers",
        "pipeline_model_parallel_layout",
    }
    own = keys["pp_algorithm"] not in MEGATRON_SCHEDULES
    assert keys["patch_primus_pipeline"] is own, "pp_algorithm is inert without patch_primus_pipeline"
    if keys.get("use_turbo_deepep"):
        assert keys["enable_primus_turbo"] and keys["moe_router_dtype"] == "fp32"
        assert keys["moe_shared_expert_overlap"] is False
    assert keys["mock_data"] and keys["tokenizer_type"] == "NullTokenizer"


def fault(kind: str) -> None:
    if kind == "oom":
        print("torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of")
        print("RCCL error: remote process exited")
        sys.exit(1)
    if kind == "crash":
        sys.exit("ValueError: something that no one foresaw")
    if kind == "hang":
        time.sleep(3600)


def train(keys: dict[str, Any], count: int) -> None:
    data = (
        int(os.environ["NNODES"])
        * int(os.environ["GPUS_PER_NODE"])
        // (keys["tensor_model_parallel_size"] * keys["context_parallel_size"] * keys["pipeline_model_parallel_size"])
    )
    micro_batches = keys["global_batch_size"] // (keys["micro_batch_size"] * data)
    layers = keys["num_layers"] / keys["pipeline_model_parallel_size"]
    milliseconds = REST_MILLISECONDS + LAYER_MILLISECONDS * layers * micro_batches
    for number in range(1, count + 1):
        loss = "nan" if os.environ.get("STAND_IN_FAULT") == "nan" else f"{12 - number / 100:.6E}"
        print(
            f"[rank-7] iteration {number:8d}/{count:8d} | consumed samples: 1 | elapsed time per iteration (ms): "
            f"{milliseconds:.1f}/{milliseconds:.1f} | tokens/s/GPU inst/harmonic mean: 1.0/1.0 | lm loss: {loss} | "
            f"rank-0 rocm max mem usage/usage_ratio: {MEMORY_GIB:.2f}GB/4.34% | number of nan iterations:   0 |"
        )


if __name__ == "__main__":
    main()
