"""What the page tells in rows: the question, the cost, the filtered, how to reproduce. Called by `page`; pure."""

from collections.abc import Iterator
from typing import NamedTuple

from tunewright.domain.axes import AXES, describe
from tunewright.domain.parameters import ParameterCounts
from tunewright.domain.training_config import TrainingConfig
from tunewright.domain.value import camel_case
from tunewright.planner.settings import PlannerSettings, Reference
from tunewright.report.story import Story
from tunewright.units import format_gib, format_seconds

MOST_FILTERED = 20
MOST_CANDIDATES = 15


class Fact(NamedTuple):
    """A name and what there is to say."""

    name: str
    text: str


class Change(NamedTuple):
    """One field in which the best differs from the baseline."""

    field: str
    baseline: str
    best: str


class Filtered(NamedTuple):
    """A proposal that the memory model rejected."""

    configuration: str
    proposed_by: str
    needs: str
    over: str


def question(story: Story) -> str:
    """Return what was asked, in one sentence."""
    problem, cluster = story.problem, story.problem.cluster
    size = ParameterCounts.of(problem.model).total
    return (
        f"What is the fastest way to train {problem.model.name} ({_count(size)} parameters) on "
        f"{cluster.nodes} × {cluster.gpus_per_node} {cluster.accelerator.name}, with sequences of "
        f"{problem.sequence_length:,} tokens and a global batch of {problem.global_batch_size:,} sequences?"
    )


def _count(parameters: int) -> str:
    for unit, size in (("T", 10**12), ("B", 10**9), ("M", 10**6)):
        if parameters >= size:
            return f"{parameters / size:.3g} {unit}"
    return f"{parameters:,}"


def asked(story: Story) -> list[Fact]:
    """Return the conditions of the search."""
    problem, settings, counts = story.problem, story.settings, story.summary.space
    facts = [
        Fact("Baseline to beat", describe(settings.baseline)),
        Fact("Precision, launcher", f"{problem.precision}, {problem.backend}"),
        Fact("Network between nodes", problem.cluster.network.name),
        Fact(
            "Search space",
            f"{counts.legal:,} legal configurations, of which {counts.fitting:,} fit in memory ({counts.tight:,} "
            f"tightly) and {counts.filtered:,} were filtered",
        ),
        Fact("Proposals", _proposers(settings)),
        Fact("Budget", _budget(settings)),
    ]
    return facts + ([_reference(settings.reference)] if settings.reference is not None else [])


def _reference(reference: Reference) -> Fact:
    detail = ", ".join(text for text in (reference.precision, reference.source) if text)
    figure = f"{reference.tokens_per_second_per_gpu:,.0f} tokens/s/GPU"
    return Fact("Reference", f"{figure} ({detail})" if detail else figure)


def _proposers(settings: PlannerSettings) -> str:
    if settings.llm is None or settings.explore.strategy != "LLM":
        return "a sweep of every axis, then a surrogate model"
    return f"a sweep of every axis, then {settings.llm.model} and a surrogate model in turns"


def _budget(settings: PlannerSettings) -> str:
    budget = settings.budget
    parts = [f"{budget.max_trials} profiles"]
    if budget.max_gpu_hours is not None:
        parts.append(f"{budget.max_gpu_hours:g} GPU hours")
    if budget.max_duration_seconds is not None:
        parts.append(format_seconds(budget.max_duration_seconds))
    if settings.llm is not None and budget.max_llm_cost_usd is not None:
        parts.append(f"{budget.max_llm_cost_usd:g} USD for the LLM")
    return ", ".join(parts)


def changes(baseline: TrainingConfig, best: TrainingConfig) -> list[Change]:
    """Return the fields that differ, in the order of the axes."""
    pairs = ((axis.field, getattr(baseline, axis.field), getattr(best, axis.field)) for axis in AXES)
    return [Change(camel_case(field), _text(was), _text(now)) for field, was, now in pairs if was != now]


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return " + ".join(value) or "none"
    return str(value).lower() if isinstance(value, bool) else str(value)


def filtered(story: Story) -> list[Filtered]:
    """Return the proposals that were rejected for their memory, in the order in which they were made."""
    limit = story.memory_limit_bytes
    rows = []
    for candidate in story.summary.candidates:
        row = story.space.row_of(candidate.config) if candidate.filtered else None
        if row is not None:
            size = float(story.space.allocated_bytes[row])
            over = format_gib(size - limit)
            rows.append(Filtered(candidate.configuration, candidate.proposed_by, format_gib(size), over))
    return rows[:MOST_FILTERED]


def costs(story: Story) -> list[Fact]:
    """Return what the run used, beside what was expected and what filtering saved."""
    return list(_costs(story))


def _costs(story: Story) -> Iterator[Fact]:
    summary, spent, counters = story.summary, story.summary.spent, story.summary.counters
    expected = summary.forecast
    yield Fact("GPU hours", f"{spent.gpu_hours:,.2f} (forecast {expected.gpu_hours:,.2f})")
    yield Fact("GPU hours saved", f"{spent.gpu_hours_saved:,.2f}, by proposals that needed no trial")
    taken = f"{format_seconds(spent.duration_seconds)}{' of the stand-in' if summary.simulated else ''}"
    yield Fact("Active time", f"{taken} (forecast {format_seconds(expected.duration_seconds)})")
    if spent.queued_seconds:
        yield Fact("Waited in queues", format_seconds(spent.queued_seconds))
    ended = f"{counted(counters.measured, 'configuration')} measured, {counted(counters.failed, 'trial')} failed"
    profiles = f"{counters.profiles} of at most {counters.max_profiles} profiles"
    yield Fact("Trials", f"{profiles}, {ended}{_failures(story)}")
    yield Fact(
        "Proposals without a trial",
        f"{counters.filtered} filtered by memory, {counters.pruned} pruned, {counters.reused} projected from a "
        f"profile that existed, {counters.rejected} rejected",
    )
    if spent.llm_calls:
        yield Fact(
            "LLM", f"{counted(spent.llm_calls, 'call')}, {spent.llm_tokens:,} tokens, {spent.llm_cost_usd:,.4f} USD"
        )


def counted(count: int, noun: str) -> str:
    """Return a count with its noun.

    >>> counted(1, "trial"), counted(2, "trial")
    ('1 trial', '2 trials')
    """
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _failures(story: Story) -> str:
    classes = story.summary.counters.failed_by_class
    return f" ({', '.join(f'{item.count} {item.failure}' for item in classes)})" if classes else ""


def provenance(story: Story) -> list[Fact]:
    """Return what identifies the run and what made it."""
    header = story.header
    facts = [
        Fact("Run", f"{header.run}, {header.run_uid}"),
        Fact("Begun", header.at),
        Fact("Tunewright", header.operator_version),
        Fact("Catalog", header.catalog_version),
        Fact("Random seed", str(story.settings.random_seed)),
        Fact("Last line of the ledger", f"sha256:{story.head}"),
    ]
    optional = {
        "Image of the trials": header.image,
        "Repeats": header.rerun_of,
        "Warm start": header.warm_start_of,
    }
    return facts + [Fact(name, text) for name, text in optional.items() if text]


def commands(story: Story) -> list[str]:
    """Return the commands that check, explain and use the run, beside its ledger."""
    lines = ["tunewright replay --strict run.jsonl"]
    if story.best is not None:
        lines += [
            f"tunewright why run.jsonl {story.best.trial}",
            "tunewright export best run.jsonl --out best",
            "tunewright apply-to experiment.yaml run.jsonl",
        ]
    return lines
