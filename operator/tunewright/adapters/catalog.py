"""Which catalog a process has: the package's, with the presets of `$TUNEWRIGHT_CATALOG` beside it.

Called by the controller's wiring and by the command line. Trials need none: their request holds every number.
"""

from collections.abc import Mapping
from pathlib import Path

from tunewright.domain.catalog_loader import Catalog, extended_catalog, shipped_catalog
from tunewright.errors import CatalogError, InvalidInput

CATALOG_VARIABLE = "TUNEWRIGHT_CATALOG"


def catalog_of(environment: Mapping[str, str]) -> Catalog:
    """Return the catalog that the environment asks for.

    Raises `InvalidInput` where the variable names no folder, `CatalogError` with every preset in it that is wrong.
    """
    named = environment.get(CATALOG_VARIABLE, "")
    if not named:
        return shipped_catalog()
    folder = Path(named)
    if not folder.is_dir():
        raise InvalidInput.of(CATALOG_VARIABLE, named, "is no folder: name one with presets of yours, or unset it")
    try:
        return extended_catalog(folder)
    except CatalogError as error:
        raise CatalogError("\n".join(f"{CATALOG_VARIABLE}: {line}" for line in str(error).splitlines())) from None
