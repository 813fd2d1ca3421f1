"""Reading the columns of one row: numbers, and what to say when one is missing. Called by `published` and `vtrain`."""

from collections.abc import Mapping

from tunewright.calibration.measured_row import Unusable

Row = Mapping[str, str]


def text(row: Row, name: str) -> str:
    """Return a column, empty where it is absent."""
    return (row.get(name) or "").strip()


def number(row: Row, name: str) -> float | None:
    """Return a column as a number, None where it is empty."""
    value = text(row, name)
    if not value:
        return None
    try:
        return float(value)
    except ValueError:
        raise Unusable(f"{name} is not a number: {value}") from None


def integer(row: Row, name: str, default: int | None = None) -> int:
    """Return a column as a whole number; without a default an empty one makes the row unusable."""
    value = number(row, name)
    if value is None:
        if default is None:
            raise Unusable(f"{name} is not stated")
        return default
    if value < 0 or value != int(value):
        raise Unusable(f"{name} is not a whole number: {text(row, name)}")
    return int(value)
