"""What each mechanism of the cost model brings: the shipped calibration with one taken away, not fitted again.

`make ablation` prints the table of docs/concepts/accuracy.md and replaces it there, between its two marks.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tunewright.calibration.assessment import assess
from tunewright.calibration.measured_row import MeasuredRow
from tunewright.calibration.reading import Format, read_rows
from tunewright.calibration.statistics import Errors, timed
from tunewright.domain.catalog_loader import shipped_catalog
from tunewright.domain.hardware import Calibration

ROOT = Path(__file__).parent.parent
GUIDE = ROOT / "docs" / "concepts" / "accuracy.md"
BEGIN, END = "<!-- make ablation -->\n", "<!-- end of make ablation -->"

Change = Callable[[MeasuredRow], MeasuredRow]


def switched(**switches: float) -> Change:
    """Return the change that gives every row these switches of its software."""
    changes: dict[str, Any] = dict(switches)
    return lambda row: replace(row, software=replace(row.software, **changes))


def at_starting_values(row: MeasuredRow) -> MeasuredRow:
    """Give the row's accelerator the calibration of a device that nobody measured."""
    cluster = row.problem.cluster
    accelerator = cluster.accelerator.model_copy(update={"calibration": Calibration()})
    cluster = cluster.model_copy(update={"accelerator": accelerator})
    return replace(row, problem=row.problem.model_copy(update={"cluster": cluster}))


CHANGES: dict[str, Change] = {
    "everything": lambda row: row,
    "without the host's launch floor": switched(captured_graphs=True),
    "all expert operands cast by one kernel": switched(fused_expert_casts=True),
    "flash attention everywhere": switched(flash_attention=True),
    "sequence parallel everywhere": switched(sequence_parallel=True),
    "without stalls at pipeline transfers": switched(overlaps_pipeline=True),
    "every gradient reduced in fp32": switched(gradient_bytes=4.0),
    "without overlap of tensor collectives": switched(overlaps_tensor=False),
    "without overlap of expert traffic": switched(overlaps_expert=False),
    "zero-bubble orders fixed for every runner": switched(automatic_orders=False),
    "calibration at its starting values": at_starting_values,
}


def errors_of(rows: Sequence[MeasuredRow], change: Change) -> Errors:
    """Return the errors of step time after a change."""
    return Errors.of([row.error for row in timed(assess([change(row) for row in rows]))])


def table() -> str:
    """Return the table as Markdown; errors in percent."""
    catalog = shipped_catalog()
    files: tuple[tuple[str, Format], ...] = (
        ("published_throughput", "published"),
        ("vtrain_single_node", "vtrain"),
        ("vtrain_multi_node", "vtrain"),
    )
    data = [read_rows((ROOT / f"tests/data/{name}.csv").read_text(), kind, catalog)[0] for name, kind in files]
    lines = ["| | published | vTrain, one node | vTrain, several nodes |", "|---|---|---|---|"]
    for name, change in CHANGES.items():
        published, single, several = (errors_of(rows, change) for rows in data)
        cells = [f"{100 * published.median:.1f} / {100 * published.p90:.1f}"]
        cells += [f"{100 * found.mean:.1f} / {100 * found.p90:.1f}" for found in (single, several)]
        lines.append(f"| {name} | {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    return "\n".join(lines)


def main() -> None:
    """Print the table and put it into the page."""
    text = GUIDE.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    GUIDE.write_text(f"{before}{BEGIN}{table()}\n{END}{rest.split(END)[1]}", encoding="utf-8")


if __name__ == "__main__":
    main()
