"""Training the candidate's model under its whole layout. Driven by `measure`, step by step."""

from dataclasses import dataclass

import torch
from torch import nn

from tunewright.domain.training_config import TrainingConfig
from tunewright.trial_protocol.request import TrialRequest
from tunewright_trial.failures import unsupported
from tunewright_trial.layers.context import LayerContext
from tunewright_trial.layers.parameters import initialise
from tunewright_trial.layers.recompute import RecomputePolicy
from tunewright_trial.number_format import dtype_of, uses_eight_bit
from tunewright_trial.parallel.layout import Groups, Layout
from tunewright_trial.parallel.optimizer import BucketOptimizer, Optimizer
from tunewright_trial.parallel.pipeline import RunBatch, batch_runner, build_chunks


@dataclass(frozen=True)
class Training:
    """One rank's share of a training job."""

    request: TrialRequest
    layout: Layout
    data_rank: int
    positions: torch.Tensor
    device: torch.device
    chunks: nn.ModuleList
    run_batch: RunBatch
    optimizer: Optimizer

    @classmethod
    def prepare(cls, request: TrialRequest, layout: Layout, rank: int, device: torch.device) -> "Training":
        """Build this rank's chunks, groups and optimizer, with the weights that every layout starts from."""
        config = request.config
        _check_runs(request)
        groups = Groups.create(layout, rank)
        context = training_context(request, groups, device)
        chunks = build_chunks(context, config, groups.pipeline.rank)
        whole = nn.ModuleList(chunk for _, chunk in chunks)
        initialise(whole, request.seed)
        optimizer = _optimizer(config, whole, groups, device)
        runner = batch_runner(context, config, chunks, groups.pipeline, micro_batches_of(request, layout))
        data_rank = layout.data_rank(rank)
        return cls(request, layout, data_rank, context.positions, device, whole, runner, optimizer)

    def step(self, number: int) -> tuple[float, float]:
        """Train one step; return this rank's loss and its part of the squared gradient norm."""
        tokens, targets = self._batch(number)
        self.optimizer.clear_gradients()
        loss = self.run_batch(tokens, targets)
        return loss, self.optimizer.step(self.request.learning_rate)

    def deviating_ranks(self) -> set[int]:
        """Return the ranks of this rank's replicas whose weights differ; every rank must call this."""
        return self.optimizer.deviating_ranks()

    def _batch(self, number: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return this rank's sequences of the random batch of step `number`, the same on every layout."""
        problem = self.request.problem
        generator = torch.Generator().manual_seed(self.request.seed * 1_000_003 + number)
        shape = (problem.global_batch_size, problem.sequence_length + 1)
        batch = torch.randint(problem.model.vocabulary_size, shape, generator=generator)
        mine = batch.chunk(self.layout.data)[self.data_rank].to(self.device)
        return mine[:, self.positions], mine[:, self.positions + 1]


def micro_batches_of(request: TrialRequest, layout: Layout) -> int:
    """Return how many micro batches one rank runs per step: B / (b·D)."""
    count, rest = divmod(request.problem.global_batch_size, request.config.micro_batch_size * layout.data)
    if rest or not count:
        raise unsupported(
            f"globalBatchSize {request.problem.global_batch_size} is not divisible by microBatchSize "
            f"{request.config.micro_batch_size} times {layout.data} data ranks"
        )
    return count


def recompute_policy(request: TrialRequest) -> RecomputePolicy:
    """Return the candidate's recomputation, in its launcher's meaning."""
    config = request.config
    return RecomputePolicy(
        config.recompute_granularity,
        config.recompute_modules,
        config.recompute_method,
        config.recompute_num_layers,
        by_operations=request.problem.backend == "torchtitan",
    )


def training_context(request: TrialRequest, groups: Groups, device: torch.device) -> LayerContext:
    """Return the shapes of one rank, with splits whose values really travel."""
    problem, config = request.problem, request.config
    return LayerContext(
        model=problem.model,
        sequence_length=problem.sequence_length,
        sequence_slice=problem.sequence_length // config.context_parallel_size,
        micro_batch_size=config.micro_batch_size,
        dtype=dtype_of(config.precision),
        device=device,
        eight_bit=uses_eight_bit(config.precision, device),
        tensor=groups.tensor,
        context=groups.context,
        expert=groups.expert,
        expert_tensor=groups.expert_tensor,
        recompute=recompute_policy(request),
    )


def _optimizer(config: TrainingConfig, whole: nn.ModuleList, groups: Groups, device: torch.device) -> Optimizer:
    if config.optimizer == "fsdp2":
        from tunewright_trial.parallel.fully_sharded import FullyShardedOptimizer  # slow to import

        return FullyShardedOptimizer(whole[0], groups.copies(), device)
    sharded = config.optimizer == "distributed"
    return BucketOptimizer(whole, groups.copies(), sharded, groups.data.size)


def _check_runs(request: TrialRequest) -> None:
    model, config = request.problem.model, request.config
    context, length = config.context_parallel_size, request.problem.sequence_length
    if model.num_multi_token_prediction_layers:
        raise unsupported("multi-token prediction is not measured by this runner: use the primus backend")
    if config.optimizer == "fsdp2" and config.pipeline_parallel_size * config.expert_parallel_size > 1:
        raise unsupported("optimizer fsdp2 needs pipelineParallelSize 1 and expertParallelSize 1: use distributed")
    if config.optimizer == "fsdp2" and config.expert_tensor_parallel_size > 1:
        raise unsupported("optimizer fsdp2 needs expertTensorParallelSize 1: use distributed")
    if context > 1 and length % (2 * context):
        raise unsupported(f"contextParallelSize {context}: sequenceLength {length} must be a multiple of {2 * context}")
    if context > 1 and model.sliding_window:
        raise unsupported("contextParallelSize > 1 needs full attention, the model has a sliding window: use 1")
    check_dispatcher(config)


def check_dispatcher(config: TrainingConfig) -> None:
    """Raise Unsupported for a dispatcher that this runner does not have."""
    if config.moe_dispatcher != "all-to-all":
        raise unsupported(f"dispatcher {config.moe_dispatcher} does not run in the builtin backend: use all-to-all")
