"""The generated pages of docs/reference. `python -m docs.generate` writes them; a test holds them against the files."""

from collections.abc import Callable, Mapping
from pathlib import Path

from docs.generate.catalog import catalog_page
from docs.generate.command_line import command_line_page
from docs.generate.conditions import conditions_page
from docs.generate.custom_resource import custom_resource_page
from docs.generate.errors import errors_page
from docs.generate.failures import failures_page
from docs.generate.metrics import metrics_page
from tunewright.legality.catalogue import rule_catalogue

FOLDER = Path(__file__).parents[1] / "reference"
PAGES: Mapping[str, Callable[[], str]] = {
    "catalog.md": catalog_page,
    "cli.md": command_line_page,
    "conditions.md": conditions_page,
    "custom-resource.md": custom_resource_page,
    "errors.md": errors_page,
    "failure-classes.md": failures_page,
    "metrics.md": metrics_page,
    "rules.md": rule_catalogue,
}


def write_pages() -> None:
    """Write every page."""
    for name, make in PAGES.items():
        (FOLDER / name).write_text(make(), encoding="utf-8")
