"""Tables of the command line. Pure: values in, Rich renderables out, at most 100 columns wide."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tunewright.domain.axes import describe
from tunewright.search.space import Space
from tunewright.units import GIB, format_gib, format_seconds

_MEMORY_HEADS = {
    "gradients": "grads",
    "optimizer": "optim.",
    "activations": "activ.",
    "communication": "comm.",
    "workspace": "work",
    "allocated": "alloc.",
}


def table(*columns: str, right: Sequence[str] = ()) -> Table:
    """Return an empty table in the house style: columns and space, no box."""
    made = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for column in columns:
        made.add_column(column, justify="right" if column in right else "left", overflow="fold")
    return made


def titled(title: str, body: RenderableType) -> RenderableType:
    """Put a bold line above a renderable; it may be wider than the table."""
    return Group(Text(f"\n{title}", style="bold"), body)


def candidates_table(space: Space, rows: Sequence[int]) -> Table:
    """Show ranked candidates with estimate and memory."""
    numbers = ("#", "estimated tokens/s/GPU", "step", "memory", "of HBM")
    made = table("#", "configuration", *numbers[1:], right=numbers)
    for place, row in enumerate(rows, start=1):
        made.add_row(
            str(place),
            describe(space.config(row)),
            f"{space.tokens_per_second_per_gpu[row]:,.0f}",
            format_seconds(float(space.step_seconds[row])),
            format_gib(float(space.allocated_bytes[row])),
            f"{space.memory_percent(row):.0f} %" + (" tight" if space.tight[row] else ""),
        )
    return made


def parts_table(space: Space, row: int, title: str) -> RenderableType:
    """Show where the time of a row's step goes."""
    parts = {name: float(seconds[row]) for name, seconds in space.parts.items()}
    return _parts(title, parts)


def step_table(estimated: Mapping[str, Any]) -> RenderableType:
    """Show the parts of an explained step and its totals."""
    title = (
        f"Step {format_seconds(estimated['stepSeconds'])}, estimated {estimated['tokensPerSecondPerGPU']:,.0f} "
        f"tokens/s/GPU, MFU {estimated['modelFlopsUtilisation']:.1%}, bubble {estimated['bubbleFraction']:.1%}"
    )
    return _parts(title, estimated["parts"])


def _parts(title: str, parts: Mapping[str, float]) -> RenderableType:
    made = table("part", "time", "share", right=("time", "share"))
    total = sum(parts.values())
    for name, seconds in sorted(parts.items(), key=lambda part: -part[1]):
        if seconds > 0:
            made.add_row(_words(name), format_seconds(seconds), f"{seconds / total:.1%}")
    return titled(title, made)


def rules_table(rules: Sequence[Mapping[str, Any]]) -> RenderableType:
    """Show every launch rule with its verdict."""
    made = table("", "rule", "says")
    for rule in rules:
        made.add_row("ok" if rule["ok"] else "NO", rule["rule"], rule["message"])
    return titled("Launch rules", made)


def memory_table(ranks: Sequence[Mapping[str, float]]) -> RenderableType:
    """Show each pipeline rank's memory by kind, in GiB."""
    kinds = [name for name in ranks[0] if name != "rank"]
    heads = [_MEMORY_HEADS.get(kind, kind) for kind in kinds]
    made = table("rank", *heads, right=("rank", *heads))
    for rank in ranks:
        made.add_row(str(rank["rank"]), *(f"{rank[kind] / GIB:.2f}" for kind in kinds))
    return titled("Memory by pipeline rank, GiB", made)


def node_table(plans: Sequence[tuple[int, Space]]) -> Table:
    """Show the best of each node count side by side."""
    numbers = ("nodes", "legal", "fitting", "estimated tokens/s/GPU", "tokens/s", "memory")
    made = table(*numbers[:3], "best", *numbers[3:], right=numbers)
    for nodes, space in plans:
        counts = space.counts
        if not counts.fitting:
            made.add_row(str(nodes), f"{counts.legal:,}", "0", "nothing fits", "-", "-", "-")
            continue
        best = int(space.ranking[0])
        speed = float(space.tokens_per_second_per_gpu[best])
        made.add_row(
            str(nodes),
            f"{counts.legal:,}",
            f"{counts.fitting:,}",
            describe(space.config(best)),
            f"{speed:,.0f}",
            f"{speed * space.problem.world_size:,.0f}",
            f"{space.memory_percent(best):.0f} %",
        )
    return made


def _words(name: str) -> str:
    """Turn a camelCase part name into words."""
    return "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name)
