"""The text of a table as measurements and skipped rows. Called by the command line; pure."""

import csv
from typing import Literal

from tunewright.calibration.measured_row import MeasuredRow, SkippedRow, Unusable
from tunewright.calibration.published import published_row
from tunewright.calibration.vtrain import vtrain_row
from tunewright.domain.catalog_loader import Catalog
from tunewright.errors import InvalidInput

Format = Literal["published", "vtrain"]
_NEEDED = {"published": ("gpu", "n_gpus", "seq"), "vtrain": ("# GPUs", "global batch", "iteration time (ms)")}


def read_rows(table: str, table_format: Format, catalog: Catalog) -> tuple[list[MeasuredRow], list[SkippedRow]]:
    """Read every row of a CSV; raises `InvalidInput` where the columns are not the format's."""
    reader = csv.DictReader(table.splitlines())
    missing = [name for name in _NEEDED[table_format] if name not in (reader.fieldnames or ())]
    if missing:
        raise InvalidInput.of("--format", table_format, f"needs the column {missing[0]!r}: use the other format")
    used, skipped = [], []
    for index, row in enumerate(reader, start=1):
        identity = (row.get("id") or "").strip() or f"row-{index}"
        try:
            if table_format == "vtrain":
                used.append(vtrain_row(row, catalog, index))
            else:
                used.append(published_row(row | {"id": identity}, catalog))
        except Unusable as error:
            skipped.append(SkippedRow(identity, str(error)))
    return used, skipped


def format_of(table: str) -> Format:
    """Return the format that a table's header has."""
    header = next(iter(csv.reader(table.splitlines()[:1])), [])
    return "vtrain" if _NEEDED["vtrain"][0] in header else "published"
