"""How a Primus experiment is started: environment and command, as a script. Pure.

Used by the exports of a finished run (`best-primus.sh`) and by the trial program's Primus runner. Variables and
command are those of AMD-AGI/Primus: runner/primus-cli, docs on environment variables.
"""

import shlex

from tunewright.domain.problem import TuningProblem
from tunewright.domain.training_config import TrainingConfig

CLI = "runner/primus-cli"
EXPERIMENT = "best-primus.yaml"


def exports(problem: TuningProblem, config: TrainingConfig) -> dict[str, str]:
    """Return the variables that this configuration needs; network interfaces are the cluster's own business."""
    variables = {"HSA_NO_SCRATCH_RECLAIM": "1", "GPU_MAX_HW_QUEUES": "2", "NVTE_CK_USES_BWD_V3": "1"}
    if problem.cluster.accelerator.architecture == "gfx942":
        variables |= {
            "NVTE_CK_IS_V3_ATOMIC_FP32": "1",
            "PRIMUS_TURBO_ATTN_V3_ATOMIC_FP32": "1",
            "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
        }
    if config.moe_dispatcher == "deepep" and problem.model.is_moe:
        variables["PRIMUS_TURBO_MOE_DISPATCH_COMBINE_BACKEND"] = "TURBO"
    return variables


def render_environment(problem: TuningProblem, config: TrainingConfig) -> str:
    """Return the same variables as NAME=VALUE lines, as `--env-file` and `--from-env-file` take them."""
    return "".join(f"{name}={value}\n" for name, value in exports(problem, config).items())


def command(experiment: str, log: str, training_options: dict[str, object] | None = None) -> list[str]:
    """Return the command of one node, run in Primus's folder; options go over the experiment's keys."""
    options = [word for key, value in (training_options or {}).items() for word in (f"--{key}", str(value))]
    return ["bash", CLI, "direct", "--log_file", log, "--", "train", "pretrain", "--config", experiment, *options]


def node_environment(nodes: int, node_rank: int, gpus_per_node: int, address: str, port: int) -> dict[str, str]:
    """Return the variables by which the nodes of one job find each other."""
    return {
        "NNODES": str(nodes),
        "NODE_RANK": str(node_rank),
        "GPUS_PER_NODE": str(gpus_per_node),
        "MASTER_ADDR": address,
        "MASTER_PORT": str(port),
    }


def render(problem: TuningProblem, config: TrainingConfig) -> str:
    """Return a shell script that starts `best-primus.yaml` beside it, to be run on every node of the job."""
    nodes, per_node = problem.cluster.nodes, problem.cluster.gpus_per_node
    lines = [
        "#!/usr/bin/env bash",
        f"# Run on each of the {nodes} nodes, inside the Primus image, with NODE_RANK and MASTER_ADDR set.",
        "set -euo pipefail",
        f'experiment="$(cd "$(dirname "$0")" && pwd)/{EXPERIMENT}"',
        *(f"export {name}={shlex.quote(value)}" for name, value in exports(problem, config).items()),
        f"export NNODES={nodes} GPUS_PER_NODE={per_node}",
        'export NODE_RANK="${NODE_RANK:?set it to the number of this node, from 0}"',
        'export MASTER_ADDR="${MASTER_ADDR:?set it to the address of node 0}" MASTER_PORT="${MASTER_PORT:-1234}"',
        'cd "${PRIMUS_HOME:-/workspace/Primus}"',
        f'exec bash {CLI} direct -- train pretrain --config "$experiment" "$@"',
    ]
    return "\n".join(lines) + "\n"
